package tenants

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

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
	DeleteAfter         *time.Time
	DeletedRows         int64
	GraceSeconds        int64
	RequestsPerSecond   *int64
	NewKeysPerMinute    int64
	MaxLiveRecords      *int64
	MaxStoredBytes      *int64

	NamespaceRequestsPerSecond *int64
	CallerRequestsPerSecond    *int64
}

// tenantColumns are those of tenantRow.
const tenantColumns = `
	tenant_id, name, state, coalesce(suspended_reason, '') as suspended_reason, min_retention_seconds, max_retention_seconds,
	body_limit_bytes, policy_version, created_at, delete_after, deleted_rows, grace_seconds,
	requests_per_second, new_keys_per_minute, max_live_records, max_stored_bytes,
	namespace_requests_per_second, caller_requests_per_second`

func (r tenantRow) tenant() Tenant {
	t := Tenant{
		ID:              auth.TenantID(r.TenantID),
		Name:            r.Name,
		State:           State(r.State),
		SuspendedReason: r.SuspendedReason,
		MinRetention:    time.Duration(r.MinRetentionSeconds) * time.Second,
		MaxRetention:    time.Duration(r.MaxRetentionSeconds) * time.Second,
		BodyLimit:       r.BodyLimitBytes,
		PolicyVersion:   r.PolicyVersion,
		CreatedAt:       r.CreatedAt,
		DeletedRows:     r.DeletedRows,
		Grace:           time.Duration(r.GraceSeconds) * time.Second,
		Limits:          Limits{r.RequestsPerSecond, r.NewKeysPerMinute, r.MaxLiveRecords, r.MaxStoredBytes, r.NamespaceRequestsPerSecond, r.CallerRequestsPerSecond},
	}
	if r.DeleteAfter != nil {
		t.DeleteAfter = *r.DeleteAfter
	}
	return t
}

// auditedTenant is what the trail keeps of a tenant: no secret.
type auditedTenant struct {
	Name                string `json:"name"`
	State               State  `json:"state"`
	MinRetentionSeconds int64  `json:"min_retention_seconds"`
	MaxRetentionSeconds int64  `json:"max_retention_seconds"`
	BodyLimitBytes      int    `json:"body_limit_bytes"`
	GraceSeconds        int64  `json:"grace_seconds"`
	RequestsPerSecond   *int64 `json:"requests_per_second"`
	NewKeysPerMinute    int64  `json:"new_keys_per_minute"`
	MaxLiveRecords      *int64 `json:"max_live_records"`
	MaxStoredBytes      *int64 `json:"max_stored_bytes"`

	NamespaceRequestsPerSecond *int64 `json:"namespace_requests_per_second"`
	CallerRequestsPerSecond    *int64 `json:"caller_requests_per_second"`
}

func audited(t Tenant) auditedTenant {
	return auditedTenant{
		Name: t.Name, State: t.State, BodyLimitBytes: t.BodyLimit, GraceSeconds: int64(t.Grace / time.Second),
		MinRetentionSeconds: int64(t.MinRetention / time.Second), MaxRetentionSeconds: int64(t.MaxRetention / time.Second),
		RequestsPerSecond: t.Limits.RequestsPerSecond, NewKeysPerMinute: t.Limits.NewKeysPerMinute,
		MaxLiveRecords: t.Limits.LiveRecords, MaxStoredBytes: t.Limits.StoredBytes,
		NamespaceRequestsPerSecond: t.Limits.NamespaceRequestsPerSecond, CallerRequestsPerSecond: t.Limits.CallerRequestsPerSecond,
	}
}

func about(tenant auth.TenantID, entry audit.Entry) audit.Entry {
	entry.Tenant, entry.Object = uuid.UUID(tenant), audit.Object{Kind: "tenant", ID: tenant.String()}
	return entry
}

// queryer is a transaction or the pool.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// InsertTenant stores a new tenant, and its first admin credential where params
// have a key for it. It returns problem.NameTaken where the id is in use.
func (s *store) InsertTenant(ctx context.Context, params CreateParams, secret [32]byte, entry audit.Entry) (Tenant, auth.Credential, error) {
	const query = `
		insert into tenants (tenant_id, name, secret, min_retention_seconds, max_retention_seconds, body_limit_bytes,
		                     grace_seconds, requests_per_second, new_keys_per_minute, max_live_records, max_stored_bytes,
		                     namespace_requests_per_second, caller_requests_per_second)
		values (@tenant, @name, @secret, @min_seconds, @max_seconds, @body_limit,
		        @grace_seconds, @requests, @new_keys, @records, @bytes, @namespace_requests, @caller_requests)
		returning ` + tenantColumns
	var tenant Tenant
	var admin auth.Credential
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) (err error) {
		tenant, err = oneTenant(ctx, tx, query, pgx.NamedArgs{
			"tenant":      uuid.UUID(params.ID),
			"name":        params.Name,
			"secret":      secret[:],
			"min_seconds": int64(params.MinRetention / time.Second),
			"max_seconds": int64(params.MaxRetention / time.Second),
			"body_limit":  params.BodyLimit,

			"grace_seconds": int64(params.grace / time.Second),
			"requests":      params.limits.RequestsPerSecond,
			"new_keys":      params.limits.NewKeysPerMinute,
			"records":       params.limits.LiveRecords,
			"bytes":         params.limits.StoredBytes,

			"namespace_requests": params.limits.NamespaceRequestsPerSecond,
			"caller_requests":    params.limits.CallerRequestsPerSecond,
		})
		if err != nil {
			return err
		}
		entry.After = audited(tenant)
		if err := audit.Write(ctx, tx, about(tenant.ID, entry)); err != nil || params.admin == (auth.Key{}) {
			return err
		}
		admin, err = auth.InsertWithin(ctx, tx, tenant.ID, params.admin, auth.IssueParams{Name: firstAdmin, Role: auth.RoleAdmin},
			audit.Entry{Actor: entry.Actor, Action: "credential.issue"})
		return err
	})
	if postgres.IsUniqueViolation(err, "tenants_pkey") {
		return Tenant{}, auth.Credential{}, problem.New(problem.NameTaken, "There is a tenant with the id %s already.", params.ID)
	}
	if err != nil {
		return Tenant{}, auth.Credential{}, failure("insert tenant", err)
	}
	return tenant, admin, nil
}

const sqlTenant = `
	select ` + tenantColumns + `
	from tenants
	where tenant_id = @tenant`

// Tenant reads one tenant; problem.NotFound where there is none.
func (s *store) Tenant(ctx context.Context, id auth.TenantID) (Tenant, error) {
	tenant, err := oneTenant(ctx, s.db, sqlTenant, pgx.NamedArgs{"tenant": uuid.UUID(id)})
	if err != nil {
		return Tenant{}, failure("read tenant", err)
	}
	return tenant, nil
}

func oneTenant(ctx context.Context, from queryer, query string, args pgx.NamedArgs) (Tenant, error) {
	rows, err := from.Query(ctx, query, args)
	if err != nil {
		return Tenant{}, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[tenantRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return Tenant{}, tenantNotFound()
	}
	return row.tenant(), err
}

// lockTenant reads the tenant's row and keeps it as it is until the end of tx.
func lockTenant(ctx context.Context, tx pgx.Tx, id auth.TenantID) (Tenant, error) {
	return oneTenant(ctx, tx, sqlTenant+`
		for no key update`, pgx.NamedArgs{"tenant": uuid.UUID(id)})
}

// SetState moves a tenant between active and suspended; one that is being
// deleted, or that does not exist, is problem.NotFound.
func (s *store) SetState(ctx context.Context, id auth.TenantID, state State, reason *string, entry audit.Entry) error {
	const query = `
		update tenants
		set state = @state, suspended_reason = @reason
		where tenant_id = @tenant
		  and state in ('active', 'suspended')
		returning ` + tenantColumns
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		before, err := lockTenant(ctx, tx, id)
		if err != nil {
			return err
		}
		after, err := oneTenant(ctx, tx, query, pgx.NamedArgs{"tenant": uuid.UUID(id), "state": string(state), "reason": reason})
		if err != nil {
			return err
		}
		entry.Before, entry.After = audited(before), audited(after)
		return audit.Write(ctx, tx, about(id, entry))
	})
	if err != nil {
		return failure("set the tenant's state", err)
	}
	return nil
}

func aboutNamespace(tenant auth.TenantID, id auth.NamespaceID, entry audit.Entry) audit.Entry {
	entry.Tenant, entry.Object = uuid.UUID(tenant), audit.Object{Kind: "namespace", ID: id.String()}
	return entry
}

type auditedNamespace struct {
	Name     string   `json:"name"`
	KeyScope KeyScope `json:"key_scope"`
}

// InsertNamespace stores a new namespace of the tenant. It returns
// problem.NameTaken, and problem.NotFound where there is no such tenant.
func (s *store) InsertNamespace(ctx context.Context, tenant auth.TenantID, namespace Namespace, entry audit.Entry) error {
	const query = `
		insert into namespaces (tenant_id, namespace_id, name, key_scope)
		values (@tenant, @namespace, @name, @key_scope)`
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, query, pgx.NamedArgs{
			"tenant":    uuid.UUID(tenant),
			"namespace": uuid.UUID(namespace.ID),
			"name":      namespace.Name,
			"key_scope": string(namespace.KeyScope),
		})
		if err != nil {
			return err
		}
		entry.After = auditedNamespace{namespace.Name, namespace.KeyScope}
		return audit.Write(ctx, tx, aboutNamespace(tenant, namespace.ID, entry))
	})
	switch {
	case postgres.IsUniqueViolation(err, "namespaces_name_unique"):
		return namespaceNameTaken(namespace.Name)
	case violates(err, "namespaces_tenant_fkey"):
		return tenantNotFound()
	case err != nil:
		return failure("insert namespace", err)
	}
	return nil
}

func namespaceNameTaken(name string) error {
	return problem.New(problem.NameTaken, "Another namespace of the tenant is called %q. Choose another name.", name)
}

// RenameNamespace changes the name of a namespace of the tenant; another
// tenant's is problem.NotFound, a name in use problem.NameTaken.
func (s *store) RenameNamespace(ctx context.Context, tenant auth.TenantID, id auth.NamespaceID, name string, entry audit.Entry) (Namespace, error) {
	const look = `
		select name, key_scope
		from namespaces
		where tenant_id = @tenant
		  and namespace_id = @namespace
		for no key update`
	const rename = `
		update namespaces
		set name = @name
		where tenant_id = @tenant
		  and namespace_id = @namespace`
	renamed := Namespace{ID: id, Name: name}
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		args := pgx.NamedArgs{"tenant": uuid.UUID(tenant), "namespace": uuid.UUID(id), "name": name}
		var before string
		err := tx.QueryRow(ctx, look, args).Scan(&before, &renamed.KeyScope)
		if errors.Is(err, pgx.ErrNoRows) {
			return namespaceNotFound()
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, rename, args); err != nil {
			return err
		}
		entry.Before, entry.After = auditedNamespace{before, renamed.KeyScope}, auditedNamespace{name, renamed.KeyScope}
		return audit.Write(ctx, tx, aboutNamespace(tenant, id, entry))
	})
	if postgres.IsUniqueViolation(err, "namespaces_name_unique") {
		return Namespace{}, namespaceNameTaken(name)
	}
	if err != nil {
		return Namespace{}, failure("rename namespace", err)
	}
	return renamed, nil
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
