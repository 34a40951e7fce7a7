package keys

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
)

// CarryOver writes records, as they are now, to the table that search looks
// in. Within one attempt what has ended is not overwritten by what was read
// before its end. refs are sorted by tenant and id.
func (s *adminStore) CarryOver(ctx context.Context, refs []ref) error {
	const statement = `
insert into key_search (tenant_id, id, namespace_id, created_at, lease_expires_at, fence, state, hold, caller, operation, key, terms)
select k.tenant_id, k.id, k.namespace_id, k.created_at, k.lease_expires_at, k.fence, k.state, k.hold, k.caller, k.operation, k.key,
    (select array_agg(k.tenant_id || '/' || pair.key || '=' || pair.value) from jsonb_each_text(k.metadata) pair)
from unnest($1::uuid[], $2::uuid[]) as u (tenant_id, id)
join idempotency_keys k on k.tenant_id = u.tenant_id and k.id = u.id
where k.expires_at > now()
order by k.tenant_id, k.id
on conflict (tenant_id, id) do update set
    created_at = excluded.created_at,
    lease_expires_at = excluded.lease_expires_at,
    fence = excluded.fence,
    state = excluded.state,
    hold = excluded.hold,
    operation = excluded.operation,
    terms = excluded.terms
where key_search.fence < excluded.fence
    or key_search.fence = excluded.fence and (key_search.state in (1, 4) or excluded.state in (2, 3))`
	tenants, ids := make([]auth.TenantID, len(refs)), make([]ID, len(refs))
	for i, at := range refs {
		tenants[i], ids[i] = at.tenant, at.id
	}
	_, err := s.pool.Exec(ctx, statement, tenants, ids)
	return err
}

// feedLife is how long a process that says nothing is waited for.
const feedLife = 30 * time.Second

// NoteFeed notes up to which moment a process has carried over its changes. It
// names no tenant: it tells of a process.
func (s *adminStore) NoteFeed(ctx context.Context, id uuid.UUID, through time.Time) error {
	const statement = `
insert into key_search_feeds (feed_id, flushed_through)
values ($1, $2)
on conflict (feed_id) do update set flushed_through = excluded.flushed_through`
	_, err := s.pool.Exec(ctx, statement, id, through)
	return err
}

// SearchLag is how far behind the tenant's search is: as far as the slowest
// process, or feedLife where none has said anything. Where a crash of the
// server has emptied the table and it is not filled again yet, anything since
// the tenant was made may be missing.
func (s *adminStore) SearchLag(ctx context.Context, tenant auth.TenantID) (time.Duration, error) {
	const query = `
select extract(epoch from case
        when not exists (select from key_search_whole) then clock_timestamp() - t.created_at
        else coalesce(clock_timestamp() - f.slowest, $2::interval) end)::float8
from tenants t, (select min(flushed_through) as slowest from key_search_feeds where flushed_through > now() - $2::interval) f
where t.tenant_id = $1`
	var seconds float64
	err := s.pool.QueryRow(ctx, query, tenant, feedLife).Scan(&seconds)
	return time.Duration(max(seconds, 0) * float64(time.Second)), err
}

// IsCompared says whether the whole of search was compared with the records
// within the last compareEvery, and has not been emptied since. It names no
// tenant.
func (s *adminStore) IsCompared(ctx context.Context) (bool, error) {
	const query = `select exists (select from key_search_whole where compared_at > now() - $1::interval)`
	var compared bool
	err := s.pool.QueryRow(ctx, query, compareEvery).Scan(&compared)
	return compared, err
}

// BeginPass notes that a comparison of search with all records begins, and
// forgets those that never ended. It names no tenant.
func (s *adminStore) BeginPass(ctx context.Context, pass uuid.UUID) error {
	const statement = `
with forgotten as (delete from key_search_passes where began_at < now() - interval '1 day')
insert into key_search_passes (pass_id) values ($1)`
	_, err := s.pool.Exec(ctx, statement, pass)
	return err
}

// EndPass notes that the whole of search was compared, from the beginning of
// the pass on. whole is false, and nothing is noted, where a crash has emptied
// search since. It names no tenant.
func (s *adminStore) EndPass(ctx context.Context, pass uuid.UUID) (whole bool, err error) {
	const statement = `
with ended as (delete from key_search_passes where pass_id = $1 returning began_at)
insert into key_search_whole (compared_at)
select began_at from ended
on conflict (only_one) do update set compared_at = excluded.compared_at`
	tag, err := s.pool.Exec(ctx, statement, pass)
	return tag.RowsAffected() == 1, err
}

type found struct {
	id  ID
	row *row
}

// Search returns the tenant's next records that the filter finds, as they are
// now, newest first; last is where the next page goes on, and more whether
// there may be one. Each set of filters is a statement of its own, so that
// PostgreSQL plans for the index that fits.
func (s *adminStore) Search(ctx context.Context, tenant auth.TenantID, req SearchRequest, from *searchPosition, limit int) (all []found, last *searchPosition, more bool, err error) {
	where, arguments := searchFilter(tenant, req, from)
	arguments["most"] = limit + 1
	query := `
select s.id, s.created_at
from key_search s
where s.tenant_id = @tenant_id` + where + `
order by s.created_at desc, s.id desc
limit @most`
	if arguments["terms"] != nil {
		// PostgreSQL cannot know how rare a pair is: it would look through the
		// newest records for one that few have, or read all of the tenant's from
		// a second index. The pairs, which begin with the tenant, come first.
		query = `with found as materialized (select * from key_search s where s.terms @> @terms)` +
			strings.Replace(query, "from key_search s", "from found s", 1)
	}
	rows, err := s.pool.Query(ctx, query, arguments)
	if err != nil {
		return nil, nil, false, err
	}
	hits, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (searchPosition, error) {
		var at searchPosition
		err := from.Scan(&at.id, &at.createdAt)
		return at, err
	})
	if err != nil || len(hits) == 0 {
		return nil, nil, false, err
	}
	if more = len(hits) > limit; more {
		hits = hits[:limit]
	}
	refs := make([]ref, len(hits))
	for i, hit := range hits {
		refs[i] = ref{tenant: tenant, id: hit.id}
	}
	records, err := readRows(ctx, pooled(store{pool: s.pool}), refs)
	if err != nil {
		return nil, nil, false, err
	}
	for i, r := range records {
		if r != nil && !r.expired() {
			all = append(all, found{hits[i].id, r})
		}
	}
	return all, &hits[len(hits)-1], more, nil
}

func searchFilter(tenant auth.TenantID, req SearchRequest, from *searchPosition) (where string, arguments pgx.NamedArgs) {
	arguments = pgx.NamedArgs{"tenant_id": tenant}
	var b strings.Builder
	if req.Key != nil {
		b.WriteString(` and s.key = @key`)
		arguments["key"] = *req.Key
	}
	if req.Caller != nil {
		b.WriteString(` and s.caller = @caller`)
		arguments["caller"] = *req.Caller
	}
	if req.Operation != nil {
		b.WriteString(` and s.operation = @operation`)
		arguments["operation"] = *req.Operation
	}
	if req.Namespace != nil {
		b.WriteString(` and s.namespace_id = @namespace_id`)
		arguments["namespace_id"] = *req.Namespace
	}
	if req.Metadata != nil && len(*req.Metadata) > 0 {
		terms := make([]string, 0, len(*req.Metadata))
		for name, value := range *req.Metadata {
			terms = append(terms, tenant.String()+"/"+name+"="+value)
		}
		arguments["terms"] = terms
	}
	if req.Since != nil {
		b.WriteString(` and s.created_at >= @since`)
		arguments["since"] = *req.Since
	}
	if req.Until != nil {
		b.WriteString(` and s.created_at < @until`)
		arguments["until"] = *req.Until
	}
	if req.State != nil {
		b.WriteString(sqlInState(*req.State))
	}
	if from != nil {
		b.WriteString(` and (s.created_at, s.id) < (@from_created_at, @from_id)`)
		arguments["from_created_at"], arguments["from_id"] = from.createdAt, from.id
	}
	return b.String(), arguments
}

// sqlInState is the state by the clock, as far as search knows; the record
// itself is asked again.
func sqlInState(state State) string {
	switch state {
	case StateInProgress:
		return ` and s.state <> 3 and s.state = 1 and s.lease_expires_at > now()`
	case StateLapsed:
		return ` and s.state <> 3 and s.state = 1 and not s.hold and s.lease_expires_at <= now()`
	case StateUnknown:
		return ` and s.state <> 3 and (s.state = 4 or s.state = 1 and s.hold and s.lease_expires_at <= now())`
	case StateOpen:
		return ` and s.state <> 3 and s.state = 2`
	case StateCompleted:
		return ` and s.state = 3`
	}
	return ` and false`
}

// Compare looks at the tenant's next most records after the given id, and
// makes search agree with them: it adds what a killed process did not carry
// over, mends what is stale and drops what is gone. The zero id begins; done
// says that there are no more.
func (s *adminStore) Compare(ctx context.Context, tenant auth.TenantID, after ID, most int) (last ID, done bool, err error) {
	const next = `
select id from (
    (select id from idempotency_keys where tenant_id = $1 and id > $2 order by id limit $3)
    union
    (select id from key_search where tenant_id = $1 and id > $2 order by id limit $3)
) ids
order by id
limit $3`
	const drop = `
delete from key_search s
where s.tenant_id = $1 and s.id = any($2)
    and not exists (select from idempotency_keys k where k.tenant_id = $1 and k.id = s.id and k.expires_at > now())`
	rows, err := s.pool.Query(ctx, next, tenant, after, most)
	if err != nil {
		return ID{}, false, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil || len(ids) == 0 {
		return after, true, err
	}
	if _, err := s.pool.Exec(ctx, drop, tenant, ids); err != nil {
		return ID{}, false, err
	}
	refs := make([]ref, len(ids))
	for i, id := range ids {
		refs[i] = ref{tenant: tenant, id: id}
	}
	return ids[len(ids)-1], len(ids) < most, s.CarryOver(ctx, refs)
}

// Tenants lists all tenants that have records or had: the job's list.
func (s *adminStore) Tenants(ctx context.Context) ([]auth.TenantID, error) {
	rows, err := s.pool.Query(ctx, `select tenant_id from tenants order by tenant_id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[auth.TenantID])
}

// DropFeeds forgets processes that have said nothing for long. It names no
// tenant.
func (s *adminStore) DropFeeds(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `delete from key_search_feeds where flushed_through < now() - interval '1 day'`)
	return err
}
