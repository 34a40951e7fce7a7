//go:build unix && !linux

package fault_test

import "errors"

func mount(string) error { return errors.New("not on this system") }

func unmount(string) error { return nil }
