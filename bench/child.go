//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is a process of ours: an API, the naive server, Redis.
type child struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	done chan struct{} // closed when it has ended
}

// startChild runs a program; what it writes goes to log. It dies with us.
func startChild(name string, environ []string, log *os.File, program string, args ...string) (*child, error) {
	cmd := exec.Command(program, args...) //nolint:noctx // stop ends it
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, log, log
	// A group of its own: a Ctrl-C is for us, who end it in its turn.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c := &child{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal follows the thread that forks: it is kept
		// until the child has ended, and not given back.
		runtime.LockOSThread()
		err := cmd.Start()
		if started <- err; err == nil {
			_ = cmd.Wait() // stop asks how it ended
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

const stopTimeout = 20 * time.Second

// stop asks the child to end, and ends it where it does not.
func (c *child) stop() error {
	defer func() { _ = c.log.Close() }()
	select {
	case <-c.done:
		return fmt.Errorf("%s ended before its time (%s); its log ends:\n%s", c.name, c.cmd.ProcessState, c.tail())
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // fails only if it ends at this moment
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.done
		return fmt.Errorf("%s did not end within %s", c.name, stopTimeout)
	}
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("%s did not end well (%s); its log ends:\n%s", c.name, c.cmd.ProcessState, c.tail())
	}
	return nil
}

// tail is the end of the child's log.
func (c *child) tail() string {
	const enough = 4096
	info, err := c.log.Stat()
	if err != nil {
		return err.Error()
	}
	text := make([]byte, min(enough, info.Size()))
	n, _ := c.log.ReadAt(text, info.Size()-int64(len(text))) // what can be read is shown
	return string(text[:n])
}

// eventually asks again until the answer is nil, the child ends, or the time
// is up.
func (c *child) eventually(ctx context.Context, within time.Duration, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("%s ended (%s); its log ends:\n%s", c.name, c.cmd.ProcessState, c.tail())
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s did not answer within %s", c.name, within), err)
		case <-ticker.C:
		}
	}
}
