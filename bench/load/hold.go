//go:build linux

package load

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Hold opens so many connections, sends the request on each and reads its
// answer, and leaves them idle until release is called.
func Hold(addr string, connections int, request []byte) (release func(), err error) {
	var fds []int
	release = func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}
	in := make([]byte, firstBuffer)
	for i := range connections {
		fd, err := open(addr)
		if err == nil {
			fds = append(fds, fd)
			err = unix.SetNonblock(fd, false)
		}
		if err == nil {
			err = ask(fd, request, in)
		}
		if err != nil {
			release()
			return nil, fmt.Errorf("hold connection %d: %w", i+1, err)
		}
	}
	return release, nil
}

// ask sends a request on a socket that blocks and waits for the whole answer.
func ask(fd int, request, in []byte) error {
	if _, err := unix.Write(fd, request); err != nil {
		return err
	}
	for n := 0; n < len(in); {
		read, err := unix.Read(fd, in[n:])
		if err != nil {
			return err
		}
		if read == 0 {
			return errors.New("the server closed a connection")
		}
		n += read
		if _, used, _, err := response(in[:n], nil); err != nil || used > 0 {
			return err
		}
	}
	return errors.New("the answer is larger than was expected")
}
