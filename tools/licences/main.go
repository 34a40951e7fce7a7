// Command licences checks, without the network, that every module that the
// packages of a folder are built or tested with has a licence file of a kind
// that the project permits, and prints each with its kind. It knows licences by
// their fixed sentences and judges no text that it does not know: that fails.
// The npm packages of web/ are checked by the names in its lock file.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// permitted are the licences that may be part of what is shipped, each with a
// sentence that its text cannot be without.
func permitted() [][2]string {
	return [][2]string{
		{"Apache-2.0", "apache license version 2.0"},
		{"MPL-2.0", "mozilla public license version 2.0"},
		{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
		{"BSD", "redistribution and use in source and binary forms, with or without modification, are permitted"},
		{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"},
		{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"},
		{"Unlicense", "this is free and unencumbered software released into the public domain"},
	}
}

// refused are sentences of licences that are not permitted, wherever they
// stand beside a permitted one.
func refused() []string {
	return []string{"gnu affero general public license", "gnu general public license version", "business source license", "server side public license", "commons clause"}
}

// ours are the modules of the project itself.
const ours = "github.com/onceward/onceward"

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := run(dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(dir string, w io.Writer) error {
	cmd := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", "./...") //nolint:noctx // it ends with this program
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the modules of %s: %w", dir, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	var errs []error
	for _, line := range slices.Compact(lines) {
		path, folder, found := strings.Cut(line, "\t")
		if !found || path == ours || strings.HasPrefix(path, ours+"/") {
			continue
		}
		kind, err := kindOf(os.DirFS(folder))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			continue
		}
		if _, err := fmt.Fprintf(w, "%-10s %s\n", kind, path); err != nil {
			return err
		}
	}
	return errors.Join(append(errs, checkNPM(os.DirFS(filepath.Join(dir, "web")), w))...)
}
