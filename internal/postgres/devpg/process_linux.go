//go:build linux

package devpg

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

const locale = "C.UTF-8"

// dieWithParent makes the kernel send SIGINT, a fast shutdown, when the thread
// that forks ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// postmasterState tells whether pid is a server of data: a postmaster's working
// directory is its data folder.
func postmasterState(pid int, data string) state {
	cwd, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if errors.Is(err, fs.ErrNotExist) {
		if _, selfErr := os.Stat("/proc/self/cwd"); selfErr != nil {
			return unknown // no /proc here: its silence says nothing
		}
		return notRunning
	}
	want, wantErr := os.Stat(data)
	if err != nil || wantErr != nil {
		return unknown
	}
	if os.SameFile(cwd, want) {
		return running
	}
	return notRunning
}
