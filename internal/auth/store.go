package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// store is the credentials in the database.
type store struct {
	db *pgxpool.Pool
}

// lookupRow is what the answer to "who presents this key" needs.
type lookupRow struct {
	TenantID        uuid.UUID
	NamespaceID     *uuid.UUID
	Role            string
	SecretSHA256    []byte
	LifeSeconds     float64
	Revoked         bool
	TenantState     string
	SuspendedReason *string
}

// longLife is what stands for every life that is longer, unlimited ones too.
const longLife = time.Hour

// Lookup reads a credential by its id alone. It is the one statement that names
// no tenant: which tenant it is, is what the row says. Only the Authenticator
// calls it, with an id whose secret has yet to be proved; found is false where
// there is no such credential. Errors are the driver's.
//
// The time left is measured by the database's clock and handed over as a
// length, so that the clock of this process does not count.
func (s *store) Lookup(ctx context.Context, id CredentialID) (row lookupRow, found bool, err error) {
	const query = `
		select c.tenant_id,
		       c.namespace_id,
		       c.role,
		       c.secret_sha256,
		       case when c.expires_at > now() + @long_life::interval then extract(epoch from @long_life::interval)
		            when c.expires_at <= now()                       then 0
		            else extract(epoch from c.expires_at - now())
		       end::float8 as life_seconds,
		       c.revoked_at is not null as revoked,
		       t.state as tenant_state,
		       t.suspended_reason
		from credentials c
		join tenants t on t.tenant_id = c.tenant_id
		where c.credential_id = @id`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{"id": string(id), "long_life": longLife})
	if err != nil {
		return lookupRow{}, false, fmt.Errorf("look up credential %s: %w", id, err)
	}
	row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[lookupRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return lookupRow{}, false, nil
	}
	if err != nil {
		return lookupRow{}, false, fmt.Errorf("look up credential %s: %w", id, err)
	}
	return row, true, nil
}

// known is the row in the terms of this process; askedAt was before the read.
func (r lookupRow) known(id CredentialID, askedAt time.Time) knownCredential {
	k := knownCredential{
		caller:  Caller{Tenant: TenantID(r.TenantID), Credential: id, Role: Role(r.Role)},
		refused: r.Revoked || r.TenantState == "deleting",
		endsAt:  askedAt.Add(time.Duration(r.LifeSeconds * float64(time.Second))),
	}
	copy(k.digest[:], r.SecretSHA256)
	if r.NamespaceID != nil {
		k.caller.Namespace = NamespaceID(*r.NamespaceID)
	}
	if r.TenantState != "active" {
		reason := ""
		if r.SuspendedReason != nil {
			reason = *r.SuspendedReason
		}
		k.caller.Suspended = &reason
	}
	return k
}

type credentialRow struct {
	CredentialID string
	Name         string
	Role         string
	NamespaceID  *uuid.UUID
	Namespaces   []uuid.UUID
	CreatedAt    time.Time
	ExpiresAt    *time.Time
	RevokedAt    *time.Time
}

func (r credentialRow) credential(tenant TenantID) Credential {
	c := Credential{
		ID:        CredentialID(r.CredentialID),
		Tenant:    tenant,
		Name:      r.Name,
		Role:      Role(r.Role),
		CreatedAt: r.CreatedAt,
		ExpiresAt: r.ExpiresAt,
		RevokedAt: r.RevokedAt,
	}
	if r.NamespaceID != nil {
		c.Namespace = NamespaceID(*r.NamespaceID)
	}
	for _, n := range r.Namespaces {
		c.Namespaces = append(c.Namespaces, NamespaceID(n))
	}
	return c
}

// Insert stores a new credential of the tenant. A namespace of another tenant
// is as one that does not exist. It returns problem.InvalidRequest,
// problem.NameTaken, and problem.NotFound where there is no such tenant.
func (s *store) Insert(ctx context.Context, tenant TenantID, key Key, params IssueParams) (Credential, error) {
	const query = `
		with wanted as (
			select coalesce(@expires_at::timestamptz, 'infinity') > now() as lasts,
			       not exists (
			           select from unnest(@namespaces::uuid[]) as w (id)
			           where not exists (select from namespaces n where n.tenant_id = @tenant and n.namespace_id = w.id)
			       ) as namespaces_known
		), inserted as (
			insert into credentials (credential_id, tenant_id, name, role, namespace_id, namespaces, secret_sha256, expires_at)
			select @id, @tenant, @name, @role, @namespace::uuid, @namespaces::uuid[], @digest, coalesce(@expires_at::timestamptz, 'infinity')
			from wanted
			where lasts and namespaces_known
			returning created_at
		)
		select w.lasts, w.namespaces_known, i.created_at
		from wanted w
		left join inserted i on true`
	digest := key.digest()
	args := pgx.NamedArgs{
		"id":         string(key.ID()),
		"tenant":     uuid.UUID(tenant),
		"name":       params.Name,
		"role":       string(params.Role),
		"namespace":  nullable(params.Namespace),
		"namespaces": uuids(params.Namespaces),
		"digest":     digest[:],
		"expires_at": params.ExpiresAt,
	}
	var lasts, namespacesKnown bool
	var createdAt *time.Time
	err := s.db.QueryRow(ctx, query, args).Scan(&lasts, &namespacesKnown, &createdAt)
	switch {
	case violates(err, "credentials_name_unique"):
		return Credential{}, problem.New(problem.NameTaken, "Another credential of the tenant is called %q. Choose another name, or rotate that one.", params.Name)
	case violates(err, "credentials_namespace_fkey"):
		return Credential{}, problem.Invalid(problem.Field{Pointer: "/namespace", Reason: "the tenant has no such namespace"})
	case violates(err, "credentials_tenant_fkey"):
		return Credential{}, notFound()
	case err != nil:
		return Credential{}, failure("insert credential", err)
	case !lasts:
		return Credential{}, problem.Invalid(problem.Field{Pointer: "/expires_at", Reason: "the credential would end in the past"})
	case !namespacesKnown:
		return Credential{}, problem.Invalid(problem.Field{Pointer: "/namespaces", Reason: "the tenant has no such namespace"})
	}
	return Credential{
		ID: key.ID(), Tenant: tenant, Name: params.Name, Role: params.Role, Namespace: params.Namespace,
		Namespaces: params.Namespaces, CreatedAt: *createdAt, ExpiresAt: params.ExpiresAt,
	}, nil
}

// Replace revokes a live credential of the tenant and stores its successor, at
// once. Another tenant's credential, a revoked and an expired one are
// problem.NotFound.
func (s *store) Replace(ctx context.Context, tenant TenantID, id CredentialID, key Key) (Credential, error) {
	const query = `
		with replaced as (
			update credentials
			set revoked_at = now()
			where tenant_id = @tenant
			  and credential_id = @id
			  and revoked_at is null
			  and expires_at > now()
			returning name, role, namespace_id, namespaces, expires_at
		)
		insert into credentials (credential_id, tenant_id, name, role, namespace_id, namespaces, secret_sha256, expires_at)
		select @new_id, @tenant, name, role, namespace_id, namespaces, @digest, expires_at
		from replaced
		returning credential_id, name, role, namespace_id, namespaces, created_at, nullif(expires_at, 'infinity') as expires_at, revoked_at`
	digest := key.digest()
	args := pgx.NamedArgs{"tenant": uuid.UUID(tenant), "id": string(id), "new_id": string(key.ID()), "digest": digest[:]}
	rows, err := s.db.Query(ctx, query, args)
	if err != nil {
		return Credential{}, failure("replace credential", err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[credentialRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return Credential{}, notFound()
	}
	if err != nil {
		return Credential{}, failure("replace credential", err)
	}
	return row.credential(tenant), nil
}

// Revoke ends a credential of the tenant. Another tenant's is problem.NotFound;
// the tenant's last live admin is problem.LastAdmin.
func (s *store) Revoke(ctx context.Context, tenant TenantID, id CredentialID) error {
	// The tenant's row is locked so that of two revocations at once the second
	// counts the admins that the first has left.
	const lock = `
		select from tenants
		where tenant_id = @tenant
		for no key update`
	const revoke = `
		update credentials c
		set revoked_at = now()
		where c.tenant_id = @tenant
		  and c.credential_id = @id
		  and c.revoked_at is null
		  and (c.role <> 'admin'
		       or exists (
		           select from credentials other
		           where other.tenant_id = @tenant
		             and other.credential_id <> @id
		             and other.role = 'admin'
		             and other.revoked_at is null
		             and other.expires_at > now()))`
	const look = `
		select revoked_at is not null
		from credentials
		where tenant_id = @tenant
		  and credential_id = @id`
	args := pgx.NamedArgs{"tenant": uuid.UUID(tenant), "id": string(id)}
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, args); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, revoke, args)
		if err != nil || tag.RowsAffected() > 0 {
			return err
		}
		var revoked bool
		err = tx.QueryRow(ctx, look, args).Scan(&revoked)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return notFound()
		case err != nil:
			return err
		case !revoked:
			return problem.New(problem.LastAdmin, "This is the tenant's last admin credential. Issue another before you revoke it.")
		}
		return nil
	})
	if _, ok := errors.AsType[*problem.Error](err); err == nil || ok {
		return err
	}
	return failure("revoke credential", err)
}

// List returns the tenant's credentials, the oldest first.
func (s *store) List(ctx context.Context, tenant TenantID) ([]Credential, error) {
	const query = `
		select credential_id, name, role, namespace_id, namespaces, created_at, nullif(expires_at, 'infinity') as expires_at, revoked_at
		from credentials
		where tenant_id = @tenant
		order by created_at, credential_id`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)})
	if err != nil {
		return nil, failure("list credentials", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Credential, error) {
		r, err := pgx.RowToStructByName[credentialRow](row)
		return r.credential(tenant), err
	})
	if err != nil {
		return nil, failure("list credentials", err)
	}
	return list, nil
}

// notFound is the one answer for what the tenant does not have, whoever has it.
func notFound() error {
	return problem.New(problem.NotFound, "There is no such credential, or it has ended.")
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

func nullable(id NamespaceID) *uuid.UUID {
	if id == (NamespaceID{}) {
		return nil
	}
	u := uuid.UUID(id)
	return &u
}

func uuids(ids []NamespaceID) []uuid.UUID {
	if ids == nil {
		return nil
	}
	list := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		list[i] = uuid.UUID(id)
	}
	return list
}
