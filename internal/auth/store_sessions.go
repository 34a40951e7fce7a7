package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/postgres"
)

// sessionStore is the sessions in the database. Every statement names the
// tenant; another tenant's session is as if it did not exist. Errors are
// *problem.Error, unavailable or internal, but for Lookup's, which are the
// driver's.
type sessionStore struct{ db *pgxpool.Pool }

type sessionRow struct {
	CredentialID    string
	CredentialName  string
	TenantName      string
	Role            string
	Namespaces      []uuid.UUID
	Revoked         bool
	TenantState     string
	SuspendedReason *string
	CreatedAt       time.Time
	EndsAt          time.Time
	LastsUntil      time.Time
	LifeSeconds     float64
	KeySeconds      *float64
}

// Lookup reads a session and what its credential may do now. Lengths are
// measured by the database's clock, so that the process clock does not count.
func (s *sessionStore) Lookup(ctx context.Context, id sessionID) (row sessionRow, found bool, err error) {
	const query = `
		select s.credential_id,
		       c.name as credential_name,
		       t.name as tenant_name,
		       c.role,
		       c.namespaces,
		       c.revoked_at is not null as revoked,
		       t.state as tenant_state,
		       t.suspended_reason,
		       s.created_at,
		       least(s.last_used_at + @idle::interval, s.created_at + @life::interval, c.expires_at) as ends_at,
		       least(s.created_at + @life::interval, c.expires_at) as lasts_until,
		       extract(epoch from least(s.last_used_at + @idle::interval, s.created_at + @life::interval, c.expires_at) - now())::float8 as life_seconds,
		       extract(epoch from s.presented_at + @fresh::interval - now())::float8 as key_seconds
		from dashboard_sessions s
		join credentials c on c.tenant_id = s.tenant_id and c.credential_id = s.credential_id
		join tenants t on t.tenant_id = s.tenant_id
		where s.tenant_id = @tenant
		  and s.session_id = @id`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{
		"tenant": uuid.UUID(id.tenant), "id": id.digest[:], "idle": SessionIdle, "life": SessionLife, "fresh": KeyFreshness,
	})
	if err != nil {
		return sessionRow{}, false, fmt.Errorf("look up a session: %w", err)
	}
	row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[sessionRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return sessionRow{}, false, nil
	}
	if err != nil {
		return sessionRow{}, false, fmt.Errorf("look up a session: %w", err)
	}
	return row, true, nil
}

// known is the row in the terms of this process; askedAt was before the read.
func (r sessionRow) known(tenant TenantID, askedAt time.Time) knownSession {
	credential := lookupRow{
		TenantID: uuid.UUID(tenant), Namespaces: r.Namespaces, Role: r.Role, Revoked: r.Revoked,
		TenantState: r.TenantState, SuspendedReason: r.SuspendedReason,
	}.known(CredentialID(r.CredentialID), askedAt)
	k := knownSession{
		session: Session{
			Caller: credential.caller, TenantName: r.TenantName, CredentialName: r.CredentialName,
			StartedAt: r.CreatedAt, EndsAt: r.EndsAt, LastsUntil: r.LastsUntil,
		},
		refused: credential.refused,
		endsAt:  askedAt.Add(time.Duration(r.LifeSeconds * float64(time.Second))),
	}
	if r.KeySeconds != nil {
		k.keyUntil = askedAt.Add(time.Duration(*r.KeySeconds * float64(time.Second)))
		k.session.KeyUntil = k.keyUntil
	}
	return k
}

// Insert begins a session, and removes the tenant's that have ended.
func (s *sessionStore) Insert(ctx context.Context, id sessionID, credential CredentialID, keyPresented bool, entry audit.Entry) error {
	const (
		sweep = `
			delete from dashboard_sessions
			where tenant_id = @tenant
			  and (last_used_at < now() - @idle::interval or created_at < now() - @life::interval)`
		insert = `
			insert into dashboard_sessions (tenant_id, session_id, credential_id, presented_at)
			select tenant_id, @id, credential_id, case when @presented then now() end
			from credentials
			where tenant_id = @tenant
			  and credential_id = @credential`
	)
	args := pgx.NamedArgs{
		"tenant": uuid.UUID(id.tenant), "id": id.digest[:], "credential": string(credential), "presented": keyPresented,
		"idle": SessionIdle, "life": SessionLife,
	}
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sweep, args); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, insert, args)
		if err == nil && tag.RowsAffected() == 0 {
			return notSignedIn() // gone between being authenticated and now
		}
		if err != nil {
			return err
		}
		entry.Tenant = uuid.UUID(id.tenant)
		return audit.Write(ctx, tx, entry)
	})
	if err != nil {
		return failure("begin a session", err)
	}
	return nil
}

// Touch counts a session as used now, if it still lives.
func (s *sessionStore) Touch(ctx context.Context, id sessionID) error {
	const statement = `
		update dashboard_sessions
		set last_used_at = now()
		where tenant_id = @tenant
		  and session_id = @id
		  and last_used_at > now() - @idle::interval`
	_, err := s.db.Exec(ctx, statement, pgx.NamedArgs{"tenant": uuid.UUID(id.tenant), "id": id.digest[:], "idle": SessionIdle})
	if err != nil {
		return failure("renew a session", err)
	}
	return nil
}

// Delete ends a session; the entry is written where there was one.
func (s *sessionStore) Delete(ctx context.Context, id sessionID, entry audit.Entry) error {
	const statement = `
		delete from dashboard_sessions
		where tenant_id = @tenant
		  and session_id = @id`
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, statement, pgx.NamedArgs{"tenant": uuid.UUID(id.tenant), "id": id.digest[:]})
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		entry.Tenant = uuid.UUID(id.tenant)
		return audit.Write(ctx, tx, entry)
	})
	if err != nil {
		return failure("end a session", err)
	}
	return nil
}

// InsertLink keeps a link, and removes the tenant's that are too old.
func (s *sessionStore) InsertLink(ctx context.Context, id sessionID, credential CredentialID) error {
	const (
		sweep = `
			delete from dashboard_links
			where tenant_id = @tenant
			  and expires_at < now()`
		insert = `
			insert into dashboard_links (tenant_id, link_id, credential_id, expires_at)
			select tenant_id, @id, credential_id, now() + @life::interval
			from credentials
			where tenant_id = @tenant
			  and credential_id = @credential
			  and revoked_at is null`
	)
	args := pgx.NamedArgs{"tenant": uuid.UUID(id.tenant), "id": id.digest[:], "credential": string(credential), "life": LinkLife}
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sweep, args); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, insert, args)
		if err == nil && tag.RowsAffected() == 0 {
			return notFound()
		}
		return err
	})
	if err != nil {
		return failure("make a link", err)
	}
	return nil
}

// TakeLink uses a link up: of two that try, one finds it. A link of a
// credential that has ended is used up and not found.
func (s *sessionStore) TakeLink(ctx context.Context, id sessionID) (caller Caller, found bool, err error) {
	const statement = `
		with taken as (
		    delete from dashboard_links
		    where tenant_id = @tenant
		      and link_id = @id
		    returning tenant_id, credential_id, expires_at
		)
		select c.credential_id, c.role
		from taken
		join credentials c on c.tenant_id = taken.tenant_id and c.credential_id = taken.credential_id
		where taken.expires_at > now()
		  and c.revoked_at is null
		  and c.expires_at > now()`
	caller.Tenant = id.tenant
	err = s.db.QueryRow(ctx, statement, pgx.NamedArgs{"tenant": uuid.UUID(id.tenant), "id": id.digest[:]}).Scan(&caller.Credential, &caller.Role)
	if errors.Is(err, pgx.ErrNoRows) {
		return Caller{}, false, nil
	}
	if err != nil {
		return Caller{}, false, failure("use a link", err)
	}
	return caller, true, nil
}
