package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// broken is the real service but for what a test lets fail.
type broken struct {
	api.Keys
	beginFunc func(ctx context.Context) (keys.Outcome, error)
	batchFunc func(emit func(i int, outcome keys.Outcome, err error) error) error
}

func (b broken) Begin(ctx context.Context, caller auth.Caller, req keys.BeginRequest) (keys.Outcome, error) {
	if b.beginFunc == nil {
		return b.Keys.Begin(ctx, caller, req)
	}
	return b.beginFunc(ctx)
}

func (b broken) BeginBatch(ctx context.Context, caller auth.Caller, entries []keys.BatchEntry, emit func(i int, outcome keys.Outcome, err error) error) error {
	if b.batchFunc == nil {
		return b.Keys.BeginBatch(ctx, caller, entries, emit)
	}
	return b.batchFunc(emit)
}

// newBroken is a world whose keys fail as said, and what it logs.
func newBroken(t *testing.T, b broken) (*apitest.World, *logbook) {
	t.Helper()
	book := newLogbook()
	w := apitest.New(t, apitest.Logger(slog.New(book)), apitest.WrapKeys(func(service api.Keys) api.Keys {
		b.Keys = service
		return b
	}))
	return w, book
}

func Test500ShowsNothingOfTheInside(t *testing.T) {
	t.Parallel()
	tests := map[string]func(context.Context) (keys.Outcome, error){
		"a panic":             func(context.Context) (keys.Outcome, error) { panic("canary") },
		"a nil dereference":   func(context.Context) (keys.Outcome, error) { var o *keys.Acquired; return *o, nil },
		"an unforeseen error": func(context.Context) (keys.Outcome, error) { return nil, errors.New("canary") },
		"no outcome":          func(context.Context) (keys.Outcome, error) { return nil, nil },
		"an internal error":   func(context.Context) (keys.Outcome, error) { return nil, problem.Internal(errors.New("canary")) },
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, book := newBroken(t, broken{beginFunc: begin})
			c := w.Client(w.Tenant.Service)
			a := c.Begin(t, apitest.Charge(newKey(t)))
			checkCommonHeaders(t, a)
			p := a.Problem(t, 500, "internal")
			if strings.Contains(string(a.Body), "canary") || strings.Contains(string(a.Body), "goroutine") {
				t.Errorf("the answer shows the inside: %s", a.Body)
			}
			c.Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200) // the process lives
			eventually(t, "the error is logged under the request's id", func() bool {
				for line := range strings.Lines(book.all()) {
					if strings.Contains(line, p.RequestID) {
						return strings.Contains(line, `"level":"ERROR"`) && strings.Contains(line, `"error":`)
					}
				}
				return false
			})
		})
	}
}

func Test503SaysWhenToRepeat(t *testing.T) {
	t.Parallel()
	w, _ := newBroken(t, broken{beginFunc: func(context.Context) (keys.Outcome, error) {
		return nil, problem.Unavailable(errors.New("canary"))
	}})
	a := w.Client(w.Tenant.Service).Begin(t, apitest.Charge(newKey(t)))
	p := a.Problem(t, 503, "unavailable")
	if a.Header.Get("Retry-After") != "1" || p.RetryAfter != 1 || strings.Contains(string(a.Body), "canary") {
		t.Errorf("Retry-After %q, body %s; want 1 and no cause", a.Header.Get("Retry-After"), a.Body)
	}
}

// A batch that fails before anything of it was sent is a problem; after that
// its answer is cut off, and never looks whole.
func TestABatchThatFailsHalfWayIsCutOff(t *testing.T) {
	t.Parallel()
	failures := map[string]func(func(int, keys.Outcome, error) error) error{
		"by an error": func(emit func(int, keys.Outcome, error) error) error {
			return errors.Join(emit(0, keys.Unknown{}, nil), errors.New("canary"))
		},
		"by a panic": func(emit func(int, keys.Outcome, error) error) error {
			if err := emit(0, keys.Unknown{}, nil); err != nil {
				return err
			}
			panic("canary")
		},
		"after much was sent": func(emit func(int, keys.Outcome, error) error) error {
			large := keys.Replay{Response: keys.Response{Status: 200, Body: []byte(strings.Repeat("b", 1<<20))}}
			for i := range 4 {
				if err := emit(i, large, nil); err != nil {
					return err
				}
			}
			return errors.New("canary")
		},
	}
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, book := newBroken(t, broken{batchFunc: fail})
			c := w.Client(w.Tenant.Service)
			body := apitest.Object{"operations": []any{apitest.Charge(newKey(t)), apitest.Charge(newKey(t))}}
			a, err := c.Try(t.Context(), http.MethodPost, "/v1/keys/batch", body)
			if err == nil && a.Status == 200 {
				t.Fatalf("the answer looks whole: %.200s", a.Body)
			}
			if err == nil {
				a.Problem(t, 500, "internal")
			} else if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				t.Errorf("the client saw %v, want an end that comes too early", err)
			}
			eventually(t, "the cause is logged", func() bool {
				return strings.Contains(book.all(), "canary") && strings.Contains(book.all(), `"route":"POST /v1/keys/batch"`)
			})
			c.Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
		})
	}
	t.Run("before anything was sent", func(t *testing.T) {
		t.Parallel()
		w, _ := newBroken(t, broken{batchFunc: func(func(int, keys.Outcome, error) error) error { return errors.New("canary") }})
		w.Client(w.Tenant.Service).Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge(newKey(t))}}).Problem(t, 500, "internal")
	})
}

func TestACallerThatLeavesIsNoErrorOfTheService(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	w, book := newBroken(t, broken{beginFunc: func(ctx context.Context) (keys.Outcome, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-entered
		leave()
	}()
	if _, err := w.Client(w.Tenant.Service).Try(ctx, http.MethodPost, "/v1/keys", apitest.Charge(newKey(t))); !errors.Is(err, context.Canceled) {
		t.Fatalf("the client got %v, want that it was cancelled", err)
	}
	eventually(t, "the request is logged", func() bool { return strings.Contains(book.all(), "POST /v1/keys") })
	if strings.Contains(book.all(), `"level":"ERROR"`) {
		t.Errorf("logged as an error: %s", book.all())
	}
}
