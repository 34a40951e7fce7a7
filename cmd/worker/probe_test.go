package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbeAsksTheListenerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(server.Close)
	environ := []string{"ONCEWARD_DATABASE_URL_FILE=a secret that is no longer there", "ONCEWARD_WORKER_LISTEN_ADDR=" + server.Listener.Addr().String()}
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
	if err := run(t.Context(), []string{"probe"}, []string{"ONCEWARD_WORKER_LISTEN_ADDR=8080"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "ONCEWARD_WORKER_LISTEN_ADDR is ") {
		t.Errorf("an address that is none: %v", err)
	}
}
