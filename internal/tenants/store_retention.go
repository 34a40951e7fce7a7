package tenants

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// planJSON is a plan as it is stored.
type planJSON struct {
	DefaultSeconds int64               `json:"default_seconds"`
	Operations     []planOperationJSON `json:"operations"`
}

type planOperationJSON struct {
	Namespace uuid.UUID `json:"namespace,omitzero"`
	Operation string    `json:"operation"`
	Seconds   int64     `json:"seconds"`
}

func (p Plan) text() (string, error) {
	j := planJSON{DefaultSeconds: wholeSecondsOf(p.Default), Operations: []planOperationJSON{}}
	for _, o := range p.Operations {
		j.Operations = append(j.Operations, planOperationJSON{uuid.UUID(o.Namespace), o.Operation, wholeSecondsOf(o.Retention)})
	}
	text, err := json.Marshal(j)
	return string(text), err
}

func planOf(text []byte) (Plan, error) {
	var j planJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return Plan{}, err
	}
	plan := Plan{Default: time.Duration(j.DefaultSeconds) * time.Second}
	for _, o := range j.Operations {
		plan.Operations = append(plan.Operations, PlanOperation{auth.NamespaceID(o.Namespace), o.Operation, time.Duration(o.Seconds) * time.Second})
	}
	return plan, nil
}

// Retention reads the tenant's retention and its last change of existing
// records; problem.NotFound where there is no such tenant.
func (s *store) Retention(ctx context.Context, tenant auth.TenantID) (Retention, error) {
	var r Retention
	err := s.read(ctx, tenant, func(tx pgx.Tx, p *policies) error {
		change, err := lastChange(ctx, tx, tenant)
		r = p.retention(change)
		return err
	})
	return r, err
}

func lastChange(ctx context.Context, tx pgx.Tx, tenant auth.TenantID) (*RetentionChange, error) {
	const query = `
		select change_id, state, exact, coalesce(reason, ''), asked_at, starts_at, finished_at, records_seen, records_changed
		from retention_changes
		where tenant_id = @tenant
		order by asked_at desc, change_id
		limit 1`
	var c RetentionChange
	var finishedAt *time.Time
	err := tx.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)}).Scan(
		&c.ID, &c.State, &c.Exact, &c.Reason, &c.AskedAt, &c.StartsAt, &finishedAt, &c.RecordsSeen, &c.RecordsChanged)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // no change is a value
	}
	if finishedAt != nil {
		c.FinishedAt = *finishedAt
	}
	return &c, err
}

// PlanOf is what would hold for the tenant's records under params; it changes
// nothing. It returns problem.InvalidRequest for what the tenant does not allow.
func (s *store) PlanOf(ctx context.Context, tenant auth.TenantID, params RetentionParams) (Plan, error) {
	var plan Plan
	err := s.read(ctx, tenant, func(_ pgx.Tx, p *policies) error {
		err := params.set(p)
		plan = p.plan()
		return err
	})
	return plan, err
}

// InsertPreview keeps what was shown, and drops what is too old to act on.
func (s *store) InsertPreview(ctx context.Context, tenant auth.TenantID, id uuid.UUID, plan Plan) (expiresAt time.Time, err error) {
	const drop = `
		delete from retention_previews
		where tenant_id = @tenant
		  and created_at < now() - @life::interval`
	const insert = `
		insert into retention_previews (tenant_id, preview_id, plan)
		values (@tenant, @preview, @plan)
		returning created_at`
	text, err := plan.text()
	if err != nil {
		return time.Time{}, failure("write a preview", err)
	}
	args := pgx.NamedArgs{"tenant": uuid.UUID(tenant), "preview": id, "plan": text, "life": previewLife}
	err = postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, drop, args); err != nil {
			return err
		}
		return tx.QueryRow(ctx, insert, args).Scan(&expiresAt)
	})
	if err != nil {
		return time.Time{}, failure("keep a preview", err)
	}
	return expiresAt.Add(previewLife), nil
}

// binGrowth is the ratio of the ends of one bin of ages, a DDSketch of 1 %
// relative accuracy (internal/analytics): bin i begins at binGrowth^i seconds.
const binGrowth = 1.01 / 0.99

// LostReplays counts the tenant's replays that were older than the plan keeps
// records of their operation, of all that are still counted. The figures are
// those of the roll-ups, to 2 % of the age.
func (s *store) LostReplays(ctx context.Context, tenant auth.TenantID, plan Plan) (lost, all int64, err error) {
	const query = `
		with seen as (
		    select series_id, bin, n from analytics_hours where tenant_id = @tenant and outcome = 3
		    union all
		    select series_id, bin, n from analytics_counts where tenant_id = @tenant and outcome = 3
		), kept as (
		    select distinct on (p.namespace_id, p.operation) p.namespace_id, p.operation, p.last_bin
		    from unnest(@namespaces::uuid[], @operations::text[], @last_bins::integer[]) as p (namespace_id, operation, last_bin)
		)
		select coalesce(sum(seen.n) filter (where seen.bin > coalesce(narrow.last_bin, wide.last_bin, @last_bin)), 0)::bigint,
		       coalesce(sum(seen.n), 0)::bigint
		from seen
		join analytics_series s on s.tenant_id = @tenant and s.series_id = seen.series_id
		left join kept narrow on narrow.operation = s.operation and narrow.namespace_id = s.namespace_id
		left join kept wide on wide.operation = s.operation and wide.namespace_id = '00000000-0000-0000-0000-000000000000'`
	namespaces, operations, bins := make([]uuid.UUID, len(plan.Operations)), make([]string, len(plan.Operations)), make([]int32, len(plan.Operations))
	for i, o := range plan.Operations {
		namespaces[i], operations[i], bins[i] = uuid.UUID(o.Namespace), o.Operation, lastBin(o.Retention)
	}
	err = s.db.QueryRow(ctx, query, pgx.NamedArgs{
		"tenant": uuid.UUID(tenant), "namespaces": namespaces, "operations": operations, "last_bins": bins, "last_bin": lastBin(plan.Default),
	}).Scan(&lost, &all)
	if err != nil {
		return 0, 0, failure("count the replays that would be lost", err)
	}
	return lost, all, nil
}

// lastBin is the bin in which the retention itself lies.
func lastBin(retention time.Duration) int32 {
	return int32(math.Floor(math.Log(retention.Seconds()) / math.Log(binGrowth)))
}

// SetRetention changes the tenant's policy rows and plans the change of the
// records that exist, in one transaction. Another tenant's preview is as one
// that does not exist.
func (s *store) SetRetention(ctx context.Context, tenant auth.TenantID, params RetentionParams, change uuid.UUID, c policyChanging) (Retention, error) {
	var after Retention
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		edit := c.change
		c.change = func(ctx context.Context, tx pgx.Tx, p *policies) error {
			if err := edit(ctx, tx, p); err != nil || !params.ApplyToExisting {
				return err
			}
			return checkPreview(ctx, tx, p, params)
		}
		if params.PreviewID != nil && !c.mayShorten {
			// Existing records may end earlier, whatever the policy was.
			c.change = then(c.change, errReauthenticate)
		}
		if _, err := changePolicies(ctx, tx, tenant, c); err != nil {
			return err
		}
		p, err := lockPolicies(ctx, tx, tenant)
		if err != nil {
			return err
		}
		if params.ApplyToExisting {
			if err := planChange(ctx, tx, p, params, change); err != nil {
				return err
			}
		}
		last, err := lastChange(ctx, tx, tenant)
		after = p.retention(last)
		return err
	})
	if err != nil {
		return Retention{}, failure("set the retention", err)
	}
	return after, nil
}

// then runs first and, where that is right, refuses all the same.
func then(first policyChange, refusal func() error) policyChange {
	return func(ctx context.Context, tx pgx.Tx, p *policies) error {
		if err := first(ctx, tx, p); err != nil {
			return err
		}
		return refusal()
	}
}

// checkPreview refuses to shorten existing records without having been shown
// what that does.
func checkPreview(ctx context.Context, tx pgx.Tx, p *policies, params RetentionParams) error {
	const query = `
		select plan, created_at >= now() - @life::interval
		from retention_previews
		where tenant_id = @tenant
		  and preview_id = @preview`
	if params.PreviewID == nil {
		if p.shortens() {
			return previewNeeded(p.tenant.Grace)
		}
		return nil
	}
	var shown []byte
	var fresh bool
	err := tx.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(p.tenant.ID), "preview": *params.PreviewID, "life": previewLife}).Scan(&shown, &fresh)
	switch {
	case errors.Is(err, pgx.ErrNoRows), err == nil && !fresh:
		return problem.Invalid(problem.Field{Pointer: "/preview_id", Reason: "there is no such preview, or it is over ten minutes old: ask for another"})
	case err != nil:
		return err
	}
	plan, err := planOf(shown)
	if err != nil {
		return err
	}
	was, err := plan.text()
	if err != nil {
		return err
	}
	is, err := p.plan().text()
	if err != nil {
		return err
	}
	if was != is {
		return problem.Invalid(problem.Field{Pointer: "/preview_id", Reason: "the preview was of another setting: ask for one of this"})
	}
	return nil
}

// planChange puts the change of existing records on the list of the job that
// makes it. One that waits or runs is superseded.
func planChange(ctx context.Context, tx pgx.Tx, p *policies, params RetentionParams, id uuid.UUID) error {
	const supersede = `
		update retention_changes
		set state = 'superseded', finished_at = now()
		where tenant_id = @tenant
		  and state in ('pending', 'running')`
	const insert = `
		insert into retention_changes (tenant_id, change_id, starts_at, exact, reason, plan)
		values (@tenant, @change, now() + @grace::interval, @exact, nullif(@reason, ''), @plan)`
	text, err := p.plan().text()
	if err != nil {
		return err
	}
	grace := time.Duration(0)
	if params.PreviewID != nil {
		grace = p.tenant.Grace
	}
	args := pgx.NamedArgs{
		"tenant": uuid.UUID(p.tenant.ID), "change": id, "grace": grace, "exact": params.PreviewID != nil, "reason": params.Reason, "plan": text,
	}
	if _, err := tx.Exec(ctx, supersede, args); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, insert, args)
	return err
}

// CancelRetention takes back the tenant's change that waits for its grace to
// end; problem.NotFound where there is none.
func (s *store) CancelRetention(ctx context.Context, tenant auth.TenantID, pre Precondition, entry audit.Entry) (version int64, err error) {
	const query = `
		update retention_changes
		set state = 'cancelled', finished_at = now()
		where tenant_id = @tenant
		  and state = 'pending'
		  and starts_at > now()
		returning change_id`
	err = postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		locked, err := lockTenant(ctx, tx, tenant)
		if err != nil {
			return err
		}
		var id uuid.UUID
		err = tx.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)}).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return problem.New(problem.NotFound, "There is no change of existing records that waits for its grace to end.")
		}
		if err != nil {
			return err
		}
		if err := pre.check(locked.PolicyVersion); err != nil {
			return err
		}
		if version, err = raisePolicyVersion(ctx, tx, tenant); err != nil {
			return err
		}
		entry.Tenant, entry.Object = uuid.UUID(tenant), audit.Object{Kind: "retention_change", ID: id.String()}
		return audit.Write(ctx, tx, entry)
	})
	if err != nil {
		return 0, failure("cancel the change of retention", err)
	}
	return version, nil
}

// dueChange is a change of existing records whose time has come.
type dueChange struct {
	tenant   auth.TenantID
	id       uuid.UUID
	exact    bool
	plan     Plan
	position uuid.UUID
}

// DueChanges lists what is to be applied now, of all tenants: the job's list.
func (s *store) DueChanges(ctx context.Context) ([]dueChange, error) {
	const query = `
		select tenant_id, change_id, exact, plan, position
		from retention_changes
		where state in ('pending', 'running')
		  and starts_at <= now()
		order by starts_at, tenant_id`
	rows, err := s.db.Query(ctx, query)
	if err != nil {
		return nil, failure("list the due changes of retention", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (dueChange, error) {
		var c dueChange
		var plan []byte
		if err := row.Scan(&c.tenant, &c.id, &c.exact, &plan, &c.position); err != nil {
			return c, err
		}
		var err error
		c.plan, err = planOf(plan)
		return c, err
	})
	if err != nil {
		return nil, failure("list the due changes of retention", err)
	}
	return list, nil
}

// StepChange notes how far a change of the tenant is; going is false where it
// was superseded meanwhile.
func (s *store) StepChange(ctx context.Context, tenant auth.TenantID, id uuid.UUID, step Step) (going bool, err error) {
	const query = `
		update retention_changes
		set state           = case when @seen::integer = 0 then 'done' else 'running' end,
		    finished_at     = case when @seen::integer = 0 then now() end,
		    position        = case when @seen::integer = 0 then position else @last end,
		    records_seen    = records_seen + @seen::integer,
		    records_changed = records_changed + @changed
		where tenant_id = @tenant
		  and change_id = @change
		  and state in ('pending', 'running')`
	tag, err := s.db.Exec(ctx, query, pgx.NamedArgs{
		"tenant": uuid.UUID(tenant), "change": id, "seen": step.Seen, "changed": step.Changed, "last": step.Last,
	})
	if err != nil {
		return false, failure("note the progress of a change of retention", err)
	}
	return tag.RowsAffected() > 0, nil
}
