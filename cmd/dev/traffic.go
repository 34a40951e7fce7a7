//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	trafficCallTimeout = 10 * time.Second
	// loopDelay makes a replay older than the 30 s from which it counts as a
	// retry loop.
	loopDelay = 32 * time.Second
)

// traffic is clients of the demo tenant, well-behaved and others.
type traffic struct {
	url, key string
	client   http.Client
}

// sendDemo sends traffic that shows on the dashboard what each kind of
// misbehaving client looks like. It takes a little longer than loopDelay.
func sendDemo(ctx context.Context, here checkout, out *printer) error {
	running, err := readState(here)
	if err != nil {
		return err
	}
	t := &traffic{url: running.URL, key: running.Credentials["service"], client: http.Client{Timeout: trafficCallTimeout}}
	out.progress("traffic of well-behaved clients, and of three others")
	var loop []string // keys that a client goes on retrying
	for i := range 150 {
		operation := []string{"POST /v1/charges", "POST /v1/charges", "POST /v1/refunds", "kafka:invoices"}[i%4]
		key, err := t.run(ctx, operation, fmt.Sprintf("cus_%03d", i%12))
		if err != nil {
			return err
		}
		switch {
		case operation == "kafka:invoices" && len(loop) < 30:
			loop = append(loop, key)
		case i%9 == 0: // an answer was lost on the way
			if _, err := t.begin(ctx, attempt{operation: operation, caller: fmt.Sprintf("cus_%03d", i%12), key: key}); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(t.reuseKeys(ctx), t.die(ctx), t.crowd(ctx)); err != nil {
		return err
	}
	out.progress(fmt.Sprintf("a retry loop that comes back after %s", loopDelay))
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(loopDelay):
	}
	for i, key := range loop {
		if _, err := t.begin(ctx, attempt{operation: "kafka:invoices", caller: fmt.Sprintf("cus_%03d", (3+4*i)%12), key: key}); err != nil {
			return err
		}
	}
	out.printf("✓ sent: the dashboard shows it within seconds, at %s/dashboard", t.url)
	return nil
}

// attempt is one begin.
type attempt struct {
	operation, caller, key string
	amount                 int
	leaseSeconds           int // 0: the policy's
}

type begun struct {
	ID    string `json:"id"`
	Lease struct {
		Token string `json:"token"`
	} `json:"lease"`
}

// run begins and completes a new operation, as it should be.
func (t *traffic) run(ctx context.Context, operation, caller string) (key string, err error) {
	a := attempt{operation: operation, caller: caller, key: "demo-" + rand.Text()}
	b, err := t.begin(ctx, a)
	if err != nil {
		return "", err
	}
	return a.key, t.complete(ctx, b)
}

// reuseKeys is a client that makes its key of the day instead of the operation.
func (t *traffic) reuseKeys(ctx context.Context) error {
	a := attempt{operation: "POST /v1/refunds", caller: "cus_importer", key: "refund-" + rand.Text()}
	b, err := t.begin(ctx, a)
	if err == nil {
		err = t.complete(ctx, b)
	}
	for i := range 40 {
		a.amount = 100 + i
		_, beginErr := t.begin(ctx, a)
		err = errors.Join(err, beginErr)
	}
	return err
}

// die is payouts whose worker ends before its work: their outcome is unknown.
func (t *traffic) die(ctx context.Context) error {
	var errs []error
	for range 3 {
		_, err := t.begin(ctx, attempt{operation: demoHoldOperation, caller: "cus_007", key: "payout-" + rand.Text(), leaseSeconds: 1})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// crowd is a double click, eight times over.
func (t *traffic) crowd(ctx context.Context) error {
	a := attempt{operation: "POST /v1/charges", caller: "cus_004", key: "demo-" + rand.Text()}
	var errs []error
	for range 9 {
		_, err := t.begin(ctx, a)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *traffic) begin(ctx context.Context, a attempt) (begun, error) {
	body := map[string]any{
		"key": a.key, "caller": a.caller, "operation": a.operation, "owner": rand.Text(),
		"request": map[string]any{"method": "POST", "path": "/demo", "content_type": "application/json", "body": fmt.Sprintf(`{"amount":%d}`, a.amount)},
	}
	if a.leaseSeconds != 0 {
		body["lease_seconds"] = a.leaseSeconds
	}
	var b begun
	err := t.call(ctx, http.MethodPost, "/v1/keys", "", body, &b)
	return b, err
}

func (t *traffic) complete(ctx context.Context, b begun) error {
	body := map[string]any{"status": 201, "headers": [][]string{{"Content-Type", "application/json"}}, "body": `{"done":true}`}
	return t.call(ctx, http.MethodPut, "/v1/keys/"+b.ID+"/response", b.Lease.Token, body, nil)
}

// call makes one call; a 409 is an answer like any other here.
func (t *traffic) call(ctx context.Context, method, path, lease string, body any, into *begun) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write a call: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, t.url+path, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("make a call: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+t.key)
	req.Header.Set("Content-Type", "application/json")
	if lease != "" {
		req.Header.Set("Onceward-Lease", lease)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return fmt.Errorf("call the API: %w", err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	if resp.StatusCode >= http.StatusBadRequest && resp.StatusCode != http.StatusConflict {
		return fmt.Errorf("%s %s answered %d: %s", method, path, resp.StatusCode, answer)
	}
	if into == nil || resp.StatusCode != http.StatusCreated {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", method, path, err)
	}
	return nil
}
