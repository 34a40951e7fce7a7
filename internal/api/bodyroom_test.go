package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// tenantByToken knows whoever comes as a tenant of the token's first letter.
type tenantByToken struct{}

func (tenantByToken) Authenticate(_ context.Context, token string) (auth.Caller, error) {
	return auth.Caller{Tenant: auth.TenantID{token[0]}, Role: auth.RoleService, Credential: "c"}, nil
}

// nobodysKeys has no record.
type nobodysKeys struct{ Keys }

func (nobodysKeys) BeginBatch(context.Context, auth.Caller, []keys.BatchEntry, func(int, keys.Outcome, error) error) error {
	return nil
}

// However many send large bodies and never end them, a process holds so much of
// them, and of one tenant a quarter: its excess is its own 503, and what is
// small, or another tenant's, goes on.
func TestLargeBodiesOfOneTenantFillNoMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Config{Auth: tenantByToken{}, Tenants: anybody{}, Keys: nobodysKeys{}})
		if err != nil {
			t.Fatal(err)
		}
		server := NewServer(a.Public(), slog.New(slog.DiscardHandler))
		listener := pipeListener{make(chan net.Conn)}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		defer func() {
			close(listener.conns)
			_ = server.Close()
			if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
			time.Sleep(time.Second) // net/http lingers where it has not read a body to its end
		}()
		begin := func(token string, announced int) net.Conn {
			client, theirs := net.Pipe()
			listener.conns <- theirs
			send(t, client, fmt.Sprintf("POST /v1/keys/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", token, announced))
			synctest.Wait()
			return client
		}
		answer := func(conn net.Conn) (int, string) {
			t.Helper()
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			return response.StatusCode, response.Header.Get("Retry-After")
		}
		var stalled []net.Conn
		for range maxBodyRoomPerTenant / maxBatchBytes {
			stalled = append(stalled, begin("a", maxBatchBytes))
		}

		began := time.Now()
		status, retryAfter := answer(begin("a", maxBatchBytes))
		if took := time.Since(began); status != http.StatusServiceUnavailable || retryAfter != "1" || took != bodyRoomTimeout {
			t.Errorf("one more is answered %d with Retry-After %q after %s, want 503 after %s", status, retryAfter, took, bodyRoomTimeout)
		}

		const small = `{"operations": []}`
		for name, conn := range map[string]net.Conn{"a small one": begin("a", len(small)), "another tenant's": begin("b", maxBatchBytes)} {
			began = time.Now()
			send(t, conn, small)
			if name != "a small one" { // the rest is blank
				if _, err := conn.Write(blanks(maxBatchBytes - len(small))); err != nil {
					t.Fatal(err)
				}
			}
			if status, _ := answer(conn); status == http.StatusServiceUnavailable || time.Since(began) != 0 {
				t.Errorf("%s is answered %d after %s", name, status, time.Since(began))
			}
			_ = conn.Close()
		}

		// One that is not announced is small until it has shown itself large.
		chunked, theirs := net.Pipe()
		listener.conns <- theirs
		send(t, chunked, fmt.Sprintf("POST /v1/keys/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(small), small))
		synctest.Wait()
		began = time.Now()
		send(t, chunked, "0\r\n\r\n")
		if status, _ := answer(chunked); status == http.StatusServiceUnavailable || time.Since(began) != 0 {
			t.Errorf("a small one in chunks is answered %d after %s", status, time.Since(began))
		}
		_ = chunked.Close()
		large, theirs := net.Pipe()
		listener.conns <- theirs
		send(t, large, "POST /v1/keys/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
		send(t, large, fmt.Sprintf("%x\r\n%s\r\n1", firstReadBytes+1, blanks(firstReadBytes+1)))
		if status, _ := answer(large); status != http.StatusServiceUnavailable {
			t.Errorf("a large one in chunks is answered %d", status)
		}
		_ = large.Close()

		began = time.Now()
		next := begin("a", firstReadBytes+1)
		_ = stalled[0].Close() // and the room is there
		send(t, next, small)
		if _, err := next.Write(blanks(firstReadBytes + 1 - len(small))); err != nil {
			t.Fatal(err)
		}
		if status, _ := answer(next); status == http.StatusServiceUnavailable || time.Since(began) >= bodyRoomTimeout {
			t.Errorf("who waited for room is answered %d after %s", status, time.Since(began))
		}
		for _, conn := range append(stalled, next) {
			_ = conn.Close()
		}
		synctest.Wait()
		if left := len(a.bodies.tenants); left != 0 || !a.bodies.all.TryAcquire(maxBodyRoom) {
			t.Errorf("the room of %d tenants was never given back", left)
		}
	})
}

func blanks(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = ' '
	}
	return b
}

// Who waits for another's completion gives the room to it.
func TestAWaitHoldsNoRoomForBodies(t *testing.T) {
	t.Parallel()
	rooms := newBodyRoom()
	giveBack, err := rooms.take(t.Context(), auth.TenantID{1}, maxBodyRoomPerTenant+1, true)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPost, "/v1/keys", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Prefer", "wait=30")
	x := &exchange{request: request, bodyRoom: giveBack, body: []byte(`{"key":"order-42-charge","operation":"POST /v1/charges","request":{}}`)}
	if err := new(beginRequest).decode(x); err != nil {
		t.Fatal(err)
	}
	if len(rooms.tenants) != 0 {
		t.Error("the room is held during the wait")
	}
	x.giveBackBodyRoom() // as at the end of every request
}

// Over HTTP/2 a body that waits would take up the window of its connection.
func TestOverHTTP2NobodyWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &API{bodies: newBodyRoom()}
		for major, want := range map[int]time.Duration{1: bodyRoomTimeout, 2: 0} {
			giveBack, err := a.bodies.take(t.Context(), auth.TenantID{}, maxBodyRoomPerTenant, true)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			x := &exchange{api: a, request: &http.Request{ProtoMajor: major, ContentLength: maxBatchBytes}}
			if err := x.takeBodyRoom(maxBatchBytes); asProblem(err).Kind != problem.KindUnavailable {
				t.Errorf("HTTP/%d: err = %v, want %s", major, err, problem.KindUnavailable)
			}
			if took := time.Since(began); took != want {
				t.Errorf("HTTP/%d: refused after %s, want %s", major, took, want)
			}
			giveBack()
		}
	})
}
