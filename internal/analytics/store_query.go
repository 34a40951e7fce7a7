package analytics

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
)

// sqlSource is every count of the range, from exactly one of the three tables:
// one statement sees one snapshot.
const sqlSource = `
with source as (
    select hour as at, series_id, outcome, bucket, bin, n
    from analytics_hours where tenant_id = @tenant and hour >= @hours_from and hour < @hours_to
    union all
    select minute, series_id, outcome, bucket, bin, n
    from analytics_minutes where tenant_id = @tenant and minute >= @first_from and minute < @first_to
    union all
    select minute, series_id, outcome, bucket, bin, n
    from analytics_minutes where tenant_id = @tenant and minute >= @last_from and minute < @last_to
    union all
    select minute, series_id, outcome, bucket, bin, n
    from analytics_counts where tenant_id = @tenant and minute >= @flushed_from and minute < @flushed_to
)`

// sqlFilter goes after sqlSource where the query is narrowed down.
const sqlFilter = `
where series_id in (
    select s.series_id from analytics_series s
    where s.tenant_id = @tenant
        and (@namespace::uuid is null or s.namespace_id = @namespace::uuid)
        and (@operation::text is null or s.operation = @operation::text)
        and (@caller::text is null or s.caller = @caller::text))`

const sqlCapped = `
select coalesce(bool_or(operation is null), false), coalesce(bool_or(caller is null), false)
from analytics_series
where tenant_id = @tenant and last_day >= @from::timestamptz::date and (operation is null or caller is null)`

func (c *scope) arguments() pgx.NamedArgs {
	args := pgx.NamedArgs{
		"tenant": c.tenant, "from": c.From, "step": c.step,
		"hours_from": c.hours.From, "hours_to": c.hours.To,
		"first_from": c.minutes[0].From, "first_to": c.minutes[0].To,
		"last_from": c.minutes[1].From, "last_to": c.minutes[1].To,
		"flushed_from": c.notRolled.From, "flushed_to": c.notRolled.To,
		"namespace": (*uuid.UUID)(nil), "operation": nullText(c.asked.Operation), "caller": c.asked.Caller,
	}
	if c.asked.Namespace != (auth.NamespaceID{}) {
		args["namespace"] = uuid.UUID(c.asked.Namespace)
	}
	return args
}

// filter is the WHERE clause of a statement over source; empty where nothing
// is filtered.
func (c *scope) filter() string {
	if c.asked.filtered() {
		return sqlFilter
	}
	return ""
}

// snapshot runs fn in a read-only transaction whose statements all see the
// same moment.
func (s *store) snapshot(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, fn)
}

func readCapped(ctx context.Context, tx pgx.Tx, c *scope) (capped Capped, err error) {
	err = tx.QueryRow(ctx, sqlCapped, c.arguments()).Scan(&capped.Operations, &capped.Callers)
	return capped, err
}

// outcomes are the figures by the second in which their step begins.
func (s *store) outcomes(ctx context.Context, c *scope) (steps map[int64]Figures, capped Capped, err error) {
	steps = make(map[int64]Figures)
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlSource+`
select date_bin(@step::interval, at, '1970-01-01T00:00:00Z'::timestamptz), outcome, sum(n)::bigint
from source`+c.filter()+`
group by 1, 2`, c.arguments())
		if err != nil {
			return err
		}
		var at time.Time
		var outcome int16
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&at, &outcome, &n}, func() error {
			f := steps[at.Unix()]
			f.counts[outcome] += n
			steps[at.Unix()] = f
			return nil
		})
		if err == nil {
			capped, err = readCapped(ctx, tx, c)
		}
		return err
	})
	return steps, capped, err
}

func (s *store) ages(ctx context.Context, c *scope) (ages Ages, capped Capped, err error) {
	clause := c.filter()
	if clause == "" {
		clause = " where true"
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sqlSource+`
select bucket, bin, sum(n)::bigint
from source`+clause+` and outcome = 3
group by 1, 2`, c.arguments())
		if err != nil {
			return err
		}
		var cell ageCell
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&cell.bucket, &cell.bin, &n}, func() error {
			ages.add(cell, n)
			return nil
		})
		if err == nil {
			capped, err = readCapped(ctx, tx, c)
		}
		return err
	})
	return ages, capped, err
}

// groupBy is the column that figures are grouped by.
type groupBy string

const (
	byOperation groupBy = "operation"
	byCaller    groupBy = "caller"
)

// sqlGrouped gives every count the name that it is grouped by; null for other.
func (by groupBy) sqlGrouped(c *scope) string {
	return sqlSource + `, grouped as (
    select s.` + string(by) + ` as name, c.outcome, c.bucket, c.bin, c.n
    from (select * from source` + c.filter() + `) c
    join analytics_series s on s.tenant_id = @tenant and s.series_id = c.series_id
)`
}

// groups lists the worst and adds up the rest.
func (s *store) groups(ctx context.Context, c *scope, by groupBy) (answer Groups, err error) {
	answer = Groups{Range: c.Range}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		figures, err := groupFigures(ctx, tx, c, by)
		if err != nil {
			return err
		}
		answer.rank(figures, c.asked.Limit)
		if err := groupAges(ctx, tx, c, by, &answer); err != nil {
			return err
		}
		answer.Capped, err = readCapped(ctx, tx, c)
		return err
	})
	return answer, err
}

// nullableName is a name, or other.
type nullableName struct {
	text  string
	other bool
}

func groupFigures(ctx context.Context, tx pgx.Tx, c *scope, by groupBy) (map[nullableName]Figures, error) {
	rows, err := tx.Query(ctx, by.sqlGrouped(c)+`
select coalesce(name, ''), name is null, outcome, sum(n)::bigint
from grouped
group by name, outcome`, c.arguments())
	if err != nil {
		return nil, err
	}
	figures := make(map[nullableName]Figures)
	var name nullableName
	var outcome int16
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name.text, &name.other, &outcome, &n}, func() error {
		f := figures[name]
		f.counts[outcome] += n
		figures[name] = f
		return nil
	})
	return figures, err
}

func (g *Groups) rank(figures map[nullableName]Figures, limit int) {
	for name, f := range figures {
		g.Total.add(f)
		if name.other {
			g.Other.add(f)
			continue
		}
		g.Items = append(g.Items, Group{Name: name.text, Figures: f})
	}
	slices.SortFunc(g.Items, func(a, b Group) int {
		return cmp.Or(
			cmp.Compare(b.Conflicts(), a.Conflicts()), cmp.Compare(b.Of(Replay), a.Of(Replay)),
			cmp.Compare(b.Begins(), a.Begins()), cmp.Compare(a.Name, b.Name))
	})
	if len(g.Items) > limit {
		for _, beyond := range g.Items[limit:] {
			g.Other.add(beyond.Figures)
		}
		g.Items = g.Items[:limit]
	}
}

// groupAges adds the ages to the listed groups, to other and to the total.
func groupAges(ctx context.Context, tx pgx.Tx, c *scope, by groupBy, g *Groups) error {
	listed := make(map[string]*Group, len(g.Items))
	names := make([]string, len(g.Items))
	for i := range g.Items {
		names[i] = g.Items[i].Name
		listed[names[i]] = &g.Items[i]
	}
	args := c.arguments()
	args["names"] = names
	rows, err := tx.Query(ctx, by.sqlGrouped(c)+`
select case when name = any(@names::text[]) then name end, bucket, bin, sum(n)::bigint
from grouped
where outcome = 3
group by 1, 2, 3`, args)
	if err != nil {
		return err
	}
	var name *string
	var cell ageCell
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &cell.bucket, &cell.bin, &n}, func() error {
		g.Total.Ages.add(cell, n)
		if name != nil {
			listed[*name].Ages.add(cell, n)
		} else {
			g.Other.Ages.add(cell, n)
		}
		return nil
	})
	return err
}
