//go:build unix

package deploy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// dashboard is what Grafana reads of one, and these tests look at.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Query json.RawMessage `json:"query"`
}

func (v variable) query(t *testing.T) (text string) {
	t.Helper()
	if err := json.Unmarshal(v.Query, &text); err != nil {
		t.Fatal(err)
	}
	return text
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type panel struct {
	ID         int    `json:"id"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	Datasource source `json:"datasource"`
	TimeFrom   string `json:"timeFrom"` // what the panel shows, whatever the dashboard does
	Grid       struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []struct {
		RefID      string `json:"refId"`
		Datasource source `json:"datasource"`
		Expr       string `json:"expr"`
		RawSQL     string `json:"rawSql"`
		Format     string `json:"format"`
	} `json:"targets"`
}

func dashboardOf(t *testing.T, name string) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal(read(t, deployed, "grafana", name), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestADashboardHasPanelsThatAskASourceAndDoNotOverlap(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"service.json": "prometheus", "tenant.json": "grafana-postgresql-datasource"} {
		d := dashboardOf(t, name)
		if d.UID == "" || d.Title == "" {
			t.Errorf("%s has no uid or no title", name)
		}
		variables := map[string]string{}
		for _, v := range d.Templating.List {
			variables["${"+v.Name+"}"] = v.Type
		}
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: the id %d comes twice", name, p.ID)
			}
			ids[p.ID] = true
			if p.Grid.X+p.Grid.W > 24 {
				t.Errorf("%s: %s is wider than the page", name, p.Title)
			}
			for x := p.Grid.X; x < p.Grid.X+p.Grid.W; x++ {
				for y := p.Grid.Y; y < p.Grid.Y+p.Grid.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: %s lies on %s", name, p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if len(p.Targets) == 0 || p.Title == "" {
				t.Errorf("%s: panel %d %q asks nothing", name, p.ID, p.Title)
			}
			for _, target := range p.Targets {
				if target.Datasource.Type != kind || variables[target.Datasource.UID] != "datasource" || (target.Expr == "") == (target.RawSQL == "") {
					t.Errorf("%s: %s asks %+v", name, p.Title, target)
				}
			}
		}
	}
}

// asGrafana writes out the macros of Grafana's PostgreSQL source and the
// variable, each as Grafana does.
func asGrafana(t *testing.T, sql string, tenant uuid.UUID, from, to time.Time) string {
	t.Helper()
	sql = strings.ReplaceAll(sql, "${tenant:sqlstring}", "'"+tenant.String()+"'")
	for {
		before, rest, found := strings.Cut(sql, "$__")
		if !found {
			return sql
		}
		macro, rest, _ := strings.Cut(rest, "(")
		depth, end := 1, 0
		for ; depth > 0; end++ {
			switch rest[end] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		args, rest := rest[:end-1], rest[end:]
		switch macro {
		case "timeFilter":
			sql = fmt.Sprintf("%s%s BETWEEN '%s' AND '%s'%s", before, args, from.UTC().Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano), rest)
		case "timeGroupAlias":
			column, interval, _ := strings.Cut(args, ",")
			seconds := map[string]int{"$__interval": 60, "'1h'": 3600}[strings.TrimSpace(interval)]
			if seconds == 0 {
				t.Fatalf("an interval of %s", interval)
			}
			sql = fmt.Sprintf(`%sfloor(extract(epoch from %s)/%d)*%d AS "time"%s`, before, column, seconds, seconds, rest)
		default:
			t.Fatalf("the macro %s is not known here", macro)
		}
	}
}

// asked opens a session of the role that role.sql makes. Roles are the whole
// server's, so it has a name of its own, and goes.
func asked(t *testing.T, pool *pgxpool.Pool) *pgxpool.Conn {
	t.Helper()
	role := "onceward_test_grafana_" + strings.ToLower(rand.Text())
	script := strings.ReplaceAll(string(read(t, deployed, "grafana", "role.sql")), "onceward_grafana", role)
	for range 2 { // it says of itself that this is harmless
		if _, err := pool.Exec(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), "drop owned by "+role+"; drop role "+role); err != nil {
			t.Errorf("drop the role: %v", err)
		}
	})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Conn().Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		conn.Release()
	})
	if _, err := conn.Exec(t.Context(), "set session authorization "+role); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Every statement of the tenant's dashboard is run by Grafana's role on the
// current schema, over figures of which some are rolled up and some are not,
// and beside those of another tenant.
func TestTheTenantsDashboardShowsTheTenantsFigures(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	tenant, other, series, namespace := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	now := time.Now().UTC().Truncate(time.Minute)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, id := range []uuid.UUID{tenant, other} {
		exec("insert into tenants (tenant_id, name, secret) values ($1, $2, decode(repeat('ab', 32), 'hex'))", id, "acme-"+id.String()[:4])
		exec("insert into namespaces (tenant_id, namespace_id, name) values ($1, $2, 'live')", id, namespace)
		exec("insert into analytics_series (tenant_id, series_id, namespace_id, operation, caller, last_day) values ($1, $2, $3, 'POST /v1/charges', '', $4)", id, series, namespace, now)
		exec("insert into tenant_usage (tenant_id, live_records, stored_bytes) values ($1, 12, 3400)", id)
		exec("insert into usage_days (tenant_id, day, requests, new_records, limited) values ($1, $2, 50, 20, 1)", id, now)
	}
	// 10 s old: bucket 5, and the bin of a sketch of 1 %.
	bin := int(math.Floor(math.Log(10) / math.Log(1.01/0.99)))
	count := func(table, column string, id uuid.UUID, at time.Time, outcome, bucket, bin, n int) {
		t.Helper()
		exec("insert into "+table+" (tenant_id, "+column+", series_id, outcome, bucket, bin, n) values ($1, $2, $3, $4, $5, $6, $7)", id, at, series, outcome, bucket, bin, n)
	}
	for _, table := range []struct{ name, column string }{{"analytics_minutes", "minute"}, {"analytics_hours", "hour"}} {
		at := now.Add(-90 * time.Minute)
		if table.column == "hour" {
			at = at.Truncate(time.Hour)
		}
		count(table.name, table.column, tenant, at, 1, 0, 0, 10)
		count(table.name, table.column, tenant, at, 3, 5, bin, 30)
		count(table.name, table.column, tenant, at, 4, 0, 0, 7)
		count(table.name, table.column, tenant, at, 8, 0, 0, 2)
		count(table.name, table.column, other, at, 1, 0, 0, 1000)
	}
	count("analytics_counts", "minute", tenant, now, 1, 0, 0, 3)
	count("analytics_counts", "minute", tenant, now, 7, 0, 0, 1)

	conn := asked(t, pool)
	shown := map[string][]map[string]any{}
	d := dashboardOf(t, "tenant.json")
	for _, p := range d.Panels {
		from := now.Add(-6 * time.Hour)
		if p.TimeFrom == "30d" {
			from = now.AddDate(0, 0, -30)
		}
		for _, target := range p.Targets {
			rows, err := conn.Query(t.Context(), asGrafana(t, target.RawSQL, tenant, from, now.Add(time.Hour)))
			if err != nil {
				t.Fatalf("%s: %v", p.Title, err)
			}
			shown[p.Title], err = pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				t.Fatalf("%s: %v\n%s", p.Title, err, target.RawSQL)
			}
			if len(shown[p.Title]) == 0 {
				t.Errorf("%s shows nothing", p.Title)
			}
			if target.Format == "time_series" && len(shown[p.Title]) > 0 && shown[p.Title][0]["time"] == nil {
				t.Errorf("%s has no time: %v", p.Title, shown[p.Title][0])
			}
		}
	}
	for title, want := range map[string]int64{"Begins": 50, "Replays": 30, "409s of begins": 7, "Takeovers": 1, "Late completions": 2} {
		if got := shown[title][0]["total"]; got != want {
			t.Errorf("%s: %v, want %d", title, got, want)
		}
	}
	if got := shown["Median age of a replay"][0]["seconds"].(float64); math.Abs(got-10) > 0.2 {
		t.Errorf("the median age is %v s, want 10", got)
	}
	operation := shown["Operations"][0]
	if len(shown["Operations"]) != 1 || operation["namespace"] != "live" || operation["begins"] != int64(50) || operation["takeovers"] != int64(1) {
		t.Errorf("operations: %v", shown["Operations"])
	}
	for i, row := range shown["Age of replays"] {
		if want := map[bool]int64{true: 30}[i == 5]; row["replays"] != want {
			t.Errorf("ages: %v, want %d", row, want)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		rows, err := conn.Query(t.Context(), v.query(t))
		if err != nil {
			t.Fatal(err)
		}
		if choices, err := pgx.CollectRows(rows, pgx.RowToMap); err != nil || len(choices) != 2 {
			t.Errorf("the tenants to choose from: %v, %v", choices, err)
		}
	}
}

// Grafana's role may change nothing, and see no record, credential or secret.
func TestGrafanasRoleSeesFiguresAlone(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	conn := asked(t, pool)
	for _, sql := range []string{
		"select secret from tenants", "select * from tenants", "select * from credentials", "select * from idempotency_keys",
		"select * from analytics_events", "select * from policies", "select * from river.river_job", "delete from analytics_minutes", "update usage_days set requests = 0",
		"create table mine (n integer)",
	} {
		_, err := conn.Exec(t.Context(), sql)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
