package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/problem"
)

// detour is a network that makes another request of the same service in place
// of the one that it is given: so the client meets answers to calls that it
// never makes.
type detour struct {
	base        http.RoundTripper
	method, url string
	token       string // empty: the client's own
	body        string
	header      [2]string // in place of the client's, or beside them
}

func (d detour) RoundTrip(r *http.Request) (*http.Response, error) {
	other, err := http.NewRequestWithContext(r.Context(), d.method, d.url, strings.NewReader(d.body))
	if err != nil {
		return nil, err
	}
	_ = r.Body.Close()
	other.Header.Set("Content-Type", "application/json")
	other.Header.Set("Authorization", r.Header.Get("Authorization"))
	if d.token != "" {
		other.Header.Set("Authorization", "Bearer "+d.token)
	}
	if d.header[0] != "" {
		other.Header.Set(d.header[0], d.header[1])
	}
	return d.base.RoundTrip(other)
}

// TestEveryCodeOfTheContractIsSeen provokes each row of the contract's table at
// the real service, and tells it by its code alone, with all that was said.
func TestEveryCodeOfTheContractIsSeen(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(100))
	provoke := codeProvokers(t, w)
	for _, row := range problem.Table() {
		code := client.Code(row.Kind)
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			f, ok := provoke[code]
			if !ok {
				t.Fatal("nothing here provokes it")
			}
			err := f(t)
			wantCode(t, err, code)
			for _, other := range problem.Table() {
				if other.Kind != row.Kind && errors.Is(err, client.Code(other.Kind)) {
					t.Errorf("it counts as %s too", other.Kind)
				}
			}
			got, _ := errors.AsType[*client.Error](err)
			if got.Status != row.Status || got.Title != row.Title || got.Detail == "" || got.RequestID == "" || !strings.HasSuffix(got.Type, "/problems/"+string(code)) {
				t.Errorf("%+v, want status %d, %q, a detail, a request id and the address of its page", got, row.Status, row.Title)
			}
			if waits := code == client.ErrInProgress || code == client.ErrRateLimited || code == client.ErrUnavailable; row.Status != 429 && waits != (got.RetryAfter > 0) {
				t.Errorf("RetryAfter %v", got.RetryAfter)
			}
			if want := code == client.ErrUnavailable || code == client.ErrInternal; client.OutOfReach(err) != want {
				t.Errorf("OutOfReach %v, want %v", !want, want)
			}
		})
	}
	if len(provoke) != len(problem.Table()) {
		t.Errorf("%d codes are provoked, %d are in the table", len(provoke), len(problem.Table()))
	}
}

// codeProvokers has, for each code, what makes the service answer with it.
func codeProvokers(t *testing.T, w *apitest.World) map[client.Code]func(*testing.T) error {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	once := func(c *client.Config) { c.RetryFor = -1 }
	begin := func(t *testing.T, options ...option) error {
		_, err := newClient(t, w, append(options, once)...).Begin(t.Context(), charge(newKey()))
		return err
	}
	// instead makes an admin's request in place of a begin.
	instead := func(method, path, body string, header ...string) func(*testing.T) error {
		d := detour{base: transport, method: method, url: w.URL + path, body: body}
		copy(d.header[:], header)
		return func(t *testing.T) error { t.Helper(); return begin(t, withKey(w.Tenant.Admin), over(d)) }
	}
	raw := func(method, body string, header ...string) func(*testing.T) error {
		d := detour{base: transport, method: method, url: w.URL + "/v1/keys", body: body}
		copy(d.header[:], header)
		return func(t *testing.T) error { t.Helper(); return begin(t, over(d)) }
	}
	held := func(t *testing.T) (client.Operation, *client.Acquired) {
		t.Helper()
		op := charge(newKey())
		return op, acquire(t, newClient(t, w), op)
	}
	admin := func(t *testing.T) *client.Client { t.Helper(); return newClient(t, w, withKey(w.Tenant.Admin)) }

	return map[client.Code]func(*testing.T) error{
		client.ErrInvalidRequest:       raw("POST", `{"key":"12345678","nosuch":1}`),
		client.ErrInvalidKey:           raw("POST", `{"key":"short","operation":"a","request":{}}`),
		client.ErrMissingKey:           raw("POST", `{"operation":"a","request":{}}`),
		client.ErrMethodNotAllowed:     raw("PUT", `{}`),
		client.ErrUnsupportedMediaType: raw("POST", `{}`, "Content-Type", "text/plain"),
		client.ErrRequestTooLarge:      raw("POST", strings.Repeat(" ", 1<<20)),
		client.ErrImmutable:            instead("PATCH", "/v1/namespaces/"+w.Tenant.Live.String(), `{"name":"europe","key_scope":"namespace"}`),
		client.ErrNameTaken:            instead("POST", "/v1/credentials", `{"name":"ops","role":"ops"}`),
		client.ErrLastAdmin:            instead("DELETE", "/v1/credentials/"+w.Tenant.Admin[4:20], ""),
		client.ErrPreconditionRequired: instead("PATCH", "/v1/policy", `{"lease_seconds":90}`),
		client.ErrPreconditionFailed:   instead("PATCH", "/v1/policy", `{"lease_seconds":90}`, "If-Match", `"nonsense"`),
		client.ErrNotSuspended: func(t *testing.T) error {
			path := "/v1/admin/tenants/" + w.Tenant.ID.String()
			name := textMember(t, w.Operator().Do(t, http.MethodGet, path, nil), "name")
			return begin(t, over(detour{base: transport, method: "DELETE", url: w.OperatorURL + path + "?name=" + url.QueryEscape(name), token: apitest.OperatorToken}))
		},
		client.ErrUnauthenticated: func(t *testing.T) error { return begin(t, withKey("ow_nobody")) },
		client.ErrForbidden:       func(t *testing.T) error { return begin(t, withKey(w.Tenant.Ops)) },
		client.ErrSuspended: func(t *testing.T) error {
			other := w.NewTenant(t)
			if err := w.Tenants.Suspend(t.Context(), other.ID, "a test"); err != nil {
				t.Fatal(err)
			}
			return begin(t, withKey(other.Service))
		},
		client.ErrReauthenticate: func(t *testing.T) error {
			token := textMember(t, w.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/auth/token", nil), "token")
			return newClient(t, w, withKey(token)).Forget(t.Context(), client.Forget{ID: "AAAAAAAAAAAAAAAAAAAAAA", Fence: 1, Reason: "a test"})
		},
		client.ErrNotFound: func(t *testing.T) error {
			_, err := newClient(t, w).Inspect(t.Context(), "AAAAAAAAAAAAAAAAAAAAAA")
			return err
		},
		client.ErrInProgress: func(t *testing.T) error {
			op, _ := held(t)
			_, err := newClient(t, w).Begin(t.Context(), op)
			return err
		},
		client.ErrMismatch: func(t *testing.T) error {
			op, _ := held(t)
			op.Request = &client.Request{Body: []byte("other")}
			_, err := newClient(t, w).Begin(t.Context(), op)
			return err
		},
		client.ErrOutcomeUnknown: func(t *testing.T) error {
			op, acquired := held(t)
			c := newClient(t, w)
			if err := c.DeclareUnknown(t.Context(), acquired.Held()); err != nil {
				t.Fatal(err)
			}
			_, err := c.Begin(t.Context(), op)
			return err
		},
		client.ErrAlreadyCompleted: func(t *testing.T) error {
			_, acquired := held(t)
			c := newClient(t, w)
			if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
				t.Fatal(err)
			}
			return c.Release(t.Context(), acquired.Held())
		},
		client.ErrLeaseLost: func(t *testing.T) error {
			op, first := held(t)
			w.Advance(t, string(first.ID), longest)
			c := newClient(t, w)
			acquire(t, c, op)
			return c.Release(t.Context(), first.Held())
		},
		client.ErrBodyTooLarge: func(t *testing.T) error {
			_, acquired := held(t)
			_, err := newClient(t, w).Complete(t.Context(), acquired.Held(), client.Response{Status: 200, Body: make([]byte, 101)})
			return err
		},
		client.ErrLeaseLive: func(t *testing.T) error {
			_, acquired := held(t)
			return admin(t).Forget(t.Context(), client.Forget{ID: acquired.ID, Fence: acquired.Lease.Fence, Reason: "a test"})
		},
		client.ErrRecordChanged: func(t *testing.T) error {
			_, acquired := held(t)
			return admin(t).Forget(t.Context(), client.Forget{ID: acquired.ID, Fence: acquired.Lease.Fence - 1, Reason: "a test", Force: true})
		},
		client.ErrNotUnknown: func(t *testing.T) error {
			_, acquired := held(t)
			_, err := admin(t).Resolve(t.Context(), client.Resolution{ID: acquired.ID, Fence: acquired.Lease.Fence, Reason: "a test"})
			return err
		},
		client.ErrRateLimited: func(t *testing.T) error {
			return limited(t, w, apitest.Object{"requests_per_second": 1}, client.ErrRateLimited)
		},
		client.ErrQuotaExceeded: func(t *testing.T) error {
			return limited(t, w, apitest.Object{"max_live_records": 1}, client.ErrQuotaExceeded)
		},
		client.ErrInternal: func(t *testing.T) error { return failing(t, errors.New("a fault of the service's own")) },
		client.ErrUnavailable: func(t *testing.T) error {
			return failing(t, problem.Unavailable(io.ErrUnexpectedEOF))
		},
	}
}

// textMember is one member of an answer.
func textMember(t *testing.T, a *apitest.Answer, name string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(a.Body, &members); err != nil {
		t.Fatal(err)
	}
	text, _ := members[name].(string)
	if text == "" {
		t.Fatalf("the answer has no text %s", name)
	}
	return text
}

// limited begins for a tenant of its own until the limit is reached.
func limited(t *testing.T, w *apitest.World, limit apitest.Object, code client.Code) (err error) {
	t.Helper()
	other := w.NewTenant(t)
	w.Operator().Do(t, http.MethodPatch, "/v1/admin/tenants/"+other.ID.String(), limit).Expect(t, 200)
	c := newClient(t, w, withKey(other.Service), func(c *client.Config) { c.RetryFor = -1 })
	eventually(t, "the limit is reached", func() bool {
		if err := w.Limits.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = c.Begin(t.Context(), charge(newKey()))
		return errors.Is(err, code)
	})
	return err
}

// failing begins at a service of its own whose begins fail so.
func failing(t *testing.T, failure error) error {
	t.Helper()
	w := apitest.New(t, apitest.WrapKeys(func(k api.Keys) api.Keys {
		return failingKeys{Keys: k, before: func(string) error { return failure }, after: func(string) error { return nil }}
	}))
	_, err := newClient(t, w, func(c *client.Config) { c.RetryFor = -1 }).Begin(t.Context(), charge(newKey()))
	return err
}
