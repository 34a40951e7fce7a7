package keys

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// A comparison that was cut off goes on where it was; only the end of a whole
// one counts as done.
func TestAComparisonGoesOnWhereItWasCutOff(t *testing.T) {
	t.Parallel()
	postgrestest.NeedsLevel(t, 41)
	h := setup(t)
	var ids []ID
	for range 6 {
		ids = append(ids, h.acquire(h.caller, charge()).ID)
	}
	slices.SortFunc(ids, func(a, b ID) int { return bytes.Compare(a[:], b[:]) })
	h.service.Close() // its feed has nothing to say any more
	exec := func(statement string) {
		t.Helper()
		if _, err := h.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	compared := func(u *SearchUpkeep) (found []ID) {
		t.Helper()
		exec("truncate key_search, key_search_whole")
		if err := u.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		rows, err := h.pool.Query(t.Context(), "select id from key_search order by id")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id ID
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			found = append(found, id)
		}
		if done, err := u.rows.IsCompared(t.Context()); err != nil || !done {
			t.Errorf("it does not count as compared: %v", err)
		}
		return found
	}
	u := NewSearchUpkeep(h.pool)
	begun := func() pass {
		t.Helper()
		p := pass{id: uuid.New(), tenant: h.caller.Tenant, last: ids[2]}
		if err := u.rows.BeginPass(t.Context(), p.id); err != nil {
			t.Fatal(err)
		}
		return p
	}
	u.pass = begun()
	if diff := cmp.Diff(compared(u), ids[3:]); diff != "" {
		t.Errorf("the rest of a comparison (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(compared(u), ids); diff != "" {
		t.Errorf("the next comparison (-got +want):\n%s", diff)
	}

	// What was compared before a crash is gone, so the rest is not the whole.
	u.pass = begun()
	exec("truncate key_search, key_search_whole, key_search_passes")
	if err := u.Run(t.Context()); !errors.Is(err, errEmptied) {
		t.Errorf("after a crash in the middle: %v", err)
	}
	if done, err := u.rows.IsCompared(t.Context()); err != nil || done {
		t.Errorf("after a crash in the middle it counts as compared (%v)", err)
	}
	if diff := cmp.Diff(compared(u), ids); diff != "" {
		t.Errorf("the comparison after it (-got +want):\n%s", diff)
	}
}
