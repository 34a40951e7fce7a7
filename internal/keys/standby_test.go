package keys

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// setupStandby is a house on a server of its own that waits for a synchronous
// standby which is not there, from the call of await on.
func setupStandby(t *testing.T) (h *house, await, release func()) {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Options{Fast: true, Settings: map[string]string{"synchronous_commit": "on"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: server.URL("postgres"), MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := postgres.Migrate(t.Context(), pool, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	tenantService, err := tenants.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	h = &house{t: t, pool: pool, tenants: tenantService, seen: &watcher{}}
	h.service = h.process(pool)
	h.caller, h.wide = h.newTenant("acme")
	names := func(value string) func() {
		return func() {
			for _, statement := range []string{"alter system set synchronous_standby_names = '" + value + "'", "select pg_reload_conf()"} {
				if _, err := pool.Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the setting is in force", func() bool {
				var now string
				err := pool.QueryRow(t.Context(), "show synchronous_standby_names").Scan(&now)
				return err == nil && now == value
			})
		}
	}
	return h, names("nobody"), names("")
}

// cancelStandbyWait ends one wait for the standby, as an operator may, and
// says whether there was one.
func cancelStandbyWait(t *testing.T, pool *pgxpool.Pool) bool {
	t.Helper()
	var cancelled int
	err := pool.QueryRow(t.Context(), `select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep'`).Scan(&cancelled)
	if err != nil {
		t.Fatal(err)
	}
	return cancelled > 0
}

// A COMMIT that did not wait for its synchronous standby only warns. It is an
// unknown outcome, no success: the begin is answered when what it wrote is
// there.
func TestACommitThatDidNotWaitForItsStandbyIsNoSuccess(t *testing.T) {
	t.Parallel()
	h, await, release := setupStandby(t)
	await()
	req := with(charge(), func(r *BeginRequest) { r.Owner = nil })
	answered := make(chan waited, 1)
	go func() {
		outcome, err := h.service.Begin(background(t), h.caller, req)
		answered <- waited{outcome: outcome, err: err}
	}()
	eventually(t, "the begin waits for the standby", func() bool { return cancelStandbyWait(t, h.pool) })
	eventually(t, "what is repeated waits for it too", func() bool {
		var waiting int
		err := h.pool.QueryRow(t.Context(), `select count(*) from pg_stat_activity where wait_event = 'SyncRep'`).Scan(&waiting)
		return err == nil && waiting > 0
	})
	select {
	case early := <-answered:
		t.Fatalf("answered before the standby had it: %+v", early)
	default:
	}
	release()
	got := <-answered
	if got.err != nil {
		t.Fatal(got.err)
	}
	if a := as[Acquired](t, got.outcome); a.Attempt != 1 || a.Resumed {
		t.Errorf("got %+v", a)
	}
}

func TestAStandbyThatStaysAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	h, await, release := setupStandby(t)
	defer release()
	await()
	answered := make(chan error, 1)
	go func() {
		_, err := h.service.Begin(background(t), h.caller, charge())
		answered <- err
	}()
	var err error
	eventually(t, "the begin gives up", func() bool {
		cancelStandbyWait(t, h.pool)
		select {
		case err = <-answered:
			return true
		default:
			return false
		}
	})
	wantKind(t, err, problem.KindUnavailable)
}
