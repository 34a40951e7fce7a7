package limits

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// store is the limits in the database. The tenant stands in every statement;
// the zero one stands for the processes themselves.
type store struct{ db *pgxpool.Pool }

const (
	// demandLife is how long what a process has said counts.
	demandLife = 5 * time.Second

	requestsBucket = "requests" // of a tenant; of a part of it with a digest behind it
	processBucket  = "process"
)

// name is the bucket as the table has it: no caller's name is stored.
func (k key) name() string {
	if k.kind == tenantRequests {
		return requestsBucket
	}
	sum := sha256.Sum256(append(k.namespace[:], k.caller...))
	digest := hex.EncodeToString(sum[:16])
	if k.kind == newKeys {
		return digest
	}
	return requestsBucket + ":" + digest
}

// Exchange tells the others of the demands of this process, and returns what
// all processes are asked for and how many there are.
func (s *store) Exchange(ctx context.Context, process uuid.UUID, demands []demand) (totals map[key]float64, processes int, err error) {
	const tell = `
		insert into limit_demands (tenant_id, bucket, process_id, per_second, at)
		select d.tenant_id, d.bucket, @process, d.per_second, now()
		from unnest(@tenants::uuid[], @buckets::text[], @demands::float8[]) as d (tenant_id, bucket, per_second)
		order by d.tenant_id, d.bucket
		on conflict (tenant_id, bucket, process_id) do update set per_second = excluded.per_second, at = excluded.at`
	const ask = `
		select u.place, sum(d.per_second), count(*)
		from unnest(@tenants::uuid[], @buckets::text[]) with ordinality as u (tenant_id, bucket, place)
		join limit_demands d on d.tenant_id = u.tenant_id and d.bucket = u.bucket
		where d.at > now() - @life::interval
		group by u.place`
	n := len(demands)
	ids, buckets, rates := make([]uuid.UUID, n+1), make([]string, n+1), make([]float64, n+1)
	for i, d := range demands {
		ids[i], buckets[i], rates[i] = uuid.UUID(d.key.tenant), d.key.name(), d.perSecond
	}
	buckets[n] = processBucket
	args := pgx.NamedArgs{"process": process, "tenants": ids, "buckets": buckets, "demands": rates, "life": demandLife}
	if _, err := s.db.Exec(ctx, tell, args); err != nil {
		return nil, 0, fmt.Errorf("tell of the demand: %w", err)
	}
	rows, err := s.db.Query(ctx, ask, args)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for the demand of all: %w", err)
	}
	totals = make(map[key]float64, n)
	var place, count int
	var total float64
	_, err = pgx.ForEachRow(rows, []any{&place, &total, &count}, func() error {
		if place-1 == n {
			processes = count
			return nil
		}
		totals[demands[place-1].key] = total
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("ask for the demand of all: %w", err)
	}
	return totals, processes, nil
}

// AddUse adds what has been used to the tenants' days and holdings. A tenant
// that is gone is left out.
func (s *store) AddUse(ctx context.Context, c counted) error {
	const days = `
		insert into usage_days (tenant_id, day, requests, new_records, limited)
		select u.tenant_id, (now() at time zone 'utc')::date, u.requests, u.new_records, u.limited
		from unnest(@tenants::uuid[], @requests::bigint[], @new_records::bigint[], @limited::bigint[]) as u (tenant_id, requests, new_records, limited)
		join tenants t on t.tenant_id = u.tenant_id
		order by u.tenant_id
		on conflict (tenant_id, day) do update
		set requests = usage_days.requests + excluded.requests, new_records = usage_days.new_records + excluded.new_records,
		    limited = usage_days.limited + excluded.limited`
	const holdings = `
		insert into tenant_usage (tenant_id, live_records, stored_bytes)
		select u.tenant_id, u.records, u.bytes
		from unnest(@tenants::uuid[], @records::bigint[], @bytes::bigint[]) as u (tenant_id, records, bytes)
		join tenants t on t.tenant_id = u.tenant_id
		order by u.tenant_id
		on conflict (tenant_id) do update
		set live_records = tenant_usage.live_records + excluded.live_records, stored_bytes = tenant_usage.stored_bytes + excluded.stored_bytes`
	dayArgs, heldArgs := c.dayArguments(), c.heldArguments()
	return postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if len(c.days) > 0 {
			if _, err := tx.Exec(ctx, days, dayArgs); err != nil {
				return fmt.Errorf("add to the use of the day: %w", err)
			}
		}
		if len(c.held) > 0 {
			if _, err := tx.Exec(ctx, holdings, heldArgs); err != nil {
				return fmt.Errorf("add to what tenants hold: %w", err)
			}
		}
		return nil
	})
}

func (c counted) dayArguments() pgx.NamedArgs {
	var ids []uuid.UUID
	var requests, newRecords, limited []int64
	for tenant, d := range c.days {
		ids, requests, newRecords, limited = append(ids, uuid.UUID(tenant)), append(requests, d.requests), append(newRecords, d.newRecords), append(limited, d.limited)
	}
	return pgx.NamedArgs{"tenants": ids, "requests": requests, "new_records": newRecords, "limited": limited}
}

func (c counted) heldArguments() pgx.NamedArgs {
	var ids []uuid.UUID
	var records, bytes []int64
	for tenant, h := range c.held {
		ids, records, bytes = append(ids, uuid.UUID(tenant)), append(records, h.newRecords), append(bytes, h.newBytes)
	}
	return pgx.NamedArgs{"tenants": ids, "records": records, "bytes": bytes}
}

// Held reads what tenants hold.
func (s *store) Held(ctx context.Context, list []auth.TenantID) (map[auth.TenantID]held, error) {
	const query = `
		select u.tenant_id, coalesce(h.live_records, 0), coalesce(h.stored_bytes, 0)
		from unnest($1::uuid[]) as u (tenant_id)
		left join tenant_usage h on h.tenant_id = u.tenant_id`
	rows, err := s.db.Query(ctx, query, list)
	if err != nil {
		return nil, fmt.Errorf("read what tenants hold: %w", err)
	}
	all := make(map[auth.TenantID]held, len(list))
	var tenant auth.TenantID
	var h held
	_, err = pgx.ForEachRow(rows, []any{&tenant, &h.records, &h.bytes}, func() error {
		all[tenant] = h
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what tenants hold: %w", err)
	}
	return all, nil
}

// Sweep drops what processes said that are gone. It names no tenant: it tells
// of processes.
func (s *store) Sweep(ctx context.Context) error {
	_, err := s.db.Exec(ctx, `delete from limit_demands where at < now() - interval '1 minute'`)
	return err
}

// Recount counts what one tenant holds anew.
func (s *store) Recount(ctx context.Context, tenant auth.TenantID) error {
	const query = `
		insert into tenant_usage (tenant_id, live_records, stored_bytes, counted_at)
		select $1, count(*), coalesce(sum(k.body_bytes), 0), now()
		from idempotency_keys k
		where k.tenant_id = $1
		  and k.expires_at > now()
		on conflict (tenant_id) do update
		set live_records = excluded.live_records, stored_bytes = excluded.stored_bytes, counted_at = excluded.counted_at`
	_, err := s.db.Exec(ctx, query, tenant)
	return err
}

// Tenants lists all tenants: the job's list.
func (s *store) Tenants(ctx context.Context) ([]auth.TenantID, error) {
	rows, err := s.db.Query(ctx, `select tenant_id from tenants order by tenant_id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[auth.TenantID])
}

// Days reads the tenant's use per day, the newest first.
func (s *store) Days(ctx context.Context, tenant auth.TenantID, from, to time.Time) ([]Day, error) {
	const query = `
		select day, requests, new_records, limited
		from usage_days
		where tenant_id = @tenant
		  and day >= @from::date
		  and day < @to::date
		order by day desc`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{"tenant": tenant, "from": from.UTC(), "to": to.UTC()})
	if err != nil {
		return nil, failure("read the use", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Day])
	if err != nil {
		return nil, failure("read the use", err)
	}
	return list, nil
}

// Holding reads what the tenant holds, and when it was last counted anew; zero
// where nothing is known yet.
func (s *store) Holding(ctx context.Context, tenant auth.TenantID) (Holding, error) {
	const query = `
		select live_records, stored_bytes, counted_at
		from tenant_usage
		where tenant_id = $1`
	rows, err := s.db.Query(ctx, query, tenant)
	if err != nil {
		return Holding{}, failure("read what the tenant holds", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Holding])
	if err != nil {
		return Holding{}, failure("read what the tenant holds", err)
	}
	if len(list) == 0 {
		return Holding{}, nil
	}
	return list[0], nil
}

func failure(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if postgres.IsConnectionError(err) {
		return problem.Unavailable(err)
	}
	return problem.Internal(err)
}
