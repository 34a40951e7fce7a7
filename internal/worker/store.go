package worker

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// noteTimeout bounds each write of this store.
const noteTimeout = 5 * time.Second

// store keeps when jobs ran, over all workers.
type store struct{ pool *pgxpool.Pool }

const (
	sqlStarted = `
insert into job_runs as j (kind, last_started_at, runs) values ($1, now(), 1)
on conflict (kind) do update set last_started_at = excluded.last_started_at, runs = j.runs + 1`
	sqlSucceeded = `
update job_runs set last_succeeded_at = now() where kind = $1`
	sqlFailed = `
update job_runs set last_error_at = now(), failures = failures + 1 where kind = $1`
	sqlReadRuns = `
select kind, last_started_at, last_succeeded_at, last_error_at, runs, failures, coalesce(now() - last_succeeded_at, '0')
from job_runs`
)

func (s *store) started(ctx context.Context, kind string) error { return s.exec(ctx, sqlStarted, kind) }

func (s *store) succeeded(ctx context.Context, kind string) error {
	return s.exec(ctx, sqlSucceeded, kind)
}

func (s *store) failed(ctx context.Context, kind string) error { return s.exec(ctx, sqlFailed, kind) }

func (s *store) exec(ctx context.Context, statement, kind string) error {
	_, err := s.pool.Exec(ctx, statement, kind)
	return err
}

func (s *store) read(ctx context.Context) ([]JobRuns, error) {
	rows, err := s.pool.Query(ctx, sqlReadRuns)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(from pgx.CollectableRow) (r JobRuns, err error) {
		var succeeded, failed *time.Time
		err = from.Scan(&r.Kind, &r.LastStarted, &succeeded, &failed, &r.Runs, &r.Failures, &r.Age)
		if succeeded != nil {
			r.LastSucceeded = *succeeded
		}
		if failed != nil {
			r.LastFailed = *failed
		}
		return r, err
	})
}
