package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The API itself is asked over TLS in test/deploy, as its container does.
func TestProbeAsksTheListenerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"HTTP": httptest.NewServer, "TLS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			probes(t, start, map[string][]string{"TLS": {"ONCEWARD_TLS_CERT_FILE=tls.crt", "ONCEWARD_TLS_KEY_FILE=tls.key"}}[name])
		})
	}
}

func probes(t *testing.T, start func(http.Handler) *httptest.Server, further []string) {
	t.Helper()
	asked := make(chan string, 1)
	server := start(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(server.Close)
	environ := []string{"ONCEWARD_DATABASE_URL_FILE=a secret that is no longer there", "ONCEWARD_LISTEN_ADDR=" + server.Listener.Addr().String()}
	environ = append(environ, further...)
	if err := run(t.Context(), []string{"probe"}, environ, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
	select {
	case path := <-asked:
		if path != "/healthz" {
			t.Errorf("asked for %s", path)
		}
	default:
		t.Error("nobody asked")
	}
	server.Close()
	if err := run(t.Context(), []string{"probe"}, environ, io.Discard, io.Discard); err == nil {
		t.Error("a listener that is gone is said to live")
	}
	if err := run(t.Context(), []string{"probe"}, []string{"ONCEWARD_LISTEN_ADDR=8080"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "ONCEWARD_LISTEN_ADDR is ") {
		t.Errorf("an address that is none: %v", err)
	}
}
