//go:build unix

package main

import (
	"slices"
	"strings"
)

// environment is KEY=value, as the system hands it over.
type environment []string

// get is a variable, or fallback where it is unset or empty.
func (e environment) get(name, fallback string) string {
	value := fallback
	for _, entry := range e {
		if v, ok := strings.CutPrefix(entry, name+"="); ok && strings.TrimSpace(v) != "" {
			value = v
		}
	}
	return value
}

// with is the environment with the given variables, and none of those that
// would say the same in another way.
func (e environment) with(set []string, unset ...string) environment {
	for _, entry := range set {
		name, _, _ := strings.Cut(entry, "=")
		unset = append(unset, name)
	}
	kept := slices.DeleteFunc(slices.Clone(e), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(unset, name)
	})
	return append(kept, set...)
}
