//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// childWaitDelay bounds waiting for the end of a dead child's output.
const childWaitDelay = time.Second

// child is a running program.
type child struct {
	name string
	log  *childLog
	cmd  *exec.Cmd

	done    chan struct{} // closed when the process has ended
	waitErr error         // set before done is closed
}

// startChild runs the binary with that environment. What it writes goes to log.
func startChild(name, binary string, env environment, log *childLog) (*child, error) {
	cmd := exec.Command(binary) //nolint:noctx // it is stopped in its turn, by stop
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.WaitDelay = childWaitDelay
	// A group of its own: a Ctrl-C is for us, who pass it on in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	c := &child{name: name, log: log, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal follows the thread that forks, not the
		// process: this one is kept until the child has ended, and not given
		// back, so that it ends too.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.waitErr = cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// died is the sentence about a child that ended by itself.
func (c *child) died() error {
	how := "exit status 0"
	if c.waitErr != nil {
		how = c.waitErr.Error()
	}
	return fmt.Errorf("the %s ended by itself (%s); the end of its log, %s, was:\n%s", c.name, how, c.log.path, c.log.tail())
}

// stop asks the child to end, and ends it when ctx does. A child that has ended
// by itself is no news here: died tells of it.
func (c *child) stop(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it ends at this moment
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("the %s did not end in time and was killed; its log is %s", c.name, c.log.path)
	}
	if c.waitErr != nil && !endedBy(c.cmd, syscall.SIGTERM) {
		return fmt.Errorf("the %s did not end well (%w); its log is %s", c.name, c.waitErr, c.log.path)
	}
	return nil
}

// endedBy says whether a command that has been waited for was ended by the
// signal: one that has just been started does not catch it yet.
func endedBy(cmd *exec.Cmd, signal syscall.Signal) bool {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// binaryBeside is a program in the folder of this one, where `make` puts it.
func binaryBeside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the folder of this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built: use `make run`, which builds it", path)
	}
	return path, nil
}
