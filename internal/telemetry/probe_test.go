package telemetry

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAProbeSaysWhetherAProcessLives(t *testing.T) {
	t.Parallel()
	lives := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/healthz" {
			http.NotFound(w, r)
		}
	})
	alive, secured := httptest.NewServer(lives), httptest.NewTLSServer(lives)
	t.Cleanup(alive.Close)
	t.Cleanup(secured.Close)
	secured.Config.ErrorLog = log.New(io.Discard, "", 0)
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
	for _, c := range []struct {
		addr      string
		speaksTLS bool
		want      string
	}{
		{"127.0.0.1:" + alivePort, false, ""},
		{":" + alivePort, false, ""},
		{"0.0.0.0:" + alivePort, false, ""},
		{secured.Listener.Addr().String(), true, ""},
		{secured.Listener.Addr().String(), false, "400"},
		{alive.Listener.Addr().String(), true, "does not answer"},
		{ill.Listener.Addr().String(), false, "404"},
		{goneAddr, false, "does not answer"},
		{"127.0.0.1:0", false, "set a fixed port"},
		{"here", false, "address"},
	} {
		err := Probe(t.Context(), c.addr, c.speaksTLS)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s, TLS %t: %v, want %q", c.addr, c.speaksTLS, err, c.want)
		}
	}
}
