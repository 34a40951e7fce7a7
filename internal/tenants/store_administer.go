package tenants

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
)

// ChangeTenant changes one tenant as change says, under the lock of its row,
// and audits it. problem.NotFound where there is none.
func (s *store) ChangeTenant(ctx context.Context, id auth.TenantID, entry audit.Entry, change func(*changing) error) (Tenant, error) {
	const query = `
		update tenants
		set name                  = @name,
		    state                 = @state,
		    min_retention_seconds = @min_seconds,
		    max_retention_seconds = @max_seconds,
		    body_limit_bytes      = @body_limit,
		    grace_seconds         = @grace_seconds,
		    requests_per_second   = @requests,
		    new_keys_per_minute   = @new_keys,
		    max_live_records      = @records,
		    max_stored_bytes      = @bytes,
		    namespace_requests_per_second = @namespace_requests,
		    caller_requests_per_second    = @caller_requests,
		    delete_asked_at       = case when @state = 'deleting' then coalesce(delete_asked_at, now()) end,
		    delete_after          = case when @state = 'deleting' then coalesce(delete_after, now() + @delete_in::interval) end
		where tenant_id = @tenant
		returning ` + tenantColumns
	const undeletable = `
		select coalesce(delete_after > now(), false)
		from tenants
		where tenant_id = @tenant`
	var after Tenant
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		before, err := lockTenant(ctx, tx, id)
		if err != nil {
			return err
		}
		wanted := &changing{Tenant: before}
		if before.State == StateDeleting {
			if err := tx.QueryRow(ctx, undeletable, pgx.NamedArgs{"tenant": uuid.UUID(id)}).Scan(&wanted.undeletable); err != nil {
				return err
			}
		}
		if err := change(wanted); err != nil {
			return err
		}
		after, err = oneTenant(ctx, tx, query, pgx.NamedArgs{
			"tenant": uuid.UUID(id), "name": wanted.Name, "state": string(wanted.State), "delete_in": wanted.deleteIn,
			"min_seconds": wholeSecondsOf(wanted.MinRetention), "max_seconds": wholeSecondsOf(wanted.MaxRetention),
			"body_limit": wanted.BodyLimit, "grace_seconds": wholeSecondsOf(wanted.Grace),
			"requests": wanted.Limits.RequestsPerSecond, "new_keys": wanted.Limits.NewKeysPerMinute,
			"records": wanted.Limits.LiveRecords, "bytes": wanted.Limits.StoredBytes,
			"namespace_requests": wanted.Limits.NamespaceRequestsPerSecond, "caller_requests": wanted.Limits.CallerRequestsPerSecond,
		})
		if err != nil {
			return err
		}
		entry.Before, entry.After = audited(before), audited(after)
		return audit.Write(ctx, tx, about(id, entry))
	})
	if err != nil {
		return Tenant{}, failure("change the tenant", err)
	}
	return after, nil
}

// Tenants lists all tenants by id: the operator's list.
func (s *store) Tenants(ctx context.Context, after auth.TenantID, limit int) (list []Tenant, more bool, err error) {
	const query = `
		select ` + tenantColumns + `
		from tenants
		where tenant_id > @after
		order by tenant_id
		limit @most`
	rows, err := s.db.Query(ctx, query, pgx.NamedArgs{"after": uuid.UUID(after), "most": limit + 1})
	if err != nil {
		return nil, false, failure("list tenants", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[tenantRow])
	if err != nil {
		return nil, false, failure("list tenants", err)
	}
	for _, row := range all[:min(len(all), limit)] {
		list = append(list, row.tenant())
	}
	return list, len(all) > limit, nil
}

// DueRemovals lists the tenants whose deletion is past its grace: the job's
// list.
func (s *store) DueRemovals(ctx context.Context) ([]auth.TenantID, error) {
	const query = `
		select tenant_id
		from tenants
		where state = 'deleting'
		  and delete_after <= now()
		order by delete_after`
	rows, err := s.db.Query(ctx, query)
	if err != nil {
		return nil, failure("list the tenants to be removed", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[auth.TenantID])
	if err != nil {
		return nil, failure("list the tenants to be removed", err)
	}
	return list, nil
}

// lastTables go after all others, in this order: the others refer to them, or
// tell of what has been done.
func lastTables() []string { return []string{"namespaces", "audit", "tenants"} }

// TenantTables lists every table that holds rows of tenants, those that others
// refer to last: also the tables of packages that this one knows nothing of.
func (s *store) TenantTables(ctx context.Context) ([]string, error) {
	// Partitions stand for their parents: a row's place names it within one.
	const query = `
		select c.relname
		from pg_class c
		join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' and a.atttypid = 'uuid'::regtype and not a.attisdropped
		where c.relkind = 'r'
		  and c.relnamespace = 'public'::regnamespace
		order by c.relname`
	rows, err := s.db.Query(ctx, query)
	if err != nil {
		return nil, failure("list the tables of tenants", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, failure("list the tables of tenants", err)
	}
	tables = slices.DeleteFunc(tables, func(table string) bool { return slices.Contains(lastTables(), table) })
	return append(tables, lastTables()...), nil
}

// Remove deletes up to most rows of the tenant from one table. The condition
// that the tenant is being deleted and past its grace stands in the deleting
// statement; nothing of another tenant, or of one that is alive, goes.
func (s *store) Remove(ctx context.Context, tenant auth.TenantID, table string, most int) (removed int64, err error) {
	const due = `
		  and exists (select from tenants t where t.tenant_id = @tenant and t.state = 'deleting' and t.delete_after <= now())`
	name := pgx.Identifier{"public", table}.Sanitize()
	args := pgx.NamedArgs{"tenant": uuid.UUID(tenant), "most": most}
	switch table {
	case "audit": // whose rows the application itself may not delete
		err = s.db.QueryRow(ctx, `select audit_forget(@tenant, @most)`, args).Scan(&removed)
	case "tenants":
		var tag interface{ RowsAffected() int64 }
		tag, err = s.db.Exec(ctx, `delete from tenants where tenant_id = @tenant and state = 'deleting' and delete_after <= now()`, args)
		removed = tag.RowsAffected()
	default:
		var tag interface{ RowsAffected() int64 }
		tag, err = s.db.Exec(ctx, `
		delete from `+name+`
		where tenant_id = @tenant
		  and ctid = any (array(select ctid from `+name+` where tenant_id = @tenant limit @most))`+due, args)
		removed = tag.RowsAffected()
	}
	if err != nil {
		return 0, failure(fmt.Sprintf("remove rows of a tenant from %s", table), err)
	}
	return removed, nil
}

// NoteRemoved counts what went, for the operator to see.
func (s *store) NoteRemoved(ctx context.Context, tenant auth.TenantID, rows int64) error {
	const query = `
		update tenants
		set deleted_rows = deleted_rows + @rows
		where tenant_id = @tenant
		  and state = 'deleting'`
	if _, err := s.db.Exec(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant), "rows": rows}); err != nil {
		return failure("note the removal of a tenant", err)
	}
	return nil
}
