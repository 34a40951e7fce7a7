//go:build linux

package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// The one-statement path: a server that answers a begin by one INSERT of its
// own, as most services that guard themselves do. It has no authentication, no
// validation, no fingerprint of its own and no log: what it lacks counts for
// it.

const (
	naiveCommand  = "naive" // of this binary; for its own use
	naiveURL      = "BENCH_NAIVE_URL"
	naiveTenant   = "BENCH_NAIVE_TENANT"
	naiveSpace    = "BENCH_NAIVE_NAMESPACE"
	naiveAddrFile = "BENCH_NAIVE_ADDR_FILE"
)

// serveNaive answers until ctx ends.
func serveNaive(ctx context.Context) error {
	tenant, err := uuid.Parse(os.Getenv(naiveTenant))
	if err != nil {
		return err
	}
	namespace, err := uuid.Parse(os.Getenv(naiveSpace))
	if err != nil {
		return err
	}
	store, err := openNaive(ctx, os.Getenv(naiveURL))
	if err != nil {
		return err
	}
	defer store.close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	path := os.Getenv(naiveAddrFile)
	if err := os.WriteFile(path+".new", []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &naiveHandler{store, tenant, namespace}}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type naiveHandler struct {
	store             *naiveStore
	tenant, namespace [16]byte
}

func (h *naiveHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	var begin struct{ Key, Operation, Fingerprint string }
	if err == nil {
		err = json.Unmarshal(text, &begin)
	}
	var digest []byte
	if err == nil {
		digest, err = hex.DecodeString(begin.Fingerprint)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, row, err := h.store.begin(r.Context(), h.tenant, h.namespace, begin.Operation, begin.Key, digest)
	if err != nil { // a key that is there already is one too: nobody sends one
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer := fmt.Appendf(nil, `{"id":"%s","outcome":"acquired","attempt":1,"resumed":false,"taken_over":false,"lease":{"token":"%032x","fence":%d,"expires_at":"%s"},"created_at":"%s","expires_at":"%s"}`,
		base64.RawURLEncoding.EncodeToString(id[:]), row.fence, row.fence,
		row.leaseExpiresAt.Format(time.RFC3339Nano), row.createdAt.Format(time.RFC3339Nano), row.expiresAt.Format(time.RFC3339Nano))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer) // a client that has gone is the generator's to report
}

// startNaive starts the one-statement path as a process of its own.
func (b *bench) startNaive(ctx context.Context, db *database) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := b.openLog(naiveCommand)
	if err != nil {
		return nil, err
	}
	addrFile := filepath.Join(b.dir, "naive.addr")
	c, err := startChild("the one-statement server", append(withoutOurs(os.Environ()),
		naiveURL+"="+db.url, naiveTenant+"="+db.tenant.String(), naiveSpace+"="+db.namespace.String(), naiveAddrFile+"="+addrFile),
		log, self, naiveCommand)
	if err != nil {
		return nil, err
	}
	s := &server{child: c}
	err = c.eventually(ctx, readyTimeout, func() error {
		text, err := os.ReadFile(addrFile)
		s.addr = string(text)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return s, nil
}
