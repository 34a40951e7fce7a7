package telemetry

import (
	"context"
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
func Probe(ctx context.Context, listenAddr string) error {
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("the address to ask: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // not by way of HTTP_PROXY
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
