package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/onceward/onceward/internal/api/apitest"
)

// start runs the example as main does, and ends it as a signal does.
func start(t *testing.T, oncewardURL, key string, b *bank) (address string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, config{oncewardURL: oncewardURL, oncewardKey: key, listenAddr: "127.0.0.1:0"}, b, func(a net.Addr) { started <- a })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	select {
	case a := <-started:
		return "http://" + a.String()
	case err := <-ended:
		ended <- err
		t.Fatalf("it did not start: %v", err)
		return ""
	}
}

// badNetwork is a proxy in front of an address, with that many toxics.
func badNetwork(t *testing.T, address string, toxics ...string) (proxied string) {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", at.Host)
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	for _, toxic := range toxics {
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatal(err)
		}
	}
	return "http://" + proxy.Listen
}

// What is wrong with the networks: everything is slow, some answers are cut
// off, some connections are reset.
const (
	slow        = `{"type": "latency", "stream": "downstream", "attributes": {"latency": 10, "jitter": 10}}`
	cutAnswers  = `{"type": "limit_data", "stream": "downstream", "toxicity": 0.3, "attributes": {"bytes": 40}}`
	cutRequests = `{"type": "limit_data", "stream": "upstream", "name": "cut_up", "toxicity": 0.2, "attributes": {"bytes": 150}}`
	resets      = `{"type": "reset_peer", "stream": "downstream", "toxicity": 0.2, "attributes": {"timeout": 25}}`
)

// phone is an app whose user waits.
type phone struct {
	address string
	broken  atomic.Int64 // requests that were not answered whole
}

// tap sends a request until it is answered for good: over and over, as it is,
// with the same key.
func (p *phone) tap(ctx context.Context, token, key, body string) (status int, answer string, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.address+"/v1/charges", strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Idempotency-Key", key)
		pause := 20 * time.Millisecond
		resp, err := client.Do(req)
		if err == nil {
			var content []byte
			content, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
			if err == nil && seconds == 0 {
				return resp.StatusCode, string(content), nil
			}
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		if err != nil {
			p.broken.Add(1)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, "", ctx.Err()
		}
	}
}

// TestFiveTapsOverABadNetworkAreOneCharge taps "pay" five times at once, for
// several orders, where both the network before the endpoint and the one
// between it and Onceward cut, delay and reset.
func TestFiveTapsOverABadNetworkAreOneCharge(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	b := newBank()
	endpoint := start(t, badNetwork(t, w.URL, slow, cutAnswers, cutRequests, resets), w.Tenant.Service, b)
	p := &phone{address: badNetwork(t, endpoint, slow, cutAnswers, cutRequests, resets)}

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const orders, taps = 5, 5
	answers := make([][taps]string, orders)
	var all sync.WaitGroup
	for order := range orders {
		for n := range taps {
			all.Go(func() {
				status, answer, err := p.tap(ctx, "tok_alice", fmt.Sprintf("order-%d-charge", order), fmt.Sprintf(`{"amount":%d}`, 1000+order))
				if err != nil || status != http.StatusCreated {
					t.Errorf("order %d: status %d, %s, %v", order, status, answer, err)
				}
				answers[order][n] = answer
			})
		}
	}
	all.Wait()
	if p.broken.Load() == 0 {
		t.Error("the network was not bad")
	}

	amounts := make(map[int]int)
	for _, made := range b.charges() {
		amounts[made.Amount]++
	}
	want := map[int]int{1000: 1, 1001: 1, 1002: 1, 1003: 1, 1004: 1}
	if diff := cmp.Diff(want, amounts); diff != "" {
		t.Errorf("charges by amount (-want +got):\n%s", diff)
	}
	for order, tapped := range answers {
		for _, answer := range tapped {
			if answer != tapped[0] || !strings.Contains(answer, strconv.Itoa(1000+order)) {
				t.Errorf("order %d was answered with %q and %q", order, tapped[0], answer)
			}
		}
	}
}

func TestTheExampleAsItsPageSays(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	b := newBank()
	p := &phone{address: start(t, w.URL, w.Tenant.Service, b)}
	for name, tc := range map[string]struct {
		token, key, body string
		status           int
	}{
		"a charge":                      {"tok_alice", "order-42-charge", `{"amount":4999}`, 201},
		"another account, the same key": {"tok_bob", "order-42-charge", `{"amount":4999}`, 201},
		"an order that is none":         {"tok_alice", "order-43-charge", `{"amount":-1}`, 422},
		"nobody":                        {"tok_mallory", "order-42-charge", `{"amount":4999}`, 403},
		"no key":                        {"tok_alice", "", `{"amount":4999}`, 400},
	} {
		for range 2 {
			status, answer, err := p.tap(t.Context(), tc.token, tc.key, tc.body)
			if err != nil || status != tc.status {
				t.Errorf("%s: status %d, %s, %v; want %d", name, status, answer, err, tc.status)
			}
		}
	}
	if status, answer, _ := p.tap(t.Context(), "tok_alice", "order-42-charge", `{"amount":1}`); status != 409 || !strings.Contains(answer, "fingerprint_mismatch") {
		t.Errorf("another amount under the same key: %d, %s", status, answer)
	}
	resp, err := http.Get(p.address + "/v1/charges")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	var listed []chargeMade
	if err := json.NewDecoder(resp.Body).Decode(&listed); err != nil || len(listed) != 2 || b.asked() != 2 {
		t.Errorf("%v, %v, the bank was asked %d times; want 2 charges and 2 calls", listed, err, b.asked())
	}
}
