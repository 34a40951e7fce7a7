package main

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

//nolint:gochecknoglobals // compiled once
var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-.].*)?$`)
	blanks      = regexp.MustCompile(`[\s*#"/]+`)
)

var errNoLicence = errors.New("it has no licence file: without one nobody may use it; leave the module out")

// kindOf names the licence of a module by the files in its folder.
func kindOf(module fs.FS) (kind string, err error) {
	entries, err := fs.ReadDir(module, ".")
	if err != nil {
		return "", err
	}
	err = errNoLicence
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".csv") { // a table of those of others
			continue
		}
		text, readErr := fs.ReadFile(module, entry.Name())
		if readErr != nil {
			return "", readErr
		}
		found, judgeErr := judge(string(text))
		if judgeErr != nil {
			return "", fmt.Errorf("%s: %w", entry.Name(), judgeErr)
		}
		kind, err = found, nil
	}
	return kind, err
}

// judge names the licence of a text.
func judge(text string) (kind string, err error) {
	text = strings.ToLower(blanks.ReplaceAllString(text, " "))
	text = strings.ReplaceAll(text, "license, version", "license version")
	for _, sentence := range refused() {
		if i := strings.Index(text, sentence); i >= 0 && i < 400 { // not where another licence only speaks of it
			return "", fmt.Errorf("it is under the %s, which may not be part of what is shipped", sentence)
		}
	}
	for _, known := range permitted() {
		if strings.Contains(text, known[1]) {
			return known[0], nil
		}
	}
	return "", errors.New("its licence is none that is permitted (tools/licences): read it, and add its kind or leave the module out")
}
