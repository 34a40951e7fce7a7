package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	// probeTimeout is less than what orchestrators give a probe as a rule.
	probeTimeout = 2 * time.Second

	// probeReads is how much of an answer that is no yes is repeated, in bytes.
	probeReads = 200
)

// Probe asks the process that listens at host:port whether it lives (GET
// /healthz), for a health check in an image that has nothing else to ask with.
// Nil is yes. A host that means every interface is asked on the loopback one.
// It takes at most 2 s.
//
// Where the listener speaks TLS, whose certificate it shows is not looked at: it
// is made out to the name that callers use, not to the address that is asked
// here. The probe sends no secret and believes nothing but that somebody lives.
func Probe(ctx context.Context, listenAddr string, speaksTLS bool) error {
	host, port, err := net.SplitHostPort(listenAddr)
	if err != nil {
		return fmt.Errorf("the address to ask: %w", err)
	}
	if port == "0" {
		return errors.New("the port is 0, which takes a free one that nobody can know: set a fixed port")
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	scheme := "http"
	if speaksTLS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("the address to ask: %w", err)
	}
	client := http.Client{Transport: &http.Transport{ // not by way of HTTP_PROXY
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the process does not answer: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, probeReads))
		return fmt.Errorf("the process answered %s: %q", answer.Status, said)
	}
	return nil
}
