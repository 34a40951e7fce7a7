package analytics

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// The row of kind 0 is locked while names are added, so that processes
	// which add at the same time keep to the cap together.
	sqlMakeNamesLock = `
insert into analytics_names (tenant_id, day, kind, name) values ($1, $2, 0, '')
on conflict (tenant_id, day, kind, name) do nothing`
	sqlLockNames = `
select kind from analytics_names where tenant_id = $1 and day = $2 and kind = 0 for update`
	sqlReadNames = `
select kind, name from analytics_names where tenant_id = $1 and day = $2 and kind > 0`
	sqlInsertNames = `
insert into analytics_names (tenant_id, day, kind, name)
select $1, $2, u.kind, u.name
from unnest($3::smallint[], $4::text[]) as u(kind, name)
on conflict (tenant_id, day, kind, name) do nothing`
	sqlUpsertSeries = `
insert into analytics_series as s (tenant_id, series_id, namespace_id, operation, caller, last_day)
select $1, u.series_id, u.namespace_id, u.operation, u.caller, $2
from unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[]) as u(series_id, namespace_id, operation, caller)
order by u.series_id
on conflict (tenant_id, series_id) do update set last_day = excluded.last_day
where s.last_day < excluded.last_day`
)

func dayTime(day int64) time.Time { return time.Unix(day*24*60*60, 0).UTC() }

// registerNames gives the window's new names their places, as far as there
// are any left, and returns all that are registered for it. What it adds goes
// into fresh as well. It takes two round trips, and none where nothing is new.
func registerNames(ctx context.Context, tx pgx.Tx, w *window, known, fresh *nameCache) (*nameCache, error) {
	all := newNameCache()
	for key := range w.counts {
		at := key.tenantDay()
		for kind, name := range map[nameKind]string{kindOperation: key.operation, kindCaller: key.caller} {
			if name != "" && known.has(at, kind, name) {
				all.add(at, kind, name)
			}
		}
	}
	days, want := w.missing(known)
	if len(days) == 0 {
		return all, nil
	}
	if err := lockNames(ctx, tx, days, fresh); err != nil {
		return nil, fmt.Errorf("read the names that are counted: %w", err)
	}
	batch := &pgx.Batch{}
	for _, at := range days {
		var kinds []int16
		var names []string
		for _, kind := range []nameKind{kindOperation, kindCaller} {
			for _, name := range slices.Sorted(maps.Keys(want[at].names[kind])) {
				if fresh.has(at, kind, name) || fresh.full(at, kind) {
					continue
				}
				fresh.add(at, kind, name)
				kinds, names = append(kinds, int16(kind)), append(names, name)
			}
		}
		if len(names) > 0 {
			batch.Queue(sqlInsertNames, at.tenant, dayTime(at.day), kinds, names)
		}
		for kind, registered := range fresh.days[at].names {
			for name := range registered {
				all.add(at, kind, name)
			}
		}
	}
	if batch.Len() == 0 { // every place is taken
		return all, nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("register the names that are counted: %w", err)
	}
	return all, nil
}

// lockNames locks the days, in their order, and reads what is registered.
func lockNames(ctx context.Context, tx pgx.Tx, days []tenantDay, into *nameCache) error {
	batch := &pgx.Batch{}
	for _, at := range days {
		into.day(at)
		batch.Queue(sqlMakeNamesLock, at.tenant, dayTime(at.day))
		batch.Queue(sqlLockNames, at.tenant, dayTime(at.day))
		batch.Queue(sqlReadNames, at.tenant, dayTime(at.day)).Query(func(rows pgx.Rows) error {
			var kind nameKind
			var name string
			_, err := pgx.ForEachRow(rows, []any{&kind, &name}, func() error {
				into.add(at, kind, name)
				return nil
			})
			return err
		})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// registerSeries makes the series that the window is counted under. Each is
// touched once a day by each process.
func registerSeries(ctx context.Context, tx pgx.Tx, w *window, known, names, fresh *nameCache) error {
	want := make(map[tenantDay]map[uuid.UUID]series)
	for key := range w.counts {
		at, s := key.tenantDay(), names.fold(key)
		id := s.id()
		if known.hasSeries(at, id) {
			continue
		}
		if want[at] == nil {
			want[at] = make(map[uuid.UUID]series)
		}
		want[at][id] = s
		fresh.addSeries(at, id)
	}
	batch := &pgx.Batch{}
	for _, at := range slices.SortedFunc(maps.Keys(want), tenantDay.compare) {
		ids := slices.SortedFunc(maps.Keys(want[at]), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		namespaces := make([]uuid.UUID, len(ids))
		operations, callers := make([]*string, len(ids)), make([]*string, len(ids))
		for i, id := range ids {
			s := want[at][id]
			namespaces[i] = uuid.UUID(s.namespace)
			if !s.otherOperation {
				operations[i] = &s.operation
			}
			if !s.otherCaller {
				callers[i] = &s.caller
			}
		}
		batch.Queue(sqlUpsertSeries, at.tenant, dayTime(at.day), ids, namespaces, operations, callers)
	}
	if batch.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("register what is counted: %w", err)
	}
	return nil
}
