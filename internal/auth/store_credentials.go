package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

type credentialRow struct {
	CredentialID string
	Name         string
	Role         string
	NamespaceID  *uuid.UUID
	Namespaces   []uuid.UUID
	CreatedAt    time.Time
	LastUsedAt   *time.Time
	ReplacedAt   *time.Time
	ExpiresAt    *time.Time
	RevokedAt    *time.Time
}

// credentialColumns are those of credentialRow.
const credentialColumns = `
	credential_id, name, role, namespace_id, namespaces, created_at, last_used_at, replaced_at,
	nullif(expires_at, 'infinity') as expires_at, revoked_at`

func (r credentialRow) credential(tenant TenantID) Credential {
	c := Credential{
		ID:         CredentialID(r.CredentialID),
		Tenant:     tenant,
		Name:       r.Name,
		Role:       Role(r.Role),
		CreatedAt:  r.CreatedAt,
		LastUsedAt: r.LastUsedAt,
		ReplacedAt: r.ReplacedAt,
		ExpiresAt:  r.ExpiresAt,
		RevokedAt:  r.RevokedAt,
	}
	if r.NamespaceID != nil {
		c.Namespace = NamespaceID(*r.NamespaceID)
	}
	if r.Namespaces != nil {
		c.Namespaces = namespaceIDs(r.Namespaces)
	}
	return c
}

// auditedCredential is what the trail keeps of a credential.
type auditedCredential struct {
	Name       string      `json:"name"`
	Role       Role        `json:"role"`
	Namespace  *uuid.UUID  `json:"namespace,omitempty"`
	Namespaces []uuid.UUID `json:"namespaces,omitempty"`
	ExpiresAt  *time.Time  `json:"expires_at,omitempty"`
	Replaces   string      `json:"replaces,omitempty"`
	RevokedAt  *time.Time  `json:"revoked_at,omitempty"`
}

func audited(c Credential) auditedCredential {
	return auditedCredential{
		Name: c.Name, Role: c.Role, Namespace: nullable(c.Namespace), Namespaces: uuids(c.Namespaces), ExpiresAt: c.ExpiresAt, RevokedAt: c.RevokedAt,
	}
}

func object(id CredentialID) audit.Object { return audit.Object{Kind: "credential", ID: string(id)} }

// Insert stores a new credential of the tenant, with the namespace that it
// makes, and the entry that tells of it. A namespace of another tenant is as one
// that does not exist. It returns problem.InvalidRequest, problem.NameTaken, and
// problem.NotFound where there is no such tenant.
func (s *store) Insert(ctx context.Context, tenant TenantID, key Key, params IssueParams, entry audit.Entry) (Credential, error) {
	var credential Credential
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) (err error) {
		credential, err = InsertWithin(ctx, tx, tenant, key, params, entry)
		return err
	})
	if err != nil {
		return Credential{}, failure("insert credential", err)
	}
	return credential, nil
}

// InsertWithin is the insertion of a credential of the tenant in a transaction
// of the caller's: a new tenant comes with its first admin, or not at all.
// params are valid ones.
func InsertWithin(ctx context.Context, tx pgx.Tx, tenant TenantID, key Key, params IssueParams, entry audit.Entry) (Credential, error) {
	if params.CreateNamespace != nil {
		var err error
		if params.Namespace, err = insertNamespace(ctx, tx, tenant, *params.CreateNamespace, entry.Actor); err != nil {
			return Credential{}, err
		}
	}
	credential, err := insertCredential(ctx, tx, tenant, key, params)
	if err != nil {
		return Credential{}, err
	}
	entry.Tenant, entry.Object, entry.After = uuid.UUID(tenant), object(credential.ID), audited(credential)
	return credential, audit.Write(ctx, tx, entry)
}

func insertNamespace(ctx context.Context, tx pgx.Tx, tenant TenantID, made NewNamespace, actor audit.Actor) (NamespaceID, error) {
	const query = `
		insert into namespaces (tenant_id, namespace_id, name, key_scope)
		values (@tenant, @namespace, @name, @key_scope)`
	id, err := uuid.NewRandomFromReader(rand.Reader)
	if err != nil {
		return NamespaceID{}, fmt.Errorf("make a namespace id: %w", err)
	}
	if made.KeyScope == "" {
		made.KeyScope = "operation"
	}
	_, err = tx.Exec(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant), "namespace": id, "name": made.Name, "key_scope": made.KeyScope})
	switch {
	case violates(err, "namespaces_name_unique"):
		return NamespaceID{}, problem.New(problem.NameTaken, "Another namespace of the tenant is called %q. Name that one by its id, or choose another name.", made.Name)
	case violates(err, "namespaces_tenant_fkey"):
		return NamespaceID{}, notFound()
	case err != nil:
		return NamespaceID{}, err
	}
	return NamespaceID(id), audit.Write(ctx, tx, audit.Entry{
		Tenant: uuid.UUID(tenant), Actor: actor, Action: "namespace.create", Object: audit.Object{Kind: "namespace", ID: id.String()},
		After: map[string]string{"name": made.Name, "key_scope": made.KeyScope},
	})
}

func insertCredential(ctx context.Context, tx pgx.Tx, tenant TenantID, key Key, params IssueParams) (Credential, error) {
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
	err := tx.QueryRow(ctx, query, args).Scan(&lasts, &namespacesKnown, &createdAt)
	switch {
	case violates(err, "credentials_name_unique"):
		return Credential{}, problem.New(problem.NameTaken, "Another credential of the tenant is called %q. Choose another name, or rotate that one.", params.Name)
	case violates(err, "credentials_namespace_fkey"):
		return Credential{}, problem.Invalid(problem.Field{Pointer: "/namespace", Reason: "the tenant has no such namespace"})
	case violates(err, "credentials_tenant_fkey"):
		return Credential{}, notFound()
	case err != nil:
		return Credential{}, err
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

// Replace stores the successor of a live credential of the tenant, which goes
// on for the overlap, or is revoked where there is none. Another tenant's
// credential, a revoked, an expired and a replaced one are problem.NotFound.
func (s *store) Replace(ctx context.Context, tenant TenantID, id CredentialID, key Key, overlap time.Duration, entry audit.Entry) (Credential, error) {
	const replace = `
		update credentials
		set replaced_at = now(),
		    revoked_at  = case when @overlap::interval = interval '0' then now() end,
		    expires_at  = case when @overlap::interval = interval '0' then expires_at else least(expires_at, now() + @overlap::interval) end
		where tenant_id = @tenant
		  and credential_id = @id
		  and revoked_at is null
		  and replaced_at is null
		  and expires_at > now()`
	const look = `
		select ` + credentialColumns + `
		from credentials
		where tenant_id = @tenant
		  and credential_id = @id
		for no key update`
	const insert = `
		insert into credentials (credential_id, tenant_id, name, role, namespace_id, namespaces, secret_sha256, expires_at)
		values (@new_id, @tenant, @name, @role, @namespace, @namespaces, @digest, coalesce(@expires_at::timestamptz, 'infinity'))
		returning ` + credentialColumns
	digest := key.digest()
	args := pgx.NamedArgs{
		"tenant": uuid.UUID(tenant), "id": string(id), "new_id": string(key.ID()), "digest": digest[:], "overlap": overlap,
	}
	var successor Credential
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		old, err := oneCredential(ctx, tx, look, args)
		if errors.Is(err, pgx.ErrNoRows) {
			return notFound()
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, replace, args)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return notFound()
		}
		args["name"], args["role"], args["namespace"], args["namespaces"], args["expires_at"] = old.Name, old.Role, old.NamespaceID, old.Namespaces, old.ExpiresAt
		made, err := oneCredential(ctx, tx, insert, args)
		if err != nil {
			return err
		}
		successor = made.credential(tenant)
		after := audited(successor)
		after.Replaces = string(id)
		entry.Tenant, entry.Object, entry.Before, entry.After = uuid.UUID(tenant), object(successor.ID), audited(old.credential(tenant)), after
		return audit.Write(ctx, tx, entry)
	})
	if err != nil {
		return Credential{}, failure("replace credential", err)
	}
	return successor, nil
}

func oneCredential(ctx context.Context, tx pgx.Tx, query string, args pgx.NamedArgs) (credentialRow, error) {
	rows, err := tx.Query(ctx, query, args)
	if err != nil {
		return credentialRow{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[credentialRow])
}

// Revoke ends a credential of the tenant. Another tenant's is problem.NotFound;
// the tenant's last live admin is problem.LastAdmin.
func (s *store) Revoke(ctx context.Context, tenant TenantID, id CredentialID, entry audit.Entry) error {
	// The tenant's row is locked so that of two revocations at once the second
	// counts the admins that the first has left.
	const lock = `
		select from tenants
		where tenant_id = @tenant
		for no key update`
	const look = `
		select ` + credentialColumns + `
		from credentials
		where tenant_id = @tenant
		  and credential_id = @id`
	// One that was replaced ends by itself: it does not count.
	const revoke = `
		update credentials c
		set revoked_at = now()
		where c.tenant_id = @tenant
		  and c.credential_id = @id
		  and c.revoked_at is null
		  and (c.role <> 'admin'
		       or c.expires_at <= now()
		       or exists (
		           select from credentials other
		           where other.tenant_id = @tenant
		             and other.credential_id <> @id
		             and other.role = 'admin'
		             and other.revoked_at is null
		             and other.replaced_at is null
		             and other.expires_at > now()))`
	args := pgx.NamedArgs{"tenant": uuid.UUID(tenant), "id": string(id)}
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lock, args); err != nil {
			return err
		}
		row, err := oneCredential(ctx, tx, look, args)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return notFound()
		case err != nil:
			return err
		case row.RevokedAt != nil:
			return nil
		}
		tag, err := tx.Exec(ctx, revoke, args)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return problem.New(problem.LastAdmin, "This is the tenant's last admin credential. Issue another before you revoke it.")
		}
		entry.Tenant, entry.Object, entry.Before = uuid.UUID(tenant), object(id), audited(row.credential(tenant))
		return audit.Write(ctx, tx, entry)
	})
	if err != nil {
		return failure("revoke credential", err)
	}
	return nil
}

// List returns the tenant's credentials, the oldest first.
func (s *store) List(ctx context.Context, tenant TenantID) ([]Credential, error) {
	const query = `
		select ` + credentialColumns + `
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

// RecordUses notes when credentials were last used, each as long ago as it
// says. One that was revoked meanwhile stays as it was.
func (s *store) RecordUses(ctx context.Context, uses []use) error {
	const query = `
		update credentials c
		set last_used_at = greatest(c.last_used_at, now() - make_interval(secs => u.age_seconds))
		from unnest(@tenants::uuid[], @ids::text[], @ages::float8[]) as u (tenant_id, credential_id, age_seconds)
		where c.tenant_id = u.tenant_id
		  and c.credential_id = u.credential_id
		  and c.revoked_at is null`
	tenants, ids, ages := make([]uuid.UUID, len(uses)), make([]string, len(uses)), make([]float64, len(uses))
	for i, u := range uses {
		tenants[i], ids[i], ages[i] = uuid.UUID(u.tenant), string(u.id), u.age.Seconds()
	}
	_, err := s.db.Exec(ctx, query, pgx.NamedArgs{"tenants": tenants, "ids": ids, "ages": ages})
	if err != nil {
		return failure("record the uses of credentials", err)
	}
	return nil
}
