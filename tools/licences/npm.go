package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// permittedNames are the licences of permitted, as SPDX names them: npm's lock
// file has the name that each package gives itself.
func permittedNames() []string {
	return []string{"Apache-2.0", "MPL-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "0BSD", "ISC", "Unlicense"}
}

// toolNames are further ones for what builds the dashboard, and is no part of it.
func toolNames() []string { return []string{"Python-2.0", "CC0-1.0", "BlueOak-1.0.0"} }

// lockFile is what of package-lock.json is looked at.
type lockFile struct {
	Packages map[string]struct { // by folder; the empty one is ours
		Version string `json:"version"`
		License string `json:"license"`
		Dev     bool   `json:"dev"`
		Link    bool   `json:"link"`
	} `json:"packages"`
}

// checkNPM judges what web/package-lock.json locks, and writes down what the
// built dashboard holds. Where that is installed, its licence's text is read too.
func checkNPM(web fs.FS, w io.Writer) error {
	text, err := fs.ReadFile(web, "package-lock.json")
	if err != nil {
		return err
	}
	var lock lockFile
	if err := json.Unmarshal(text, &lock); err != nil {
		return fmt.Errorf("web/package-lock.json: %w", err)
	}
	folders := make([]string, 0, len(lock.Packages))
	for folder, p := range lock.Packages {
		if folder != "" && !p.Link {
			folders = append(folders, folder)
		}
	}
	if len(folders) == 0 {
		return errors.New("web/package-lock.json locks nothing: this looks past it")
	}
	slices.Sort(folders)
	var errs []error
	for _, folder := range folders {
		p := lock.Packages[folder]
		allowed := permittedNames()
		if p.Dev {
			allowed = append(allowed, toolNames()...)
		}
		err := judgeName(p.License, allowed)
		if !p.Dev && err == nil {
			_, err = fs.Stat(web, folder)
			if err == nil {
				_, err = kindOf(sub(web, folder))
			} else if errors.Is(err, fs.ErrNotExist) {
				err = nil // not installed
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s of web/: %w", folder, err))
			continue
		}
		if !p.Dev {
			if _, err := fmt.Fprintf(w, "%-10s %s %s (npm)\n", p.License, strings.TrimPrefix(folder, "node_modules/"), p.Version); err != nil {
				return err
			}
		}
	}
	return errors.Join(errs...)
}

// sub is a folder that is there.
func sub(files fs.FS, folder string) fs.FS {
	below, _ := fs.Sub(files, folder) // fails for a name that is not valid alone
	return below
}

// judgeName reads an SPDX expression of OR and AND without nesting: of what OR
// joins, one must be permitted whole.
func judgeName(expression string, allowed []string) error {
	if expression == "" {
		return errors.New("it names no licence: without one nobody may use it; leave the package out")
	}
	for alternative := range strings.SplitSeq(strings.Trim(expression, "()"), " OR ") {
		if !slices.ContainsFunc(strings.Split(alternative, " AND "), func(name string) bool { return !slices.Contains(allowed, name) }) {
			return nil
		}
	}
	return fmt.Errorf("its licence %s is none that is permitted (tools/licences): read it, and add its name or leave the package out", expression)
}
