package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestProbeAsksTheListenerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	t.Cleanup(server.Close)
	environ := []string{"ONCEWARD_DATABASE_URL=postgres://nowhere.invalid/none", "ONCEWARD_LISTEN_ADDR=" + server.Listener.Addr().String()}
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
}
