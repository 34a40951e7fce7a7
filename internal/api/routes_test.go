package api

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
)

func TestTheRouterHasTheTableAndNothingElse(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Metrics: http.NotFoundHandler()})
	if err != nil {
		t.Fatal(err)
	}
	for _, listener := range []Listener{Public, Operator} {
		var got, want []string
		err := chi.Walk(newRouter(a, listener).mux, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			got = append(got, method+" "+pattern)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range Routes() {
			if r.Listener != listener {
				continue
			}
			want = append(want, r.Method+" "+r.Pattern)
			if r.Method == http.MethodGet {
				want = append(want, "HEAD "+r.Pattern)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s routes (-router +table):\n%s", listener, diff)
		}
	}
}

// Every row is a call with roles or a page with none, and is right in itself.
func TestEveryRowOfTheTableIsWhole(t *testing.T) {
	t.Parallel()
	for _, r := range table() {
		name := r.method + " " + r.pattern
		switch {
		case (r.call == nil) == (r.page == nil):
			t.Errorf("%s is a call and a page, or neither", name)
		case r.call != nil && len(r.roles) == 0:
			t.Errorf("%s is for no role", name)
		case r.page != nil && (r.roles != nil || r.body != noBody || r.query != nil || r.allow != nil || r.whileSuspended):
			t.Errorf("%s is a page with checks that nobody makes", name)
		case r.listener != Public && r.listener != Operator:
			t.Errorf("%s is on no listener", name)
		}
	}
}
