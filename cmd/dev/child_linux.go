//go:build linux

package main

import "syscall"

// dieWithParent makes the kernel end the child if this process is killed. There
// is nothing to finish in good order then: its database goes at the same time.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
