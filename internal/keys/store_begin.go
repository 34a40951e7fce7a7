package keys

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/internal/auth"
)

// sqlInsertInto and sqlInsertEnd are the statement that makes records, around
// the entries that it makes them of.
const sqlInsertInto = `
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at,
     lease_expires_at, expires_at, attempt, lease_seconds, retention_seconds, state, hold,
     fingerprint, fingerprint_parts, owner_digest, credential_id, caller, operation, key,
     ignore_pointers, trace_id, metadata)
select u.tenant_id, u.id, u.namespace_id, ` + fenceNow + `, u.policy_version, now(), now(),
    now() + make_interval(secs => u.lease_seconds),
    case when u.hold then 'infinity' else now() + make_interval(secs => u.lease_seconds + u.retention_seconds) end,
    1, u.lease_seconds, u.retention_seconds, 1, u.hold,
    u.fingerprint, u.fingerprint_parts, u.owner_digest, u.credential_id, u.caller, u.operation, u.key,
    u.ignore_pointers, u.trace_id, u.metadata::jsonb
from `

const sqlInsertEnd = `
on conflict (tenant_id, id) do nothing
returning tenant_id, id, fence, created_at, lease_expires_at, expires_at`

const entryColumns = `tenant_id, id, namespace_id, policy_version, lease_seconds, retention_seconds, hold,
        fingerprint, fingerprint_parts, owner_digest, credential_id, caller, operation, key,
        ignore_pointers, trace_id, metadata`

const sqlInsert = sqlInsertInto +
	`unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::integer[], $6::integer[], $7::boolean[],
        $8::bytea[], $9::bytea[], $10::bytea[], $11::text[], $12::text[], $13::text[], $14::text[],
        $15::text[], $16::text[], $17::text[])
    with ordinality as u(` + entryColumns + `, place)
order by u.place` + sqlInsertEnd

// sqlInsertOne spares a single entry the seventeen arrays.
const sqlInsertOne = sqlInsertInto +
	`(values ($1::uuid, $2::uuid, $3::uuid, $4::bigint, $5::integer, $6::integer, $7::boolean,
        $8::bytea, $9::bytea, $10::bytea, $11::text, $12::text, $13::text, $14::text,
        $15::text, $16::text, $17::text))
    as u(` + entryColumns + `)` + sqlInsertEnd

// inserted is what the database chose for a record that did not exist.
type inserted struct {
	fence          int64
	createdAt      time.Time
	leaseExpiresAt time.Time
	expiresAt      time.Time // zero: infinity
}

// insert makes the records of entries that do not exist; nil for those that
// met a row. Entries must be sorted by tenant and id: unsorted batches deadlock
// each other.
//
// Of several entries for one record only the first is sent. Were the others
// sent too, one of them could be inserted after a deletion in the middle of the
// statement let the first one pass by, and two callers would hold one lease.
func insert(ctx context.Context, via sender, entries []*entry) ([]*inserted, error) {
	var firsts []*entry
	var places []int
	for i, e := range entries {
		if i == 0 || e.ref != entries[i-1].ref {
			firsts, places = append(firsts, e), append(places, i)
		}
	}
	made := make([]*inserted, len(entries))
	batch := &pgx.Batch{}
	statement, arguments := sqlInsertOne, firsts[0].arguments()
	if len(firsts) > 1 {
		statement, arguments = sqlInsert, columnsOf(firsts).arguments()
	}
	batch.Queue(statement, arguments...).Query(func(rows pgx.Rows) error {
		return scanInserted(rows, firsts, func(n int, in *inserted) { made[places[n]] = in })
	})
	return made, via.send(ctx, batch)
}

// scanInserted notes what was made, by the place of its entry. Rows come back
// in the order of the entries, less those that met a row.
func scanInserted(rows pgx.Rows, entries []*entry, note func(n int, in *inserted)) error {
	var (
		tenant  auth.TenantID
		id      ID
		in      inserted
		expires pgtype.Timestamptz
		next    int
	)
	_, err := pgx.ForEachRow(rows, []any{&tenant, &id, &in.fence, &in.createdAt, &in.leaseExpiresAt, &expires}, func() error {
		for entries[next].tenant != tenant || entries[next].id != id {
			next++
		}
		one := in
		one.expiresAt = finite(expires)
		note(next, &one)
		return nil
	})
	return err
}

// columns are the entries turned into arrays, one per argument of sqlInsert.
type columns struct {
	tenants        []auth.TenantID
	ids            []ID
	namespaces     []auth.NamespaceID
	anyNamespaces  []*uuid.UUID // null: any of the tenant
	policyVersions []int64
	leases         []int32
	retentions     []int32
	holds          []bool
	prints         [][]byte
	parts          [][]byte
	owners         [][]byte
	credentials    []string
	callers        []string
	operations     []string
	keys           []string
	pointers       []*string
	traceIDs       []*string
	metadata       []*string
}

func columnsOf(entries []*entry) *columns {
	n := len(entries)
	c := &columns{
		tenants: make([]auth.TenantID, n), ids: make([]ID, n), namespaces: make([]auth.NamespaceID, n),
		policyVersions: make([]int64, n), leases: make([]int32, n), retentions: make([]int32, n), holds: make([]bool, n),
		prints: make([][]byte, n), parts: make([][]byte, n), owners: make([][]byte, n),
		credentials: make([]string, n), callers: make([]string, n), operations: make([]string, n), keys: make([]string, n),
		pointers: make([]*string, n), traceIDs: make([]*string, n), metadata: make([]*string, n),
	}
	for i, e := range entries {
		c.tenants[i], c.ids[i], c.namespaces[i] = e.tenant, e.id, e.namespace
		c.policyVersions[i], c.holds[i] = e.snapshot.PolicyVersion, e.hold
		c.leases[i], c.retentions[i] = int32(e.leaseSeconds), int32(e.retentionSeconds) //nolint:gosec // an hour, and the tenant's maximum, an integer column, at most
		c.prints[i], c.parts[i], c.owners[i] = e.print.sum[:], e.print.parts, e.ownerDigest[:]
		c.credentials[i], c.callers[i], c.operations[i], c.keys[i] = string(e.by.Credential), e.caller, e.operation, e.key
		c.pointers[i], c.traceIDs[i], c.metadata[i] = nullText(e.print.pointers), nullText(e.by.TraceID), nullText(string(e.metadata))
	}
	return c
}

// arguments are those of sqlInsertOne.
func (e *entry) arguments() []any {
	return []any{
		e.tenant, e.id, e.namespace, e.snapshot.PolicyVersion, e.leaseSeconds, e.retentionSeconds, e.hold,
		e.print.sum[:], e.print.parts, e.ownerDigest[:], string(e.by.Credential), e.caller, e.operation, e.key,
		nullText(e.print.pointers), nullText(e.by.TraceID), nullText(string(e.metadata)),
	}
}

func (c *columns) arguments() []any {
	return []any{
		c.tenants, c.ids, c.namespaces, c.policyVersions, c.leases, c.retentions, c.holds,
		c.prints, c.parts, c.owners, c.credentials, c.callers, c.operations, c.keys,
		c.pointers, c.traceIDs, c.metadata,
	}
}

// bodyRef asks for the body of a completed record that was seen with that fence.
type bodyRef struct {
	place int
	ref
	fence int64
}

const sqlReadBodies = `
select u.place, k.body
from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[]) with ordinality as u(tenant_id, id, namespace_id, fence, place)
join idempotency_keys k on k.tenant_id = u.tenant_id and k.id = u.id
where k.namespace_id = u.namespace_id and k.fence = u.fence and k.state = 3`

// readBodies returns the body of each, nil where the record is no longer the
// one that was seen. The caller bounds how much it asks for at a time.
func (s *store) readBodies(ctx context.Context, refs []bodyRef) ([][]byte, error) {
	var (
		tenants    []auth.TenantID
		ids        []ID
		namespaces []auth.NamespaceID
		fences     []int64
	)
	for _, r := range refs {
		tenants = append(tenants, r.tenant)
		ids = append(ids, r.id)
		namespaces = append(namespaces, r.namespace)
		fences = append(fences, r.fence)
	}
	rows, err := s.pool.Query(ctx, sqlReadBodies, tenants, ids, namespaces, fences)
	if err != nil {
		return nil, err
	}
	bodies := make([][]byte, len(refs))
	var place int
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&place, &body}, func() error {
		bodies[place-1] = bytes.Clone(body)
		return nil
	})
	return bodies, err
}
