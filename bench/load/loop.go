//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	firstBuffer  = 16 << 10
	eventsAtOnce = 256
	// longestWait is how long a quiet loop sleeps before it looks at ctx.
	longestWait = 100 * time.Millisecond
	// shortestTimer keeps an open loop from setting its timer more often than
	// it can send.
	shortestTimer = 20 * time.Microsecond
)

// conn is one keep-alive connection.
type conn struct {
	fd     int
	place  int // among conns
	script Script
	due    time.Time // of the request in flight
	busy   bool
	ended  bool // its script has nothing more
	unsent []byte
	full   bool // the socket took no more of unsent: epoll is asked for room
	in     []byte
	n      int // bytes of in that have come
	room   []byte
}

// loop is a run: one goroutine, one epoll.
type loop struct {
	config  Config
	started time.Time
	epoll   int
	timer   int // open loop only; -1 in a closed one
	conns   []*conn
	idle    []*conn // open loop: those that may be sent on
	issued  int64   // open loop: requests so far
	begun   bool

	inFlight  int
	measuring bool
	stopped   bool // nothing more is sent
	result    Result
}

func newLoop(c Config) (*loop, error) {
	l := &loop{config: c, timer: -1, epoll: -1}
	for i := range l.result.Latency {
		l.result.Latency[i] = NewHistogram()
	}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	for i, script := range c.Scripts {
		opened, err := open(c.Addrs[i%len(c.Addrs)])
		if err == nil {
			l.conns = append(l.conns, &conn{fd: opened, place: i, script: script, in: make([]byte, firstBuffer)})
			err = l.watch(unix.EPOLL_CTL_ADD, opened, unix.EPOLLIN, i)
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("open connection %d: %w", i+1, err)
		}
	}
	if c.Rate > 0 {
		l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err == nil {
			err = l.watch(unix.EPOLL_CTL_ADD, l.timer, unix.EPOLLIN, -1)
		}
		if err != nil {
			l.close()
			return nil, fmt.Errorf("make a timer: %w", err)
		}
	}
	return l, nil
}

// open connects, and only then stops blocking.
func open(addr string) (int, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().Is4() {
		return 0, fmt.Errorf("%q is no IPv4 address and port", addr)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// watch asks for events of fd; they carry place, the timer's -1.
func (l *loop) watch(op, fd int, events uint32, place int) error {
	return unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(place)})
}

func (l *loop) close() {
	for _, c := range l.conns {
		_ = unix.Close(c.fd)
	}
	for _, fd := range []int{l.timer, l.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// turn goes round until the time has come, or there is nothing more to wait
// for: every script has ended, or nothing is sent any more and nothing is in
// flight.
func (l *loop) turn(ctx context.Context, until time.Time) error {
	if err := l.begin(); err != nil {
		return err
	}
	var events [eventsAtOnce]unix.EpollEvent
	for {
		now := l.config.NowFunc()
		if !now.Before(until) || l.over() {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.dispatch(now); err != nil {
			return err
		}
		wait := min(longestWait, until.Sub(now))
		n, err := unix.EpollWait(l.epoll, events[:], int(wait/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for answers: %w", err)
		}
		for i := range max(n, 0) {
			if err := l.handle(events[i]); err != nil {
				return err
			}
		}
	}
}

func (l *loop) over() bool {
	if l.stopped {
		return l.inFlight == 0
	}
	for _, c := range l.conns {
		if !c.ended || c.busy {
			return false
		}
	}
	return true
}

// begin sends the first request on every connection of a closed loop, and
// makes all of an open one's idle.
func (l *loop) begin() error {
	if l.begun {
		return nil
	}
	l.begun = true
	for _, c := range l.conns {
		if l.timer >= 0 {
			l.idle = append(l.idle, c)
		} else if err := l.send(c, l.config.NowFunc()); err != nil {
			return err
		}
	}
	return nil
}

// dispatch sends what is due in an open loop, and sets the timer for the rest.
func (l *loop) dispatch(now time.Time) error {
	if l.timer < 0 || l.stopped {
		return nil
	}
	for len(l.idle) > 0 {
		due := l.started.Add(time.Duration(float64(l.issued) / l.config.Rate * float64(time.Second)))
		if wait := due.Sub(now); wait > 0 {
			at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(wait, shortestTimer)))}
			return unix.TimerfdSettime(l.timer, 0, &at, nil)
		}
		c := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		l.issued++
		if err := l.send(c, due); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) handle(event unix.EpollEvent) error {
	if event.Fd < 0 {
		var count [8]byte
		_, _ = unix.Read(l.timer, count[:]) // that it has gone off is all there is to know
		return nil
	}
	c := l.conns[event.Fd]
	if event.Events&unix.EPOLLOUT != 0 && len(c.unsent) > 0 {
		if err := l.flush(c); err != nil {
			return err
		}
	}
	if event.Events&^unix.EPOLLOUT == 0 {
		return nil
	}
	return l.receive(c)
}

func (l *loop) send(c *conn, due time.Time) error {
	c.unsent = c.script.Next()
	if c.unsent == nil {
		c.ended = true
		return nil
	}
	c.due, c.busy, c.n = due, true, 0
	l.inFlight++
	return l.flush(c)
}

// flush writes what is unsent, as far as there is room.
func (l *loop) flush(c *conn) error {
	n, err := unix.Write(c.fd, c.unsent)
	switch {
	case err != nil && !errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("send: %w", err)
	case err == nil:
		c.unsent = c.unsent[n:]
	}
	full := len(c.unsent) > 0
	if full == c.full {
		return nil
	}
	c.full = full
	events := uint32(unix.EPOLLIN)
	if full {
		events |= unix.EPOLLOUT
	}
	return l.watch(unix.EPOLL_CTL_MOD, c.fd, events, c.place)
}

// receive reads what has come; a whole answer is measured and judged, and the
// next request sent.
func (l *loop) receive(c *conn) error {
	if c.n == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := unix.Read(c.fd, c.in[c.n:])
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("receive: %w", err)
	case n == 0:
		return errors.New("the server closed a connection")
	case !c.busy:
		return errors.New("the server sent something that nobody asked for")
	}
	c.n += n
	answer, used, room, err := response(c.in[:c.n], c.room)
	if c.room = room; err != nil || used == 0 {
		return err
	}
	if used < c.n {
		return errors.New("the server sent more than one answer")
	}
	done, err := c.script.Answer(answer)
	if err != nil {
		return err
	}
	now := l.config.NowFunc()
	l.note(done, now.Sub(c.due))
	c.busy = false
	l.inFlight--
	switch {
	case l.stopped:
		return nil
	case l.timer >= 0:
		l.idle = append(l.idle, c)
		return nil
	default:
		return l.send(c, now)
	}
}

func (l *loop) note(done Done, latency time.Duration) {
	if !l.measuring {
		return
	}
	l.result.Requests++
	l.result.Operations += int64(done.Operations)
	// More than the histogram holds counts as the most that it does.
	h := l.result.Latency[done.Kind]
	_ = h.RecordValue(min(max(latency.Microseconds(), 1), h.HighestTrackableValue()))
}
