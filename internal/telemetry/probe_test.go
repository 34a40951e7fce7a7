package telemetry

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAProbeSaysWhetherAProcessLives(t *testing.T) {
	t.Parallel()
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/healthz" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(alive.Close)
	ill := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(ill.Close)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	goneAddr := gone.Addr().String()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	_, alivePort, err := net.SplitHostPort(alive.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ addr, want string }{
		{"127.0.0.1:" + alivePort, ""},
		{":" + alivePort, ""},
		{"0.0.0.0:" + alivePort, ""},
		{ill.Listener.Addr().String(), "404"},
		{goneAddr, "does not answer"},
		{"127.0.0.1:0", "set a fixed port"},
		{"here", "address"},
	} {
		err := Probe(t.Context(), c.addr)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.addr, err, c.want)
		}
	}
}
