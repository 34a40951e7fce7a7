package api

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/tenants"
)

// The time-outs of the server, in the made-up time of a synctest bubble: the
// connections are pipes, and what stands behind the HTTP edge only waits.

type pipeListener struct{ conns chan net.Conn }

func (l pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (l pipeListener) Close() error   { return nil }
func (l pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

type anybody struct{}

func (anybody) Authenticate(context.Context, string) (auth.Caller, error) {
	return auth.Caller{Role: auth.RoleService, Credential: "c"}, nil
}

func (anybody) Snapshot(context.Context, auth.TenantID, auth.NamespaceID) (*tenants.Snapshot, error) {
	return tenants.NewSnapshot(tenants.Snapshot{BodyLimit: 1 << 20}, nil, nil), nil
}

// patient waits as long as it is asked to, and emits as long as it can.
type patient struct {
	Keys
	emitted chan error // the error that ended a batch
}

func (patient) BeginOrWait(ctx context.Context, _ auth.Caller, _ keys.BeginRequest, wait time.Duration) (keys.Outcome, bool, error) {
	select {
	case <-ctx.Done():
		return nil, true, ctx.Err()
	case <-time.After(wait):
		return keys.Unknown{}, true, nil
	}
}

func (p patient) BeginBatch(_ context.Context, _ auth.Caller, _ []keys.BatchEntry, emit func(int, keys.Outcome, error) error) error {
	large := keys.Replay{Response: keys.Response{Status: 200, Body: make([]byte, 1<<20)}}
	for {
		if err := emit(0, large, nil); err != nil {
			p.emitted <- err
			return err
		}
	}
}

// pipeTo starts a server and returns one connection to it.
func pipeTo(t *testing.T, p patient) (client net.Conn, stop func()) {
	t.Helper()
	a, err := New(Config{Auth: anybody{}, Tenants: anybody{}, Keys: p})
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(a.Public(), slog.New(slog.DiscardHandler))
	listener := pipeListener{make(chan net.Conn, 1)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	client, theirs := net.Pipe()
	listener.conns <- theirs
	return client, func() {
		close(listener.conns)
		_ = client.Close()
		_ = server.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
	}
}

const beginHeader = "POST /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\n"

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatalf("send %.20q: %v", text, err)
	}
}

func TestAHeaderMustComeWithinItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, stop := pipeTo(t, patient{})
		defer stop()
		began := time.Now()
		send(t, conn, "POST /v1/keys HT")
		_, err := io.ReadAll(conn)
		if took := time.Since(began); err != nil || took < headerTimeout || took > headerTimeout+time.Second {
			t.Errorf("closed after %s with %v, want after %s", took, err, headerTimeout)
		}
	})
}

func TestABodyMustComeWithinItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, stop := pipeTo(t, patient{})
		began := time.Now()
		trickled := make(chan struct{})
		defer func() {
			stop()
			<-trickled
		}()
		go func() { // a byte a second, for longer than allowed
			defer close(trickled)
			_, err := io.WriteString(conn, beginHeader+"Content-Length: 1000\r\n\r\n")
			for err == nil {
				time.Sleep(time.Second)
				_, err = io.WriteString(conn, " ")
			}
		}()
		answer, err := io.ReadAll(conn)
		if took := time.Since(began); err != nil || took < bodyTimeout || took > bodyTimeout+2*time.Second {
			t.Errorf("closed after %s with %v, want after %s", took, err, bodyTimeout)
		}
		if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("answer %.100q, want 400", answer)
		}
	})
}

// A body that comes late leaves a wait its whole time.
func TestAWaitIsNotCutOffByTheTimeOfTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, stop := pipeTo(t, patient{})
		defer stop()
		began := time.Now()
		send(t, conn, beginHeader+"Prefer: wait=30\r\nContent-Length: 2\r\n\r\n{")
		time.Sleep(bodyTimeout - time.Second)
		send(t, conn, "}")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		_ = resp.Body.Close()
		if took := time.Since(began); resp.StatusCode != 409 || took != bodyTimeout-time.Second+keys.MaxWait {
			t.Errorf("status %d after %s, want 409 after %s", resp.StatusCode, took, bodyTimeout-time.Second+keys.MaxWait)
		}
	})
}

func TestAnIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn, stop := pipeTo(t, patient{})
		defer stop()
		send(t, conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it is read to its end
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = in.ReadByte()
		if took := time.Since(began); !errors.Is(err, io.EOF) || took != idleTimeout {
			t.Errorf("closed after %s with %v, want after %s", took, err, idleTimeout)
		}
	})
}

// A caller that does not read the answer to its batch holds it for so long and
// no longer; one that reads slowly may go on for as long as it reads.
func TestAnUnreadBatchIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := patient{emitted: make(chan error, 1)}
		conn, stop := pipeTo(t, p)
		defer stop()
		began := time.Now()
		send(t, conn, strings.Replace(beginHeader, "/keys", "/keys/batch", 1)+"Content-Length: 19\r\n\r\n"+`{"operations":[{}]}`)
		buf := make([]byte, 2*batchBufferBytes)
		for range 20 { // slower than the time-out of the whole answer would allow
			time.Sleep(batchWriteTimeout - time.Second)
			if _, err := io.ReadFull(conn, buf); err != nil {
				t.Fatalf("a slow reader was cut off after %s: %v", time.Since(began), err)
			}
		}
		stopped := time.Now()
		if err := <-p.emitted; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the batch ended with %v, want a passed deadline", err)
		}
		if took := time.Since(stopped); took > batchWriteTimeout {
			t.Errorf("given up after %s, want within %s", took, batchWriteTimeout)
		}
	})
}
