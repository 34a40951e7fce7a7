//go:build unix

package fault_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// envNewBin names the folder of a newer PostgreSQL's programs to upgrade to.
// Without it the tests move to a second server of the same version.
const envNewBin = "PG_BIN_NEW"

// docs/operations.md, an upgrade without a long stop: a new server follows the
// old one by logical replication while the API takes calls, and takes over. What
// was completed is replayed, what is held can be completed, and numbers go on.
func TestANewServerTakesOverByLogicalReplication(t *testing.T) {
	t.Parallel()
	dump, psql := program(t, "pg_dump"), program(t, "psql")
	before := newFolder(t)
	before.opts.Settings = map[string]string{"wal_level": "logical"}
	before.start(t)
	pool := migrated(t, before)
	notOlder(t, dump, pool)
	after := newFolder(t)
	after.opts.BinDir = os.Getenv(envNewBin)
	after.start(t)
	if err := after.CreateDatabase(t.Context(), "onceward"); err != nil {
		t.Fatal(err)
	}
	w := processtest.On(t, apitest.On(t, pool), before.URL("onceward"))
	process := w.API(t)
	l := startLoad(t, w, 2, process)

	onThePage(t, "--no-toast-compression", "--schema-only", "create publication onceward for all tables", "create subscription onceward connection", "publication onceward",
		"srsubstate <> 'r'", "confirmed_flush_lsn", sequences, "drop subscription onceward")
	follower := poolOn(t, after.URL("onceward"))
	schema := filepath.Join(t.TempDir(), "schema.sql")
	options := []string{"--schema-only", "--no-owner", "--file=" + schema, "--dbname=" + before.URL("onceward")}
	if count(t, follower, `select count(*) from pg_settings where name = 'default_toast_compression' and 'lz4' = any(enumvals)`) == 0 {
		options = append([]string{"--no-toast-compression"}, options...)
	}
	command(t, dump, options...)
	command(t, psql, "--quiet", "--set=ON_ERROR_STOP=1", "--file="+schema, "--dbname="+after.URL("onceward"))
	execute(t, pool, "create publication onceward for all tables")
	execute(t, follower, fmt.Sprintf("create subscription onceward connection '%s' publication onceward", before.URL("onceward")))
	processtest.Eventually(t, "every table is copied", func() bool {
		return count(t, follower, "select count(*) from pg_subscription_rel where srsubstate <> 'r'") == 0
	})
	l.goesOn(t, "the copy")

	l.end()
	process.Terminate(t)
	process.Wait(t)
	processtest.Eventually(t, "the new server has everything", func() bool {
		return count(t, pool, "select count(*) from pg_replication_slots where confirmed_flush_lsn < pg_current_wal_lsn()") == 0
	})
	numbers, err := pool.Query(t.Context(), sequences)
	if err != nil {
		t.Fatal(err)
	}
	var moves []string
	for numbers.Next() {
		var move string
		if err := numbers.Scan(&move); err != nil {
			t.Fatal(err)
		}
		moves = append(moves, move)
	}
	if err := numbers.Err(); err != nil || len(moves) == 0 {
		t.Fatalf("%d sequences: %v", len(moves), err)
	}
	for _, move := range moves {
		execute(t, follower, move)
	}
	execute(t, follower, "drop subscription onceward")

	moved := processtest.On(t, apitest.On(t, follower), after.URL("onceward"))
	process = moved.API(t)
	c := process.Client(w.Tenant.Service)
	for key := range l.completed {
		if err := processtest.IsDone(c.Begin(t, apitest.Charge(key)), "the response of "+key); err != nil {
			t.Error(err)
		}
	}
	for key, held := range l.begun {
		c.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
		c.Complete(t, held, processtest.Done("done")).Completion(t)
	}
	// An entry of the audit trail takes the next number.
	last := count(t, follower, "select max(entry_id) from audit")
	process.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/namespaces", apitest.Object{"name": "after"}).Expect(t, http.StatusCreated)
	if got := count(t, follower, "select max(entry_id) from audit"); got <= last {
		t.Errorf("the audit trail's next number is %d after %d", got, last)
	}
	t.Logf("from PostgreSQL %s to %s with %d completed and %d begun", before.Version, after.Version, len(l.completed), len(l.begun))
}

// sequences has a statement for each, which logical replication does not carry.
const sequences = `select format('select setval(%L, %s)', format('%I.%I', schemaname, sequencename), last_value) from pg_sequences where last_value is not null`

func execute(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, pool *pgxpool.Pool, query string) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
