package api

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A server that says nothing is told from one that says no.
func TestAReasonSaysThatNothingWasAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		no := func(context.Context) error { return context.Canceled }
		silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		got := runChecks(t.Context(), []Check{{Name: "a", Run: no}, {Name: "b", Run: silent}})
		want := []checkResult{
			{Name: "a", Reason: "context canceled"},
			{Name: "b", Reason: "no answer within 2s: context deadline exceeded"},
		}
		if diff := cmp.Diff(got, want, cmpopts.IgnoreUnexported(checkResult{})); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
	})
}
