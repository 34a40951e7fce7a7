package tenants

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// store is the tenants in the database. The tenant stands in every statement:
// what is another's is as if it did not exist.
type store struct {
	db *pgxpool.Pool
}

// Snapshot reads a tenant with its namespaces and policy rows, in one
// statement, so that all of it is of one moment. found is false where there is
// no such tenant. Errors are the driver's, or say what cannot be read.
func (s *store) Snapshot(ctx context.Context, tenant auth.TenantID) (snapshot *Snapshot, found bool, err error) {
	const query = `
		select t.secret,
		       t.body_limit_bytes,
		       t.min_retention_seconds,
		       t.max_retention_seconds,
		       t.policy_version,
		       t.requests_per_second,
		       t.new_keys_per_minute,
		       t.max_live_records,
		       t.max_stored_bytes,
		       t.namespace_requests_per_second,
		       t.caller_requests_per_second,
		       (select coalesce(json_agg(json_build_object(
		                   'id', n.namespace_id,
		                   'name', n.name,
		                   'key_scope', n.key_scope)), '[]')
		        from namespaces n
		        where n.tenant_id = @tenant) as namespaces,
		       (select coalesce(json_agg(json_build_object(
		                   'namespace', p.namespace_id,
		                   'operation', p.operation,
		                   'retention_seconds', p.retention_seconds,
		                   'lease_seconds', p.lease_seconds,
		                   'on_mismatch', p.on_mismatch,
		                   'mismatch_status', p.mismatch_status,
		                   'on_lease_expiry', p.on_lease_expiry,
		                   'store_errors', p.store_errors,
		                   'store_body', p.store_body,
		                   'strip_headers', p.strip_headers,
		                   'keep_headers', p.keep_headers,
		                   'ignore_pointers', p.ignore_pointers)), '[]')
		        from policies p
		        where p.tenant_id = @tenant) as policies
		from tenants t
		where t.tenant_id = @tenant`
	base := Snapshot{Tenant: tenant}
	var secret, namespaces, policies []byte
	var minSeconds, maxSeconds int64
	err = s.db.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)}).Scan(
		&secret, &base.BodyLimit, &minSeconds, &maxSeconds, &base.PolicyVersion,
		&base.Limits.RequestsPerSecond, &base.Limits.NewKeysPerMinute, &base.Limits.LiveRecords, &base.Limits.StoredBytes,
		&base.Limits.NamespaceRequestsPerSecond, &base.Limits.CallerRequestsPerSecond, &namespaces, &policies)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read tenant %s: %w", tenant, err)
	}
	if copy(base.Secret[:], secret) != len(base.Secret) || len(secret) != len(base.Secret) {
		return nil, false, fmt.Errorf("read tenant %s: its secret has %d bytes", tenant, len(secret))
	}
	base.MinRetention = time.Duration(minSeconds) * time.Second
	base.MaxRetention = time.Duration(maxSeconds) * time.Second
	namespaceList, err := decodeRows(namespaces, namespaceJSON.namespace)
	if err != nil {
		return nil, false, fmt.Errorf("read the namespaces of tenant %s: %w", tenant, err)
	}
	overrides, err := decodeRows(policies, overrideJSON.override)
	if err != nil {
		return nil, false, fmt.Errorf("read the policies of tenant %s: %w", tenant, err)
	}
	return NewSnapshot(base, namespaceList, overrides), true, nil
}

type namespaceJSON struct {
	ID       uuid.UUID `json:"id"`
	Name     string    `json:"name"`
	KeyScope KeyScope  `json:"key_scope"`
}

func (n namespaceJSON) namespace() Namespace {
	return Namespace{ID: auth.NamespaceID(n.ID), Name: n.Name, KeyScope: n.KeyScope}
}

type overrideJSON struct {
	Namespace        uuid.UUID      `json:"namespace,omitzero"`
	Operation        string         `json:"operation,omitzero"`
	RetentionSeconds *int64         `json:"retention_seconds,omitzero"`
	LeaseSeconds     *int64         `json:"lease_seconds,omitzero"`
	OnMismatch       *OnMismatch    `json:"on_mismatch,omitzero"`
	MismatchStatus   *int           `json:"mismatch_status,omitzero"`
	OnLeaseExpiry    *OnLeaseExpiry `json:"on_lease_expiry,omitzero"`
	StoreErrors      *StoreErrors   `json:"store_errors,omitzero"`
	StoreBody        *StoreBody     `json:"store_body,omitzero"`
	StripHeaders     *[]string      `json:"strip_headers,omitzero"`
	KeepHeaders      *[]string      `json:"keep_headers,omitzero"`
	IgnorePointers   *[]string      `json:"ignore_pointers,omitzero"`
}

func (o overrideJSON) override() Override {
	return Override{
		Namespace:      auth.NamespaceID(o.Namespace),
		Operation:      o.Operation,
		Retention:      seconds(o.RetentionSeconds),
		Lease:          seconds(o.LeaseSeconds),
		OnMismatch:     o.OnMismatch,
		MismatchStatus: o.MismatchStatus,
		OnLeaseExpiry:  o.OnLeaseExpiry,
		StoreErrors:    o.StoreErrors,
		StoreBody:      o.StoreBody,
		// Whoever wrote the row: they are compared with lower-case names.
		StripHeaders:   lowered(o.StripHeaders),
		KeepHeaders:    lowered(o.KeepHeaders),
		IgnorePointers: o.IgnorePointers,
	}
}

func decodeRows[J, T any](text []byte, convert func(J) T) ([]T, error) {
	var rows []J
	if err := json.Unmarshal(text, &rows, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	list := make([]T, len(rows))
	for i, row := range rows {
		list[i] = convert(row)
	}
	return list, nil
}

func seconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(*n) * time.Second
	return &d
}

func inSeconds(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	n := int64(*d / time.Second)
	return &n
}

func failure(what string, err error) error {
	if known, ok := errors.AsType[*problem.Error](err); ok {
		return known
	}
	err = fmt.Errorf("%s: %w", what, err)
	if postgres.IsConnectionError(err) {
		return problem.Unavailable(err)
	}
	return problem.Internal(err)
}

func violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}

// transaction is the one that a change runs in, audit entry included; who
// passes it on need not know the driver.
type transaction = pgx.Tx
