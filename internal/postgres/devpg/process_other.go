//go:build unix && !linux

package devpg

import (
	"errors"
	"syscall"
)

const locale = "C"

// dieWithParent does nothing: there is no such signal here, and the watchdog
// does the work.
func dieWithParent(*syscall.SysProcAttr) {}

// postmasterState tells only whether pid is any process at all.
func postmasterState(pid int, _ string) state {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return notRunning
	}
	return unknown
}
