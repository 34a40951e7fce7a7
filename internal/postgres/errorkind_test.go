package postgres_test

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// Each failure counts once, however it was sent; what succeeds counts nothing.
func TestEveryFailureIsToldOnceByItsKind(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := map[postgres.ErrorKind]int{}
	pool, err := postgres.Open(t.Context(), postgres.Config{
		URL: postgrestest.New(t).Config().ConnString(), MaxConns: 2,
		OnError: func(kind postgres.ErrorKind) {
			mu.Lock()
			defer mu.Unlock()
			told[kind]++
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	exec := func(statement string) {
		_, _ = pool.Exec(t.Context(), statement) // counted
	}
	exec("create temporary table t (n int primary key)")
	exec("select 1/0")
	exec("select nothing")
	exec("set statement_timeout = '1ms'; select pg_sleep(10)")
	exec("do $$ begin raise exception sqlstate '40P01'; end $$")
	exec("do $$ begin raise exception sqlstate '40001'; end $$")
	exec("do $$ begin raise exception sqlstate '55P03'; end $$")
	exec("do $$ begin raise exception sqlstate '25006'; end $$")
	exec("do $$ begin raise exception sqlstate '53100'; end $$")
	exec("do $$ begin raise exception sqlstate '53200'; end $$")
	exec("do $$ begin raise exception sqlstate '53300'; end $$")
	batch := &pgx.Batch{}
	batch.Queue("select 1")
	batch.Queue("do $$ begin raise exception sqlstate '23505'; end $$")
	batch.Queue("select 2")
	if err := pool.SendBatch(t.Context(), batch).Close(); err == nil {
		t.Error("the pipeline did not fail")
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[postgres.ErrorKind]int{
		postgres.ErrorData: 1, postgres.ErrorOther: 1, postgres.ErrorCancelled: 1, postgres.ErrorDeadlock: 1, postgres.ErrorSerialization: 1,
		postgres.ErrorLockTimeout: 1, postgres.ErrorReadOnly: 1, postgres.ErrorDiskFull: 1, postgres.ErrorResources: 1, postgres.ErrorConnection: 1, postgres.ErrorConstraint: 1,
	}
	if diff := cmp.Diff(told, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if len(want) != len(postgres.ErrorKinds()) {
		t.Errorf("%d kinds, of which %d are tested", len(postgres.ErrorKinds()), len(want))
	}
}
