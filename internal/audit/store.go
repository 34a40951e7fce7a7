package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// Writer is where an entry is written to: the transaction of the change, or
// the pool where the entry tells of something that changed nothing.
type Writer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
}

// Write appends entries of one tenant. Errors are the driver's: with them the
// change must fail too.
func Write(ctx context.Context, to Writer, entries ...Entry) error {
	const statement = `
		insert into audit (tenant_id, actor_kind, actor, role, action, object, object_id, reason, before, after, request_id, address)
		values (@tenant, @actor_kind, @actor, @role, @action, @object, @object_id, nullif(@reason, ''), @before, @after,
		        nullif(@request_id, ''), nullif(@address, ''))`
	for _, e := range entries {
		before, err := document(e.Before)
		if err != nil {
			return err
		}
		after, err := document(e.After)
		if err != nil {
			return err
		}
		if e.Actor.Kind == "" {
			e.Actor = Local()
		}
		_, err = to.Exec(ctx, statement, pgx.NamedArgs{
			"tenant": e.Tenant, "actor_kind": string(e.Actor.Kind), "actor": e.Actor.Name, "role": e.Actor.Role,
			"action": e.Action, "object": e.Object.Kind, "object_id": e.Object.ID, "reason": e.Reason,
			"before": before, "after": after, "request_id": e.Actor.RequestID, "address": e.Actor.Address,
		})
		if err != nil {
			return fmt.Errorf("write the audit entry %s: %w", e.Action, err)
		}
	}
	return nil
}

// document is v as JSON text, nil for nil.
func document(v any) (*string, error) {
	if v == nil {
		return nil, nil //nolint:nilnil // no document is a value
	}
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("write an audit document: %w", err)
	}
	return new(string(text)), nil
}

// Log reads the trail, and writes what changes nothing.
type Log struct{ rows *store }

// NewLog makes a Log on the database of pool.
func NewLog(pool *pgxpool.Pool) *Log { return &Log{rows: &store{db: pool}} }

// Add writes an entry of its own: a sign-in, a refusal, a look at a stored
// response. Its error is problem.KindUnavailable or internal; with it what the
// entry tells of must not be answered.
func (l *Log) Add(ctx context.Context, entry Entry) error {
	if err := Write(ctx, l.rows.db, entry); err != nil {
		return failure("write the audit trail", err)
	}
	return nil
}

// List returns the tenant's records, the newest first, and whether there are
// more.
func (l *Log) List(ctx context.Context, tenant uuid.UUID, filter Filter) (records []Record, more bool, err error) {
	return l.rows.List(ctx, tenant, filter)
}

// store is the trail in the database. The tenant stands in every statement.
type store struct{ db *pgxpool.Pool }

// List reads the tenant's records; another tenant's are as if they did not
// exist.
func (s *store) List(ctx context.Context, tenant uuid.UUID, filter Filter) (records []Record, more bool, err error) {
	const query = `
		select entry_id, at, actor_kind, actor, role, action, object, object_id, coalesce(reason, ''), before, after,
		       coalesce(request_id, ''), coalesce(address, '')
		from audit
		where tenant_id = @tenant
		  and (@before::bigint = 0 or entry_id < @before)
		  and (@action::text = '' or action = @action)
		  and (@actor::text = '' or actor = @actor)
		  and (@object_id::text = '' or object_id = @object_id)
		  and (@since::timestamptz is null or at >= @since)
		  and (@until::timestamptz is null or at < @until)
		order by entry_id desc
		limit @most`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{
		"tenant": tenant, "before": filter.Before, "action": filter.Action, "actor": filter.Actor, "object_id": filter.ObjectID,
		"since": orNull(filter.Since), "until": orNull(filter.Until), "most": filter.Limit + 1,
	})
	if err != nil {
		return nil, false, failure("read the audit trail", err)
	}
	records, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Record, error) {
		var r Record
		err := row.Scan(&r.ID, &r.At, &r.Actor.Kind, &r.Actor.Name, &r.Actor.Role, &r.Action, &r.Object.Kind, &r.Object.ID, &r.Reason,
			&r.Before, &r.After, &r.Actor.RequestID, &r.Actor.Address)
		return r, err
	})
	if err != nil {
		return nil, false, failure("read the audit trail", err)
	}
	if more = len(records) > filter.Limit; more {
		records = records[:filter.Limit]
	}
	return records, more, nil
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func failure(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if postgres.IsConnectionError(err) {
		return problem.Unavailable(err)
	}
	return problem.Internal(err)
}
