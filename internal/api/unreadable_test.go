package api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
)

// What net/http cannot read as a request, or may not, it answers by itself, and
// none of it reaches the service: the threat model says so. Nothing that was
// sent comes back, nothing of ours is in the answer, and the connection is
// closed, so that nothing behind it is taken for a request.
func TestWhatIsNoRequestIsAnsweredByNetHTTPAlone(t *testing.T) {
	t.Parallel()
	logged := newLogbook()
	w := apitest.New(t, apitest.Logger(slog.New(logged)))
	const canary = "canary-7f3a"
	const next = "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, c := range map[string]struct {
		sent string
		want int
	}{
		"no request line":          {canary + "\r\n\r\n", http.StatusBadRequest},
		"a header without a colon": {"GET /healthz HTTP/1.1\r\nHost: h\r\n" + canary + "\r\n\r\n", http.StatusBadRequest},
		"a blank in a header name": {"GET /healthz HTTP/1.1\r\nHost: h\r\nX Y: " + canary + "\r\n\r\n", http.StatusBadRequest},
		"no host":                  {"GET /healthz HTTP/1.1\r\nX: " + canary + "\r\n\r\n", http.StatusBadRequest},
		"two lengths":              {"POST /v1/keys HTTP/1.1\r\nHost: h\r\nX: " + canary + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", http.StatusBadRequest},
		"an expectation of its own": {
			"POST /v1/keys HTTP/1.1\r\nHost: h\r\nExpect: " + canary + "\r\nContent-Length: 0\r\n\r\n", http.StatusExpectationFailed,
		},
		"too much of a header": {
			"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat(canary, (36<<10)/len(canary)+1) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge,
		},
		"a transfer encoding that is not there": {
			"POST /v1/keys HTTP/1.1\r\nHost: h\r\nX: " + canary + "\r\nTransfer-Encoding: gzip\r\n\r\n", http.StatusNotImplemented,
		},
		"a version that is not there": {"GET /healthz HTTP/3.0\r\nHost: h\r\nX: " + canary + "\r\n\r\n", http.StatusHTTPVersionNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, w.URL)
			conn.send(t, c.sent+next)
			got := conn.readAll(t)
			line, rest, _ := strings.Cut(got, "\r\n")
			if want := "HTTP/1.1 " + fmt.Sprint(c.want) + " "; !strings.HasPrefix(line, want) {
				t.Errorf("got %q, want %s", got, want)
			}
			for _, never := range []string{canary, "HTTP/1.1", "Request-Id", "problem+json", "alive"} {
				if strings.Contains(rest, never) {
					t.Errorf("%q is in the answer %q", never, got)
				}
			}
			if !strings.Contains(rest, "Connection: close\r\n") {
				t.Errorf("the connection is not said to be closed: %q", got)
			}
		})
	}
	t.Cleanup(func() {
		if strings.Contains(logged.all(), canary) {
			t.Error("what was sent is in the log")
		}
	})
}
