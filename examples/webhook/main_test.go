package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

const (
	githubSecret   = "github's"
	stripeSecret   = "whsec_stripes"
	standardSecret = "whsec_c3RhbmRhcmQ="
)

// delivery is one request of a sender, signed as that sender signs.
type delivery struct {
	path, body string
	headers    map[string]string
}

func githubs(id, body string) delivery {
	return delivery{"/webhooks/github", body, map[string]string{
		"X-GitHub-Delivery": id, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac([]byte(githubSecret), body)),
	}}
}

func stripes(at time.Time, body string) delivery {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signature := hex.EncodeToString(mac([]byte(stripeSecret), seconds, ".", body))
	return delivery{"/webhooks/stripe", body, map[string]string{"Stripe-Signature": "t=" + seconds + ",v1=00,v1=" + signature + ",v0=11"}}
}

func standards(id string, at time.Time, body string) delivery {
	seconds := strconv.FormatInt(at.Unix(), 10)
	signature := base64.StdEncoding.EncodeToString(mac([]byte("standard"), id, ".", seconds, ".", body))
	return delivery{"/webhooks/standard", body, map[string]string{"Webhook-Id": id, "Webhook-Timestamp": seconds, "Webhook-Signature": "v1,AAAA v1," + signature}}
}

// receiver is the example, started as main does.
type receiver struct {
	address string

	mu      sync.Mutex // guards handled
	handled map[string]int
}

func startReceiver(t *testing.T, w *apitest.World, handle func(e event) error) *receiver {
	t.Helper()
	r := &receiver{handled: make(map[string]int)}
	c := config{
		oncewardURL: w.URL, oncewardKey: w.Tenant.Service, listenAddr: "127.0.0.1:0", nowFunc: time.Now,
		secrets: map[string]string{"github": githubSecret, "stripe": stripeSecret, "standard": standardSecret},
	}
	ctx, stop := context.WithCancel(context.Background())
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, c, func(_ context.Context, e event) error {
			r.mu.Lock()
			r.handled[e.sender+" "+e.id]++
			r.mu.Unlock()
			return handle(e)
		}, func(a net.Addr) { started <- a })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	r.address = "http://" + (<-started).String()
	return r
}

func (r *receiver) deliver(t *testing.T, d delivery) (status int, replayed bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.address+d.path, strings.NewReader(d.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range d.headers {
		req.Header.Set(name, value)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Error(err)
		return 0, false
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Idempotent-Replay") == "true"
}

func TestEachDeliveryIsHandledOnceAndAnsweredWith2xxEachTime(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	r := startReceiver(t, w, func(event) error { return nil })
	now := time.Now()
	for _, deliveries := range [][]delivery{
		{githubs("72d3162e-cc78-11e3-81ab-4c9367dc0958", `{"zen":"…"}`), githubs("72d3162e-cc78-11e3-81ab-4c9367dc0958", `{"zen":"…"}`)},
		// What Stripe delivers again is signed anew, and is not the same body.
		{stripes(now, `{"id":"evt_1NG8Du2eZvKYlo2C","pending_webhooks":2}`), stripes(now.Add(time.Minute), `{"id":"evt_1NG8Du2eZvKYlo2C","pending_webhooks":1}`)},
		{standards("msg_p5jXN8AQM9LWM0D4loKWxJek", now, "{}"), standards("msg_p5jXN8AQM9LWM0D4loKWxJek", now.Add(time.Minute), "{}")},
	} {
		var senders sync.WaitGroup
		for n := range 5 { // at once, as after a time-out of the sender's
			senders.Go(func() {
				if status, _ := r.deliver(t, deliveries[n%2]); status != http.StatusNoContent {
					t.Errorf("%s: status %d", deliveries[0].path, status)
				}
			})
		}
		senders.Wait()
		if status, replayed := r.deliver(t, deliveries[1]); status != http.StatusNoContent || !replayed {
			t.Errorf("%s again: status %d, replayed %v", deliveries[0].path, status, replayed)
		}
	}
	want := map[string]int{
		"github 72d3162e-cc78-11e3-81ab-4c9367dc0958": 1, "stripe evt_1NG8Du2eZvKYlo2C": 1, "standard msg_p5jXN8AQM9LWM0D4loKWxJek": 1,
	}
	if diff := cmp.Diff(want, r.handled); diff != "" {
		t.Errorf("handled (-want +got):\n%s", diff)
	}
}

func TestADeliveryWithoutARightSignatureUsesUpNothing(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	r := startReceiver(t, w, func(event) error { return nil })
	now := time.Now()
	forged := githubs("72d3162e-cc78-11e3-81ab-4c9367dc0958", `{}`)
	forged.headers["X-Hub-Signature-256"] = "sha256=00"
	changed := standards("msg_p5jXN8AQM9LWM0D4loKWxJek", now, "{}")
	changed.headers["Webhook-Id"] = "msg_another"
	unsigned := delivery{"/webhooks/stripe", `{"id":"evt_1NG8Du2eZvKYlo2C"}`, nil}
	for name, d := range map[string]delivery{
		"forged": forged, "changed": changed, "unsigned": unsigned,
		"old": stripes(now.Add(-time.Hour), `{"id":"evt_1NG8Du2eZvKYlo2C"}`), "old too": standards("msg_1", now.Add(-time.Hour), "{}"),
	} {
		if status, _ := r.deliver(t, d); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, status)
		}
	}
	if status, _ := r.deliver(t, githubs("", "{}")); status != http.StatusBadRequest {
		t.Errorf("no id: status %d, want 400", status)
	}
	if len(r.handled) != 0 {
		t.Errorf("handled %v", r.handled)
	}
}

// TestAFailureIsDeliveredAgainOnlyWhereNothingHappened fails a handler in both
// ways.
func TestAFailureIsDeliveredAgainOnlyWhereNothingHappened(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var mu sync.Mutex
	fails := map[string]error{"nothing-happened": client.NotDone(errors.New("closed")), "who-knows": errors.New("timed out")}
	r := startReceiver(t, w, func(e event) error {
		mu.Lock()
		defer mu.Unlock()
		err := fails[e.id]
		delete(fails, e.id)
		return err
	})
	for id, want := range map[string][]int{"nothing-happened": {503, 204, 204}, "who-knows": {202, 202, 202}} {
		var got []int
		for range want {
			status, _ := r.deliver(t, githubs(id, "{}"))
			got = append(got, status)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if want := map[string]int{"github nothing-happened": 2, "github who-knows": 1}; !cmp.Equal(want, r.handled) {
		t.Error(fmt.Sprint("handled ", r.handled))
	}
}
