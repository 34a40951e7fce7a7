package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/certificatetest"
)

func TestARenewedCertificateIsServedWithoutARestart(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	certificatetest.Write(t, dir, 1, now)
	c, err := newCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	now = c.looked
	c.nowFunc = func() time.Time { return now }
	serves := func(want int64) {
		t.Helper()
		got, err := c.get(nil)
		if err != nil {
			t.Fatal(err)
		}
		if serial := got.Leaf.SerialNumber.Int64(); serial != want {
			t.Errorf("certificate %d is served, want %d", serial, want)
		}
	}
	certificatetest.Write(t, dir, 2, now.Add(time.Second))
	now = now.Add(certificateMaxAge - 1)
	serves(1)
	now = now.Add(1)
	serves(2)
	if err := os.WriteFile(filepath.Join(dir, "tls.key"), []byte("half of a"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificateMaxAge)
	serves(2)
	certificatetest.Write(t, dir, 3, now)
	now = now.Add(certificateMaxAge)
	serves(3)
	if _, err := newCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "none"), c.logger); err == nil {
		t.Error("a key that is not there is no error")
	}
}

// nobodyWaits can be told that the process ends.
type nobodyWaits struct{ Keys }

func (nobodyWaits) Drain() {}

// Where a certificate is given the public listener speaks TLS, calls itself
// https, and says that browsers are to stay with it.
func TestThePublicListenerSpeaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := certificatetest.Write(t, dir, 1, time.Now())
	pool := x509.NewCertPool()
	pool.AddCert(own)
	started, ended := make(chan Addresses, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		ended <- Serve(ctx, Config{Auth: anybody{}, Tenants: anybody{}, Keys: nobodyWaits{}, Metrics: http.NotFoundHandler()}, ServeConfig{
			PublicAddr: "127.0.0.1:0", OperatorAddr: "127.0.0.1:0", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
			Started: func(at Addresses) { started <- at },
		})
	}()
	at := <-started
	if want := "https://" + at.Public.String(); at.BaseURL != want {
		t.Errorf("it calls itself %s, want %s", at.BaseURL, want)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.BaseURL+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 || resp.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%d over %s with %v", resp.StatusCode, resp.Proto, resp.Header)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
