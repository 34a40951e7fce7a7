package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAPackageOfNPMIsKnownByItsNameAndItsText(t *testing.T) {
	t.Parallel()
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy"
	for name, tt := range map[string]struct {
		entry     string // of the lock file
		installed string // text of LICENSE; empty: not installed
		fault     string // in the error; empty: none
	}{
		"shipped":                       {`"license": "MIT"`, "", ""},
		"shipped and installed":         {`"license": "MIT"`, mit, ""},
		"whose text is another":         {`"license": "MIT"`, "GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3", "affero"},
		"either of two":                 {`"license": "(GPL-2.0 OR MIT)"`, "", ""},
		"both of two":                   {`"license": "(GPL-2.0 AND MIT)"`, "", "none that is permitted"},
		"copyleft":                      {`"license": "AGPL-3.0-only"`, "", "AGPL-3.0-only"},
		"no name":                       {`"version": "1.0.0"`, "", "names no licence"},
		"Python's, shipped":             {`"license": "Python-2.0"`, "", "Python-2.0"},
		"Python's, for the build alone": {`"license": "Python-2.0", "dev": true`, "", ""},
		"copyleft, for the build alone": {`"license": "GPL-3.0", "dev": true`, "", "GPL-3.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			web := fstest.MapFS{"package-lock.json": &fstest.MapFile{Data: fmt.Appendf(nil, `{"packages": {"": {}, "node_modules/p": {%s}}}`, tt.entry)}}
			if tt.installed != "" {
				web["node_modules/p/LICENSE"] = &fstest.MapFile{Data: []byte(tt.installed)}
			}
			var out strings.Builder
			err := checkNPM(web, &out)
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%v, want %q", err, tt.fault)
			}
			if shown := strings.Contains(out.String(), "p "); shown != (err == nil && !strings.Contains(tt.entry, "dev")) {
				t.Errorf("shown: %q", out.String())
			}
		})
	}
}

// What the dashboard is made of today is permitted, and all of it is seen.
func TestTheDashboardsOwnPackagesArePermitted(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := checkNPM(os.DirFS("../../web"), &out); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"preact", "uplot"} {
		if !strings.Contains(out.String(), " "+want+" ") {
			t.Errorf("%s is not among\n%s", want, out.String())
		}
	}
}
