//go:build unix

package fault_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// B009: where the database refuses to store a response the answer is no
// success, the key is not freed, and the same completion is stored once the
// database takes it.
func TestACompletionThatTheDatabaseRefusesIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		refuse, allow []string // statements; %[1]s is the role of the process
		status        int
		code          string
	}{
		"no right to update": {
			[]string{`revoke update on idempotency_keys from %[1]s`},
			[]string{`grant update on idempotency_keys to %[1]s`},
			http.StatusInternalServerError, "internal",
		},
		"read only": {
			[]string{`alter role %[1]s set default_transaction_read_only = on`, reconnect},
			[]string{`alter role %[1]s reset default_transaction_read_only`, reconnect},
			http.StatusServiceUnavailable, "unavailable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := apitest.On(t, postgrestest.New(t))
			role, databaseURL := roleOf(t, base)
			w := processtest.On(t, base, databaseURL)
			w.Expect("permission denied", "read-only", refused)
			run := func(statements []string) {
				for _, statement := range statements {
					if _, err := w.Pool.Exec(t.Context(), fmt.Sprintf(statement, role)); err != nil {
						t.Fatalf("%s: %v", statement, err)
					}
				}
			}
			processes := w.APIs(t, 2)
			c, other := processes[0].Client(w.Tenant.Service), processes[1].Client(w.Tenant.Service)
			key := processtest.NewKey()
			held := c.Begin(t, apitest.Charge(key)).Acquired(t)
			other.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")

			run(fault.refuse)
			a := c.Complete(t, held, processtest.Done("done"))
			a.Problem(t, fault.status, fault.code)
			if got := a.Header.Get("Retry-After") != ""; got != (fault.status == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After %q with %d", a.Header.Get("Retry-After"), a.Status)
			}
			run(fault.allow)

			other.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
			c.Complete(t, held, processtest.Done("done")).Completion(t)
			for _, c := range []*apitest.Client{c, other} {
				if err := processtest.IsDone(c.Begin(t, apitest.Charge(key)), "done"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// reconnect ends the sessions of the role: what a role is set to holds for new
// ones.
const reconnect = `select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = '%[1]s'`

// roleOf makes a role that may do in the world's database what the service
// does, and no more, and the URL with which it connects.
func roleOf(t *testing.T, w *apitest.World) (role, databaseURL string) {
	t.Helper()
	var mayMakeRoles bool
	if err := w.Pool.QueryRow(t.Context(), `select rolsuper from pg_roles where rolname = current_user`).Scan(&mayMakeRoles); err != nil {
		t.Fatal(err)
	}
	if !mayMakeRoles {
		t.Skip("the role of the tests' server may not make and limit roles")
	}
	role, password := "onceward_test_"+strings.ToLower(rand.Text()), rand.Text()
	for _, statement := range []string{
		`create role %[1]s login password '%[2]s'`,
		`grant select, insert, update, delete on all tables in schema public to %[1]s`,
		`grant usage on all sequences in schema public to %[1]s`,
		`grant usage on schema river to %[1]s`,
		`grant select, insert, update, delete on all tables in schema river to %[1]s`,
	} {
		if _, err := w.Pool.Exec(t.Context(), fmt.Sprintf(statement, role, password)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	t.Cleanup(func() {
		for _, statement := range []string{`drop owned by %s`, `drop role %s`} {
			if _, err := w.Pool.Exec(context.Background(), fmt.Sprintf(statement, pgx.Identifier{role}.Sanitize())); err != nil {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
	at, err := url.Parse(w.Pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(role, password)
	return role, at.String()
}
