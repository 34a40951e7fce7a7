// Package web owns the dashboard's built files: what Vite makes of web/src in
// web/dist, embedded.
//
// It must not serve them or know anything of the service. Without a build it
// holds nothing but a placeholder, and whoever serves it says how to make one.
package web

import (
	"embed"
	"io/fs"
)

// dist/.gitkeep is committed, so that there is always something to embed; the
// build copies another from web/public.
//
//go:embed all:dist
var dist embed.FS

// Dist is the built files by their address below /dashboard/; index.html is the
// page. ok is false where the dashboard has not been built.
func Dist() (files fs.FS, ok bool) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, false // only for a name that is not valid
	}
	_, err = fs.Stat(files, "index.html")
	return files, err == nil
}
