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
		&secret, &base.BodyLimit, &minSeconds, &maxSeconds, &base.PolicyVersion, &namespaces, &policies)
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
	Namespace        uuid.UUID      `json:"namespace"`
	Operation        string         `json:"operation"`
	RetentionSeconds *int64         `json:"retention_seconds"`
	LeaseSeconds     *int64         `json:"lease_seconds"`
	OnMismatch       *OnMismatch    `json:"on_mismatch"`
	MismatchStatus   *int           `json:"mismatch_status"`
	OnLeaseExpiry    *OnLeaseExpiry `json:"on_lease_expiry"`
	StoreErrors      *StoreErrors   `json:"store_errors"`
	StoreBody        *StoreBody     `json:"store_body"`
	StripHeaders     *[]string      `json:"strip_headers"`
	KeepHeaders      *[]string      `json:"keep_headers"`
	IgnorePointers   *[]string      `json:"ignore_pointers"`
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

type tenantRow struct {
	TenantID            uuid.UUID
	Name                string
	State               string
	SuspendedReason     string
	MinRetentionSeconds int64
	MaxRetentionSeconds int64
	BodyLimitBytes      int
	PolicyVersion       int64
	CreatedAt           time.Time
}

func (r tenantRow) tenant() Tenant {
	return Tenant{
		ID:              auth.TenantID(r.TenantID),
		Name:            r.Name,
		State:           State(r.State),
		SuspendedReason: r.SuspendedReason,
		MinRetention:    time.Duration(r.MinRetentionSeconds) * time.Second,
		MaxRetention:    time.Duration(r.MaxRetentionSeconds) * time.Second,
		BodyLimit:       r.BodyLimitBytes,
		PolicyVersion:   r.PolicyVersion,
		CreatedAt:       r.CreatedAt,
	}
}

// InsertTenant stores a new tenant. It returns problem.NameTaken where the id
// is in use.
func (s *store) InsertTenant(ctx context.Context, params CreateParams, secret [32]byte) (Tenant, error) {
	const query = `
		insert into tenants (tenant_id, name, secret, min_retention_seconds, max_retention_seconds, body_limit_bytes)
		values (@tenant, @name, @secret, @min_seconds, @max_seconds, @body_limit)
		returning tenant_id, name, state, coalesce(suspended_reason, '') as suspended_reason,
		          min_retention_seconds, max_retention_seconds, body_limit_bytes, policy_version, created_at`
	tenant, err := s.oneTenant(ctx, query, pgx.NamedArgs{
		"tenant":      uuid.UUID(params.ID),
		"name":        params.Name,
		"secret":      secret[:],
		"min_seconds": int64(params.MinRetention / time.Second),
		"max_seconds": int64(params.MaxRetention / time.Second),
		"body_limit":  params.BodyLimit,
	})
	if postgres.IsUniqueViolation(err, "tenants_pkey") {
		return Tenant{}, problem.New(problem.NameTaken, "There is a tenant with the id %s already.", params.ID)
	}
	if err != nil {
		return Tenant{}, failure("insert tenant", err)
	}
	return tenant, nil
}

// Tenant reads one tenant; problem.NotFound where there is none.
func (s *store) Tenant(ctx context.Context, id auth.TenantID) (Tenant, error) {
	const query = `
		select tenant_id, name, state, coalesce(suspended_reason, '') as suspended_reason,
		       min_retention_seconds, max_retention_seconds, body_limit_bytes, policy_version, created_at
		from tenants
		where tenant_id = @tenant`
	tenant, err := s.oneTenant(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(id)})
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, tenantNotFound()
	}
	if err != nil {
		return Tenant{}, failure("read tenant", err)
	}
	return tenant, nil
}

func (s *store) oneTenant(ctx context.Context, query string, args pgx.NamedArgs) (Tenant, error) {
	rows, err := s.db.Query(ctx, query, args)
	if err != nil {
		return Tenant{}, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[tenantRow])
	return row.tenant(), err
}

// SetState moves a tenant between active and suspended; one that is being
// deleted, or that does not exist, is problem.NotFound.
func (s *store) SetState(ctx context.Context, id auth.TenantID, state State, reason *string) error {
	const query = `
		update tenants
		set state = @state, suspended_reason = @reason
		where tenant_id = @tenant
		  and state in ('active', 'suspended')`
	tag, err := s.db.Exec(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(id), "state": string(state), "reason": reason})
	if err != nil {
		return failure("set the tenant's state", err)
	}
	if tag.RowsAffected() == 0 {
		return tenantNotFound()
	}
	return nil
}

// InsertNamespace stores a new namespace of the tenant. It returns
// problem.NameTaken, and problem.NotFound where there is no such tenant.
func (s *store) InsertNamespace(ctx context.Context, tenant auth.TenantID, namespace Namespace) error {
	const query = `
		insert into namespaces (tenant_id, namespace_id, name, key_scope)
		values (@tenant, @namespace, @name, @key_scope)`
	_, err := s.db.Exec(ctx, query, pgx.NamedArgs{
		"tenant":    uuid.UUID(tenant),
		"namespace": uuid.UUID(namespace.ID),
		"name":      namespace.Name,
		"key_scope": string(namespace.KeyScope),
	})
	switch {
	case postgres.IsUniqueViolation(err, "namespaces_name_unique"):
		return problem.New(problem.NameTaken, "Another namespace of the tenant is called %q. Choose another name.", namespace.Name)
	case violates(err, "namespaces_tenant_fkey"):
		return tenantNotFound()
	case err != nil:
		return failure("insert namespace", err)
	}
	return nil
}

// Namespaces lists the tenant's namespaces by name.
func (s *store) Namespaces(ctx context.Context, tenant auth.TenantID) ([]Namespace, error) {
	const query = `
		select namespace_id, name, key_scope
		from namespaces
		where tenant_id = @tenant
		order by name`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)})
	if err != nil {
		return nil, failure("list namespaces", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Namespace, error) {
		var id uuid.UUID
		var n Namespace
		err := row.Scan(&id, &n.Name, &n.KeyScope)
		n.ID = auth.NamespaceID(id)
		return n, err
	})
	if err != nil {
		return nil, failure("list namespaces", err)
	}
	return list, nil
}

// PutOverride replaces a policy row of the tenant and raises its policy
// version, in one transaction. It returns problem.InvalidRequest for a
// retention outside the tenant's limits and for a namespace that the tenant
// does not have, and problem.NotFound where there is no such tenant.
func (s *store) PutOverride(ctx context.Context, tenant auth.TenantID, row Override) (version int64, err error) {
	err = postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		var minSeconds, maxSeconds int64
		version, minSeconds, maxSeconds, err = raisePolicyVersion(ctx, tx, tenant)
		if err != nil {
			return err
		}
		// The tenant's row is locked now: its limits stay until the end.
		if n := inSeconds(row.Retention); n != nil && (*n < minSeconds || *n > maxSeconds) {
			return problem.Invalid(problem.Field{
				Pointer: "/retention_seconds",
				Reason:  fmt.Sprintf("the tenant allows %d to %d seconds", minSeconds, maxSeconds),
			})
		}
		return upsertOverride(ctx, tx, tenant, row)
	})
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return 0, err
	}
	if err != nil {
		return 0, failure("set policy", err)
	}
	return version, nil
}

func raisePolicyVersion(ctx context.Context, tx pgx.Tx, tenant auth.TenantID) (version, minSeconds, maxSeconds int64, err error) {
	const query = `
		update tenants
		set policy_version = policy_version + 1
		where tenant_id = @tenant
		returning policy_version, min_retention_seconds, max_retention_seconds`
	err = tx.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)}).Scan(&version, &minSeconds, &maxSeconds)
	if errors.Is(err, pgx.ErrNoRows) {
		err = tenantNotFound()
	}
	return version, minSeconds, maxSeconds, err
}

func upsertOverride(ctx context.Context, tx pgx.Tx, tenant auth.TenantID, row Override) error {
	const query = `
		insert into policies (tenant_id, namespace_id, operation, retention_seconds, lease_seconds, on_mismatch, mismatch_status,
		                      on_lease_expiry, store_errors, store_body, strip_headers, keep_headers, ignore_pointers)
		select @tenant, @namespace, @operation, @retention_seconds, @lease_seconds, @on_mismatch, @mismatch_status,
		       @on_lease_expiry, @store_errors, @store_body, @strip_headers, @keep_headers, @ignore_pointers
		where @every_namespace
		   or exists (select from namespaces where tenant_id = @tenant and namespace_id = @namespace)
		on conflict (tenant_id, namespace_id, operation) do update
		set retention_seconds = excluded.retention_seconds,
		    lease_seconds     = excluded.lease_seconds,
		    on_mismatch       = excluded.on_mismatch,
		    mismatch_status   = excluded.mismatch_status,
		    on_lease_expiry   = excluded.on_lease_expiry,
		    store_errors      = excluded.store_errors,
		    store_body        = excluded.store_body,
		    strip_headers     = excluded.strip_headers,
		    keep_headers      = excluded.keep_headers,
		    ignore_pointers   = excluded.ignore_pointers`
	tag, err := tx.Exec(ctx, query, pgx.NamedArgs{
		"tenant":            uuid.UUID(tenant),
		"namespace":         uuid.UUID(row.Namespace),
		"every_namespace":   row.Namespace == auth.NamespaceID{},
		"operation":         row.Operation,
		"retention_seconds": inSeconds(row.Retention),
		"lease_seconds":     inSeconds(row.Lease),
		"on_mismatch":       row.OnMismatch,
		"mismatch_status":   row.MismatchStatus,
		"on_lease_expiry":   row.OnLeaseExpiry,
		"store_errors":      row.StoreErrors,
		"store_body":        row.StoreBody,
		"strip_headers":     row.StripHeaders,
		"keep_headers":      row.KeepHeaders,
		"ignore_pointers":   row.IgnorePointers,
	})
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return problem.Invalid(problem.Field{Pointer: "/namespace", Reason: "the tenant has no such namespace"})
	}
	return nil
}

func failure(what string, err error) error {
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
