package client

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errBroken = errors.New("connection reset by peer")

// road is a network without a service at its end: it answers as a test says,
// and notes when each request came and what it was.
type road struct {
	mu     sync.Mutex // guards what follows
	answer func(n int, r *http.Request) (status int, header, body string)
	came   []time.Duration // since the first
	first  time.Time
	bodies []string
	waits  []string
}

func (r *road) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	if r.first.IsZero() {
		r.first = time.Now()
	}
	r.came = append(r.came, time.Since(r.first))
	r.bodies = append(r.bodies, string(body))
	r.waits = append(r.waits, req.Header.Get("Prefer"))
	n := len(r.came)
	r.mu.Unlock()
	status, header, text := r.answer(n, req)
	if status == 0 {
		return nil, errBroken
	}
	resp := &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(strings.NewReader(text))}
	if name, value, ok := strings.Cut(header, ": "); ok {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

func alwaysBroken(int, *http.Request) (status int, header, body string) { return 0, "", "" }

// onRoad is a client whose network is r, to be used in a bubble of synctest.
func onRoad(t *testing.T, r *road, change func(*Config)) *Client {
	t.Helper()
	config := Config{BaseURL: "https://onceward.example", APIKey: "key", HTTP: r, Logger: slog.New(slog.DiscardHandler), BreakerThreshold: -1}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func anOperation() Operation {
	return Operation{Key: "order-42-charge", Name: "charge", Request: &Request{Body: []byte("42")}}
}

func TestABeginIsRepeatedWithTheSameOwnerForAtMost25Seconds(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(int, *http.Request) (int, string, string){
		"broken connections": alwaysBroken,
		"503":                func(int, *http.Request) (int, string, string) { return 503, "", "<html>" },
		"429":                func(int, *http.Request) (int, string, string) { return 429, "Retry-After: 2", "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := &road{answer: answer}
				c := onRoad(t, r, nil)
				_, err := c.Begin(t.Context(), anOperation())
				if err == nil {
					t.Fatal("it succeeded")
				}
				if len(r.came) < 8 {
					t.Errorf("%d tries, want more", len(r.came))
				}
				last := r.came[len(r.came)-1]
				if last > 25*time.Second || last < 20*time.Second {
					t.Errorf("the last try came at %v, want it near the 25 s and not after", last)
				}
				for i, body := range r.bodies {
					if body != r.bodies[0] {
						t.Fatalf("try %d has another body, and so another owner", i+1)
					}
				}
				for i := 1; name == "429" && i < len(r.came); i++ {
					if pause := r.came[i] - r.came[i-1]; pause < 2*time.Second {
						t.Errorf("try %d came %v after the one before, want Retry-After kept to", i+1, pause)
					}
				}
			})
		})
	}
}

func TestARetryAfterBeyondTheTimeLeftIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &road{answer: func(int, *http.Request) (int, string, string) { return 429, "Retry-After: 60", "" }}
		started := time.Now()
		_, err := onRoad(t, r, nil).Begin(t.Context(), anOperation())
		e, _ := errors.AsType[*Error](err)
		if e == nil || e.Code != ErrRateLimited || e.RetryAfter != time.Minute || len(r.came) != 1 || time.Since(started) > time.Second {
			t.Errorf("%v after %d tries and %v, want rate_limited with a minute, at once", err, len(r.came), time.Since(started))
		}
	})
}

// TestAHangingServiceCostsOneTryItsTimeOut never answers: each try is given up
// after the call's time-out, and all of them within the time in which the begin
// can be repeated.
func TestAHangingServiceCostsOneTryItsTimeOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &road{answer: func(_ int, req *http.Request) (int, string, string) {
			<-req.Context().Done()
			return 0, "", ""
		}}
		started := time.Now()
		_, err := onRoad(t, r, nil).Begin(t.Context(), anOperation())
		if !errors.Is(err, ErrUnreachable) || !OutOfReach(err) {
			t.Errorf("error %v, want unreachable", err)
		}
		if took := time.Since(started); took > 25*time.Second || len(r.came) != 3 {
			t.Errorf("%d tries in %v, want 3 in at most 25s", len(r.came), took)
		}
	})
}

func TestAWaitLeavesTimeToRepeatALostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &road{answer: func(n int, _ *http.Request) (int, string, string) {
			if n == 1 {
				time.Sleep(4 * time.Second) // in the bubble; then the connection breaks
			}
			return 0, "", ""
		}}
		op := anOperation()
		op.Wait = time.Hour
		_, _ = onRoad(t, r, nil).Begin(t.Context(), op)
		want := []string{"wait=20", "wait=15"}
		if diff := cmp.Diff(want, r.waits[:2]); diff != "" {
			t.Errorf("the waits asked for (-want +got):\n%s", diff)
		}
		if last := r.came[len(r.came)-1]; last > 25*time.Second {
			t.Errorf("the last try came at %v", last)
		}
	})
}

func TestOneTryWhereRetriesAreSwitchedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &road{answer: alwaysBroken}
		_, err := onRoad(t, r, func(c *Config) { c.RetryFor = -1 }).Begin(t.Context(), anOperation())
		if !errors.Is(err, errBroken) || len(r.came) != 1 {
			t.Errorf("error %v after %d tries, want the network's own after 1", err, len(r.came))
		}
	})
}

func TestTheCircuitBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		works := false
		r := &road{answer: func(int, *http.Request) (int, string, string) {
			if works {
				return 404, "", `{"code":"not_found","status":404}`
			}
			return 0, "", ""
		}}
		c := onRoad(t, r, func(c *Config) { c.BreakerThreshold, c.BreakerPause, c.RetryFor = 3, 10*time.Second, -1 })
		look := func() error {
			_, err := c.Inspect(t.Context(), "id")
			return err
		}
		for range 3 {
			_ = look()
		}
		err := look()
		if e, _ := errors.AsType[*Error](err); !errors.Is(err, ErrUnreachable) || len(r.came) != 3 || e.RetryAfter <= 9*time.Second {
			t.Fatalf("after three failures: %v, %d requests; want it refused at once, with the time to wait", err, len(r.came))
		}
		time.Sleep(10 * time.Second)
		if _ = look(); len(r.came) != 4 {
			t.Fatalf("%d requests, want one that looks", len(r.came))
		}
		if _ = look(); len(r.came) != 4 {
			t.Fatal("the breaker let more than one look")
		}
		works = true
		time.Sleep(10 * time.Second)
		for range 5 {
			if err := look(); !errors.Is(err, ErrNotFound) {
				t.Fatalf("the service is back, and the answer is %v", err)
			}
		}
	})
}

func TestALookThatItsCallerGaveUpDoesNotKeepTheBreakerShut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &road{answer: alwaysBroken}
		c := onRoad(t, r, func(c *Config) { c.BreakerThreshold, c.BreakerPause, c.RetryFor = 1, time.Second, -1 })
		_, _ = c.Inspect(t.Context(), "id")
		time.Sleep(time.Second)
		ctx, leave := context.WithCancel(t.Context())
		r.answer = func(_ int, req *http.Request) (int, string, string) {
			leave()
			<-req.Context().Done()
			return 0, "", ""
		}
		if _, err := c.Inspect(ctx, "id"); !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		r.answer = func(int, *http.Request) (int, string, string) { return 404, "", `{"code":"not_found"}` }
		if _, err := c.Inspect(t.Context(), "id"); !errors.Is(err, ErrNotFound) {
			t.Errorf("error %v, want the next call to look", err)
		}
	})
}

// TestNothingOfAClientOutlivesIt cuts the network when a lease is held: what
// renews it, what repeats the completion and what waits on the clock all end
// with Close. A bubble fails where a goroutine in it is left.
func TestNothingOfAClientOutlivesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		renewals, completions := 0, 0
		r := &road{answer: func(n int, req *http.Request) (int, string, string) {
			switch {
			case n == 1:
				return 201, "", `{"outcome":"acquired","id":"x","attempt":1,"lease":{"token":"t","on_lease_expiry":"hold"}}`
			case req.Method == http.MethodPatch:
				renewals++
			case req.Method == http.MethodPut:
				completions++
			}
			return 0, "", ""
		}}
		c, err := New(Config{BaseURL: "https://onceward.example", APIKey: "key", HTTP: r, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		op := anOperation()
		op.Lease, op.Hold = 30*time.Second, true
		result, err := c.Do(t.Context(), op, func(ctx context.Context, _ *Lease) (Response, error) {
			time.Sleep(2 * time.Minute) // in the bubble
			return Response{Status: 200}, ctx.Err()
		})
		if err != nil || result.Stored {
			t.Errorf("%+v, %v; want it done, not stored", result, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Close(ctx); err == nil {
			t.Error("Close gave nothing up")
		}
		if renewals < 10 || completions < 10 {
			t.Errorf("%d renewals and %d completions were tried, want them over and over", renewals, completions)
		}
		tried := renewals + completions
		time.Sleep(time.Hour)
		if renewals+completions != tried {
			t.Error("it goes on after Close")
		}
	})
}

func TestPausesGrowAndAreSpread(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond, 6: 3 * time.Second, 1000: 3 * time.Second} {
		low, high := backoff(n, func() float64 { return 0 }), backoff(n, func() float64 { return 1 })
		if low != most/2 || high != most {
			t.Errorf("after try %d: %v to %v, want %v to %v", n, low, high, most/2, most)
		}
	}
	pauses := make(map[time.Duration]bool)
	for range 100 {
		pauses[backoff(1, jitter)] = true
	}
	if len(pauses) < 50 {
		t.Errorf("%d different pauses in 100, want them spread", len(pauses))
	}
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	t.Parallel()
	const date = "Sun, 29 Nov 2026 16:00:00 GMT"
	for name, tc := range map[string]struct {
		after, date string
		want        time.Duration
	}{
		"none":                {"", date, 0},
		"seconds":             {"7", "", 7 * time.Second},
		"more than an hour":   {"86400", "", time.Hour},
		"less than nothing":   {"-7", "", 0},
		"a date":              {"Sun, 29 Nov 2026 16:00:30 GMT", date, 30 * time.Second},
		"a date in the past":  {"Sun, 29 Nov 2026 15:00:00 GMT", date, 0},
		"a date of next year": {"Mon, 29 Nov 2027 16:00:00 GMT", date, time.Hour},
		"a date and no Date":  {"Sun, 29 Nov 2026 16:00:30 GMT", "", 0},
		"neither":             {"soon", date, 0},
	} {
		h := http.Header{"Retry-After": {tc.after}, "Date": {tc.date}}
		if got := retryAfterOf(h); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestWhatIsNotUnderstoodDoesNotRun answers as no version of the service does.
func TestWhatIsNotUnderstoodDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"an outcome of tomorrow":    {201, `{"outcome":"granted","id":"x","lease":{"token":"t"}}`},
		"acquired with a 200":       {200, `{"outcome":"acquired","id":"x","lease":{"token":"t"}}`},
		"acquired without a token":  {201, `{"outcome":"acquired","id":"x"}`},
		"a replay with a 201":       {201, `{"outcome":"replay","id":"x","response":{"status":200}}`},
		"a replay of nothing":       {200, `{"outcome":"replay","id":"x"}`},
		"an empty 200":              {200, ``},
		"a page":                    {200, `<html>`},
		"no content":                {204, ``},
		"a redirect":                {307, ``},
		"a code of tomorrow":        {409, `{"code":"sold_out"}`},
		"a conflict without a code": {409, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &road{answer: func(int, *http.Request) (int, string, string) { return answer.status, "", answer.body }}
			ran := false
			_, err := onRoad(t, r, nil).Do(t.Context(), anOperation(), func(context.Context, *Lease) (Response, error) {
				ran = true
				return Response{Status: 200}, nil
			})
			if ran || err == nil {
				t.Fatalf("it ran: %v, error %v", ran, err)
			}
			if want := Code("sold_out"); name == "a code of tomorrow" && !errors.Is(err, want) {
				t.Errorf("error %v, want its own code", err)
			} else if name != "a code of tomorrow" && !errors.Is(err, ErrUnexpectedAnswer) {
				t.Errorf("error %v, want unexpected_answer", err)
			}
		})
	}
}

func TestAConfigurationThatCannotBeRightIsRefused(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]Config{
		"no address":           {APIKey: "k"},
		"no key":               {BaseURL: "https://onceward.example"},
		"a key with a newline": {BaseURL: "https://onceward.example", APIKey: "k\n"},
		"plain http":           {BaseURL: "http://onceward.example", APIKey: "k"},
		"no scheme":            {BaseURL: "onceward.example", APIKey: "k"},
		"a key in the address": {BaseURL: "https://k@onceward.example", APIKey: "k"},
		"retries for a minute": {BaseURL: "https://onceward.example", APIKey: "k", RetryFor: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(config); err == nil || !strings.Contains(err.Error(), "Config.") {
				t.Errorf("error %v, want one that names what to mend", err)
			}
		})
	}
	for _, base := range []string{"http://127.0.0.1:8080", "http://[::1]:8080/", "http://localhost", "https://onceward.example/prefix/"} {
		c, err := New(Config{BaseURL: base, APIKey: "k"})
		if err != nil {
			t.Errorf("%s: %v", base, err)
			continue
		}
		_ = c.Close(t.Context())
	}
}
