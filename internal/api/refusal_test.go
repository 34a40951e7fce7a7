package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/auth"
)

// Refusals of one kind are written once a minute, and none is lost from the
// count; another kind, credential or tenant has its own.
func TestRefusalsOfOneKindAreWrittenOnceAMinuteWithTheirCount(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := newRefusals(func() time.Time { return now })
	k := refusalKey{auth.TenantID{1}, "abcdefghijklmnop", "POST /v1/credentials", "forbidden"}
	var got []int
	for range 1000 {
		got = append(got, r.take(k))
	}
	now = now.Add(refusalEvery)
	got = append(got, r.take(k), r.take(k))
	now = now.Add(refusalEvery)
	got = append(got, r.take(k))
	want := append(append([]int{1}, make([]int, 999)...), 1000, 0, 2)
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("entries (-got +want):\n%s", diff)
	}
	for _, other := range []refusalKey{
		{auth.TenantID{2}, k.credential, k.call, k.code},
		{k.tenant, "ponmlkjihgfedcba", k.call, k.code},
		{k.tenant, k.credential, "POST /v1/namespaces", k.code},
		{k.tenant, k.credential, k.call, "last_admin"},
	} {
		if n := r.take(other); n != 1 {
			t.Errorf("%v: %d", other, n)
		}
	}
}
