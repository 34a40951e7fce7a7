package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// While a rollout is under way the new version meets the schema of the one
// before, and the old one a schema that it does not know: both serve.
func TestItServesOnASchemaOfTheVersionBeforeAndAfter(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		move func(testing.TB, *pgxpool.Pool)
		log  string
	}{
		"oldest": {postgrestest.Oldest, `"msg":"the schema is behind this version, which serves on it: run api migrate up"`},
		"newer":  {postgrestest.Newer, `"msg":"the schema is ahead of this version, which serves on it"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := postgrestest.New(t)
			tt.move(t, pool)
			databaseURL := pool.Config().ConnString()
			c := newClient(t, databaseURL)
			token := strings.Repeat("t", shortestToken)
			i := startHere(t, databaseURL, "ONCEWARD_OPERATOR_TOKEN="+token)
			if got := call(t, http.MethodGet, i.OpsURL+"/readyz", "", ""); got.status != http.StatusOK {
				t.Errorf("/readyz: %d %s", got.status, got.body)
			}
			key := c.key.Reveal()
			do := func(method, path, body string, want int, header ...string) answer {
				t.Helper()
				got := call(t, method, i.URL+path, key, body, header...)
				if got.status != want {
					t.Errorf("%s %s: %d %s, want %d", method, path, got.status, got.body, want)
				}
				return got
			}
			held := do(http.MethodPost, "/v1/keys", begin, http.StatusCreated)
			lease := []string{"Onceward-Lease", fmt.Sprint(member(t, held.body, "lease", "token"))}
			at := held.header.Get("Location")
			do(http.MethodPost, "/v1/keys", begin, http.StatusConflict)
			do(http.MethodPut, at+"/recovery-point", `{"name": "charged", "data": {"a": 1}}`, http.StatusNoContent, lease...)
			do(http.MethodPatch, at+"/lease", `{"lease_seconds": 60}`, http.StatusOK, lease...)
			do(http.MethodPut, at+"/response", `{"status": 201, "body": "done"}`, http.StatusOK, lease...)
			do(http.MethodPost, "/v1/keys", begin, http.StatusOK)
			do(http.MethodPost, "/v1/keys", strings.Replace(begin, "4711", "4712", 1), http.StatusConflict)
			do(http.MethodGet, at, "", http.StatusOK)
			other := do(http.MethodPost, "/v1/keys", strings.Replace(begin, "0123456789", "9876543210", 1), http.StatusCreated)
			do(http.MethodPost, other.header.Get("Location")+"/unknown", "", http.StatusNoContent, "Onceward-Lease", fmt.Sprint(member(t, other.body, "lease", "token")))
			do(http.MethodGet, "/v1/contract", "", http.StatusOK)
			if got := call(t, http.MethodGet, i.OpsURL+"/v1/admin/tenants", token, ""); got.status != http.StatusOK {
				t.Errorf("the operator: %d %s", got.status, got.body)
			}
			i.stop()
			if err := i.wait(t); err != nil {
				t.Error(err)
			}
			if !strings.Contains(i.log.String(), tt.log) {
				t.Errorf("the log has no %s:\n%s", tt.log, i.log.String())
			}
		})
	}
}

// Below the oldest level it waits, and says so at its start and at /readyz.
func TestOnASchemaThatIsTooOldItIsNotReadyAndSaysWhy(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	postgrestest.Oldest(t, pool)
	if _, err := postgres.TakeBack(t.Context(), pool, slog.New(slog.DiscardHandler), postgres.OldestLevel); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("the schema is too old for this version: level %d (", postgres.OldestLevel)
	i := startHere(t, pool.Config().ConnString())
	if got := call(t, http.MethodGet, i.OpsURL+"/readyz", "", ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, want) {
		t.Errorf("/readyz: %d %s, want 503 and %q", got.status, got.body, want)
	}
	eventually(t, "the log says it", func() bool { return strings.Contains(i.log.String(), want) })
}
