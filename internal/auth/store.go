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
	Namespaces      []uuid.UUID
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
		       c.namespaces,
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
	if r.Namespaces != nil {
		k.caller.Namespaces = new(namespaceIDs(r.Namespaces))
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

// notFound is the one answer for what the tenant does not have, whoever has it.
func notFound() error {
	return problem.New(problem.NotFound, "There is no such credential, or it has ended.")
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

func namespaceIDs(ids []uuid.UUID) []NamespaceID {
	list := make([]NamespaceID, len(ids))
	for i, id := range ids {
		list[i] = NamespaceID(id)
	}
	return list
}
