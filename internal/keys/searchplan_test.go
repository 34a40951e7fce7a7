package keys

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/postgres"
)

// lastQuery keeps the last statement about key_search that was asked.
type lastQuery struct {
	sql  string
	args []any
}

func (l *lastQuery) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "from key_search s") {
		l.sql, l.args = data.SQL, data.Args
	}
	return ctx
}

func (l *lastQuery) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// planNode is what the test reads of EXPLAIN (FORMAT JSON).
type planNode struct {
	Type  string     `json:"Node Type"`  //nolint:tagliatelle // as PostgreSQL writes it
	Index string     `json:"Index Name"` //nolint:tagliatelle // as PostgreSQL writes it
	Plans []planNode `json:"Plans"`      //nolint:tagliatelle // as PostgreSQL writes it
}

func (n planNode) types() (all []string) {
	all = []string{strings.TrimSpace(n.Type + " " + n.Index)}
	for _, below := range n.Plans {
		all = append(all, below.types()...)
	}
	return all
}

// However many records there are, a search reads the index that fits and not the
// table; where it may find many it reads them in the order of the answer, and
// sorts nothing.
func TestEverySearchReadsAnIndex(t *testing.T) {
	t.Parallel()
	h := setup(t)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := h.pool.Exec(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`
insert into key_search (tenant_id, id, namespace_id, created_at, lease_expires_at, fence, state, hold, caller, operation, key, terms)
select t.id, gen_random_uuid(), $2, now() - n * interval '1 second', now(), n,
    case when n % 1000 = 0 then 4 else 3 end, false, 'cus_' || n % 500, 'POST /v1/' || n % 50, 'key-' || n, array[t.id || '/order=' || n]
from generate_series(1, 60000) n, lateral (select case when n % 2 = 0 then $1::uuid else gen_random_uuid() end as id) t`, h.caller.Tenant, h.caller.Namespace)
	exec("vacuum analyze key_search")
	trace := &lastQuery{}
	traced, err := postgres.Open(t.Context(), postgres.Config{URL: h.pool.Config().ConnString(), MaxConns: 1, Tracer: trace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(traced.Close)
	rows := &adminStore{pool: traced}
	unknown, completed := StateUnknown, StateCompleted
	for name, tt := range map[string]struct {
		req   SearchRequest
		index string
		sorts bool // what it finds is little
	}{
		"everything":             {SearchRequest{}, "newest", false},
		"a key":                  {SearchRequest{Key: new("key-4000")}, "key", true},
		"a caller":               {SearchRequest{Caller: new("cus_4")}, "caller", false},
		"an operation":           {SearchRequest{Operation: new("POST /v1/4")}, "operation", false},
		"a namespace":            {SearchRequest{Namespace: &h.caller.Namespace}, "", false},
		"what is unknown":        {SearchRequest{State: &unknown}, "unsettled", true},
		"what is completed":      {SearchRequest{State: &completed}, "newest", false},
		"metadata":               {SearchRequest{Metadata: &map[string]string{"order": "4000"}}, "terms", true},
		"a day":                  {SearchRequest{Since: new(time.Now().Add(-time.Hour)), Until: new(time.Now())}, "newest", false},
		"a caller, an operation": {SearchRequest{Caller: new("cus_4"), Operation: new("POST /v1/4")}, "", true},
	} {
		for page, from := range map[string]*searchPosition{"first": nil, "next": {createdAt: time.Now().Add(-time.Minute), id: ID{1}}} {
			if _, _, _, err := rows.Search(t.Context(), h.caller.Tenant, tt.req, from, 50); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var text []byte
			if err := h.pool.QueryRow(t.Context(), "explain (format json) "+trace.sql, trace.args...).Scan(&text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var plan []struct{ Plan planNode }
			if err := json.Unmarshal(text, &plan); err != nil || len(plan) != 1 {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
			types := strings.Join(plan[0].Plan.types(), ", ")
			if strings.Contains(types, "Seq Scan") || !strings.Contains(types, " key_search_"+tt.index) || !tt.sorts && strings.Contains(types, "Sort") {
				t.Errorf("%s, %s page: %s", name, page, types)
			}
		}
	}
}
