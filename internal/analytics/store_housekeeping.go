package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/postgres"
)

// Each of these deletes a batch of one tenant's rows.
const (
	sqlSpentMinutes = `
delete from analytics_minutes
where tenant_id = $1 and ctid = any(array(
    select ctid from analytics_minutes where tenant_id = $1 and minute < $2 limit $3))`
	sqlSpentHours = `
delete from analytics_hours
where tenant_id = $1 and ctid = any(array(
    select ctid from analytics_hours where tenant_id = $1 and hour < $2 limit $3))`
	sqlSpentEvents = `
delete from analytics_events_default
where tenant_id = $1 and ctid = any(array(
    select ctid from analytics_events_default where tenant_id = $1 and at < $2 limit $3))`
	sqlSpentNames = `
delete from analytics_names
where tenant_id = $1 and ctid = any(array(
    select ctid from analytics_names where tenant_id = $1 and day < $2::timestamptz::date limit $3))`
	sqlSpentSeries = `
delete from analytics_series
where tenant_id = $1 and ctid = any(array(
    select ctid from analytics_series where tenant_id = $1 and last_day < $2::timestamptz::date limit $3))`
)

func (s *store) tenantsWithSeries(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, "select distinct tenant_id from analytics_series order by tenant_id")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

func (s *store) dropSpent(ctx context.Context, limit spent, tenant uuid.UUID, batch int) (int64, error) {
	tag, err := s.pool.Exec(ctx, limit.statement, tenant, limit.before, batch)
	return tag.RowsAffected(), err
}

func (s *store) dropProcesses(ctx context.Context, before time.Time) (int64, error) {
	tag, err := s.pool.Exec(ctx, "delete from analytics_processes where seen_at < $1", before)
	return tag.RowsAffected(), err
}

const (
	eventsTable   = "analytics_events"
	eventsDefault = "analytics_events_default"
	// ddlLockTimeout is how long making or dropping a day may stand in the way
	// of flushes and answers; where the table is busy the next run tries again.
	ddlLockTimeout = "set local lock_timeout = '1s'"
	// The wait for another worker that does the same is not bounded by it.
	sqlLockDays = "select pg_advisory_xact_lock(hashtextextended('onceward-analytics-days', 0))"
)

func partitionName(at time.Time) string { return eventsTable + at.Format("_20060102") }

// days lists the days that have a partition.
func (s *store) days(ctx context.Context) ([]time.Time, error) {
	rows, err := s.pool.Query(ctx, `
select c.relname::text
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = $1::text::regclass and c.relname <> $2
order by c.relname`, eventsTable, eventsDefault)
	if err != nil {
		return nil, err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	days := make([]time.Time, 0, len(names))
	for _, name := range names {
		at, err := time.Parse(eventsTable+"_20060102", name)
		if err != nil {
			return nil, fmt.Errorf("partition %s is not one of ours: %w", name, err)
		}
		days = append(days, at)
	}
	return days, nil
}

// makeDay makes the partition of a UTC day unless it is there. What had to go
// to the default partition meanwhile moves into it.
func (s *store) makeDay(ctx context.Context, at time.Time) (made bool, err error) {
	name := pgx.Identifier{partitionName(at)}.Sanitize()
	from, to := at.Format(time.RFC3339), at.Add(day).Format(time.RFC3339)
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlLockDays); err != nil {
			return err
		}
		var exists bool
		if err := tx.QueryRow(ctx, "select to_regclass($1) is not null", partitionName(at)).Scan(&exists); err != nil || exists {
			return err
		}
		for _, statement := range []string{
			ddlLockTimeout,
			"lock table " + eventsDefault + " in access exclusive mode",
			"create table " + name + " (like " + eventsTable + " including defaults including constraints)",
			"with moved as (delete from " + eventsDefault + " where at >= '" + from + "' and at < '" + to + "' returning *) insert into " + name + " select * from moved",
			"alter table " + eventsTable + " attach partition " + name + " for values from ('" + from + "') to ('" + to + "')",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		made = true
		return nil
	})
	return made && err == nil, err
}

// dropDay drops the partition of a day. It does not detach it first, which
// could not be done without a lock either while there is a default partition.
func (s *store) dropDay(ctx context.Context, at time.Time) error {
	return postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			sqlLockDays,
			ddlLockTimeout,
			"drop table if exists " + pgx.Identifier{partitionName(at)}.Sanitize(),
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
