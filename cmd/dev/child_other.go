//go:build unix && !linux

package main

import "syscall"

// dieWithParent does nothing: only Linux has such a signal.
func dieWithParent(*syscall.SysProcAttr) {}
