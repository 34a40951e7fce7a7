// Package docs owns the guides for people, embedded so that a service shows the
// ones that it was built with. It holds text and no logic: internal/api/reference
// renders it.
package docs

import "embed"

//go:embed *.md
var guides embed.FS

// Guides are the Markdown files of this folder.
func Guides() embed.FS { return guides }
