package main

import (
	"testing"
	"testing/fstest"
)

func TestALicenceIsKnownByItsText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // empty: an error
	}{
		"MIT":                     {map[string]string{"LICENSE": "Permission is hereby granted, free of\n charge, to any person obtaining a copy"}, "MIT"},
		"Apache":                  {map[string]string{"license.txt": "  Apache License\n  Version 2.0, January 2004"}, "Apache-2.0"},
		"MPL":                     {map[string]string{"LICENCE": "Mozilla Public License Version 2.0"}, "MPL-2.0"},
		"AGPL":                    {map[string]string{"COPYING": "GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3"}, ""},
		"GPL beside MIT":          {map[string]string{"LICENSE": "Permission is hereby granted, free of charge, to any person obtaining a copy", "COPYING": "GNU General Public License, version 2"}, ""},
		"the Business Source one": {map[string]string{"LICENSE": "Business Source License 1.1"}, ""},
		"a text of its own":       {map[string]string{"LICENSE": "Do what you want on Sundays."}, ""},
		"no file":                 {map[string]string{"README.md": "MIT"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := fstest.MapFS{}
			for path, text := range tt.files {
				files[path] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := kindOf(files)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
