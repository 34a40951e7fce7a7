//go:build unix

package postgres_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// River's own migrator fails where two run at once; under our lock none does.
func TestRiversTablesAreMadeOnceByProcessesThatStartTogether(t *testing.T) {
	t.Parallel()
	admin := postgrestest.NewEmpty(t)
	pending, err := postgres.PendingMigrations(t.Context(), admin)
	if err != nil || pending == 0 {
		t.Fatalf("PendingMigrations = %d, %v, want some", pending, err)
	}
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		pool := poolOf(t, admin, nil)
		wg.Go(func() { errs[i] = postgres.Migrate(t.Context(), pool, quiet) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if pending, err = postgres.PendingMigrations(t.Context(), admin); err != nil || pending != 0 {
		t.Errorf("PendingMigrations = %d, %v, want none", pending, err)
	}
	want, err := postgres.RiverVersion()
	if err != nil {
		t.Fatal(err)
	}
	got := queryAll[int64](t, admin, "select max(version) from river.river_migration")
	if diff := cmp.Diff(got, []int64{int64(want)}); diff != "" {
		t.Errorf("version of River's tables (-got +want):\n%s", diff)
	}
	if _, err := admin.Exec(t.Context(), "delete from river.river_migration where version = (select max(version) from river.river_migration)"); err != nil {
		t.Fatal(err)
	}
	if pending, err = postgres.PendingMigrations(t.Context(), admin); err != nil || pending != 1 {
		t.Errorf("PendingMigrations = %d, %v, want 1", pending, err)
	}
}

// River's first migrations have a table of versions without lines. Who looks
// while they run must find some pending, and no fault.
func TestAHalfMigratedRiverIsPending(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	if _, err := pool.Exec(t.Context(), `
create schema river;
create table river.river_migration (id bigserial primary key, created_at timestamptz not null default now(), version bigint not null);
insert into river.river_migration (version) values (1)`); err != nil {
		t.Fatal(err)
	}
	if pending, err := postgres.PendingMigrations(t.Context(), pool); err != nil || pending == 0 {
		t.Errorf("PendingMigrations = %d, %v, want some", pending, err)
	}
}
