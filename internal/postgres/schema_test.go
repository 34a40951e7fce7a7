//go:build unix

package postgres_test

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/migrations"
)

// upTo are the migrations up to a level.
func upTo(t *testing.T, level int64) fstest.MapFS {
	t.Helper()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range names {
		text, err := migrations.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if name[:5] <= fmt.Sprintf("%05d", level) {
			files[name] = sqlFile(string(text))
		}
	}
	return files
}

func readSchema(t *testing.T, pool *pgxpool.Pool, files fs.FS) postgres.Schema {
	t.Helper()
	s, err := postgres.ReadSchemaFS(t.Context(), pool, files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each level leaves, when it is taken back, what was there before it, to the
// last column, comment and setting; and all of it comes again.
func TestALevelThatIsTakenBackLeavesWhatWasThereBeforeIt(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	before := map[int64][]string{}
	var catalog []string
	for _, level := range readSchema(t, pool, migrations.FS).Levels {
		before[level.Number] = catalog
		if err := postgres.MigrateFS(t.Context(), pool, quiet, upTo(t, level.Number)); err != nil {
			t.Fatal(err)
		}
		catalog = catalogOf(t, pool)
	}
	whole := catalog
	taken := 0
	for s := readSchema(t, pool, migrations.FS); ; s = readSchema(t, pool, migrations.FS) {
		current := s.Current()
		level := s.Levels[slices.IndexFunc(s.Levels, func(l postgres.Level) bool { return l.Number == current })]
		if level.Stays != "" {
			if _, err := postgres.TakeBack(t.Context(), pool, quiet, current); err == nil || !strings.Contains(err.Error(), "cannot be taken back: "+level.Stays) {
				t.Errorf("%v: %v", level, err)
			}
			break
		}
		if _, err := postgres.TakeBack(t.Context(), pool, quiet, current); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(catalogOf(t, pool), before[current]); diff != "" {
			t.Errorf("what is there after %v was taken back (-got +want):\n%s", level, diff)
		}
		taken++
	}
	if taken < 10 {
		t.Errorf("only %d levels can be taken back", taken)
	}
	if err := postgres.MigrateFS(t.Context(), pool, quiet, migrations.FS); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(catalogOf(t, pool), whole); diff != "" {
		t.Errorf("what the second time made (-got +first time):\n%s", diff)
	}
	assertLockFree(t, pool)
}

func TestOnlyTheLastLevelIsTakenBackAndOnlyByItsNumber(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	files := fstest.MapFS{
		"00001_things.sql": sqlFile("-- +goose Up\ncreate table things (id int);\n-- +goose Down\n-- stays: everything hangs from it\ndrop table things;\n"),
		"00005_colour.sql": sqlFile("-- +goose Up\nalter table things add column colour text;\n-- +goose Down\n-- loses: all colours\nalter table things drop column colour;\n"),
	}
	takeBack := func(level int64, want string) {
		t.Helper()
		_, err := postgres.TakeBackFS(t.Context(), pool, quiet, files, level)
		if fmt.Sprint(err) != want {
			t.Errorf("%d: %v, want %s", level, err, want)
		}
		assertLockFree(t, pool)
	}
	takeBack(5, "no level is applied: there is nothing to take back")
	if err := postgres.MigrateFS(t.Context(), pool, quiet, files); err != nil {
		t.Fatal(err)
	}
	takeBack(0, "level 5 (colour) would be taken back, which loses all colours: if that is meant, say -level 5")
	takeBack(1, "-level is 1, and the one that can be taken back is level 5 (colour): nothing was done")
	takeBack(50, "-level is 50, and the one that can be taken back is level 5 (colour): nothing was done")
	if s := readSchema(t, pool, files); s.Current() != 5 {
		t.Fatalf("level %d, want 5: something was done", s.Current())
	}
	takeBack(5, "<nil>")
	if s := readSchema(t, pool, files); s.Current() != 1 || !slices.Equal(s.Pending(), []int64{5}) {
		t.Errorf("after it: %+v", s)
	}
	takeBack(1, "level 1 (things) cannot be taken back: everything hangs from it")

	files["00007_shape.sql"] = sqlFile("-- +goose Up\nalter table things add column shape text;\n")
	if err := postgres.MigrateFS(t.Context(), pool, quiet, files); err != nil {
		t.Fatal(err)
	}
	takeBack(7, "level 7 (shape) cannot be taken back: nothing says how")
	delete(files, "00007_shape.sql")
	takeBack(7, "level 7 cannot be taken back: this version does not know it")
	if s := readSchema(t, pool, files); !slices.Equal(s.Unknown(), []int64{7}) || s.Current() != 7 || len(s.Pending()) != 0 {
		t.Errorf("a database that is ahead: %+v", s)
	}
}

// Two that take the same level back take back one level.
func TestTwoThatTakeALevelBackTakeBackOne(t *testing.T) {
	t.Parallel()
	admin := postgrestest.New(t)
	last := readSchema(t, admin, migrations.FS).Current()
	errs := make(chan error, 2)
	for range 2 {
		pool := poolOf(t, admin, nil)
		go func() {
			_, err := postgres.TakeBack(t.Context(), pool, quiet, last)
			errs <- err
		}()
	}
	first, second := <-errs, <-errs
	if (first == nil) == (second == nil) {
		t.Errorf("%v and %v: want one to do it, and one to be told", first, second)
	}
	if s := readSchema(t, admin, migrations.FS); len(s.Pending()) != 1 {
		t.Errorf("%v are pending, want the last one alone", s.Pending())
	}
}

func TestTheSchemaSaysWhenEachLevelCameAndWhatItWouldLose(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	s, err := postgres.ReadSchema(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for i, level := range s.Levels {
		if level.Name == "" || (level.Loses == "") == (level.Stays == "") || strings.Contains(level.Stays, "its file") || level.AppliedAt.IsZero() || level.AppliedAt.Location() != time.UTC {
			t.Errorf("%+v: its file says in the line after -- +goose Down what taking it back loses, or why it stays", level)
		}
		if i > 0 && level.Number <= s.Levels[i-1].Number {
			t.Errorf("%v after %v", level, s.Levels[i-1])
		}
	}
	if want, err := postgres.RiverVersion(); err != nil || s.RiverLevel != want || s.RiverPending != 0 || len(s.Pending())+len(s.Unknown()) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	empty, err := postgres.ReadSchema(t.Context(), postgrestest.NewEmpty(t))
	if err != nil || empty.Current() != 0 || len(empty.Pending()) != len(s.Levels) || empty.RiverLevel != 0 || empty.RiverPending != s.RiverLevel {
		t.Errorf("an empty database: %+v, %v", empty, err)
	}
}

// takesAway finds what a process of the version before could not live with.
var takesAway = regexp.MustCompile(`\b(drop|rename|truncate|type|not null)\b`)

// What the version before still meets may only add to what it knows, or says
// which version has left off using what is taken away.
func TestLevelsThatTheVersionBeforeMeetsOnlyAdd(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := migrations.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		if name <= fmt.Sprintf("%05d~", postgres.OldestLevel) || strings.Contains(up, "\n-- unused since ") {
			continue
		}
		for statement := range strings.SplitAfterSeq(up, ";") {
			if fault := takesAwayIn(statement); fault != "" {
				t.Errorf("%s: %q takes something away: add first, and take away one version later with a line \"-- unused since <version>: <what>\" (docs/decisions/schema-compatibility.md)", name, fault)
			}
		}
	}
	for statement, want := range map[string]bool{
		"create table t (id uuid not null);": false, "alter table t add column a text;": false, "alter table t add column a int not null default 0;": false,
		"comment on table t is 'drop';": false, "create unlogged table t (id int);": false,
		"drop table t;": true, "alter table t drop column a;": true, "alter table t rename to u;": true, "alter table t alter column a set not null;": true,
		"alter table t alter column a type text;": true, "alter table t add column a int not null;": true, "truncate t;": true,
	} {
		if got := takesAwayIn(statement) != ""; got != want {
			t.Errorf("%s: %v, want %v", statement, got, want)
		}
	}
}

func takesAwayIn(statement string) string {
	var lines []string
	for line := range strings.Lines(statement) {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	sql := strings.ToLower(strings.TrimSpace(strings.Join(lines, " ")))
	if strings.HasPrefix(sql, "create") || strings.HasPrefix(sql, "comment") ||
		strings.Contains(sql, "add column") && strings.Contains(sql, " default ") && !strings.Contains(sql, "drop") {
		return ""
	}
	return takesAway.FindString(sql)
}

// catalogOf is what defines the schema of a database, in no order of making.
func catalogOf(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return queryAll[string](t, pool, `
		select said from (
			select format('column %s.%s %s not null %s default %s identity %s collation %s comment %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
				a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity, a.attcollation::regcollation, col_description(c.oid, a.attnum)) as said, c.relnamespace as schema
			from pg_attribute a join pg_class c on c.oid = a.attrelid
			left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
			where a.attnum > 0 and not a.attisdropped and c.relkind in ('r', 'p')
			union all
			select format('relation %s %s %s options %s comment %s', c.relname, c.relkind, c.relpersistence, c.reloptions, obj_description(c.oid, 'pg_class')), c.relnamespace from pg_class c
			union all
			select format('toast of %s options %s', c.relname, t.reloptions), c.relnamespace from pg_class c join pg_class t on t.oid = c.reltoastrelid where t.reloptions is not null
			union all
			select format('constraint %s of %s: %s', o.conname, o.conrelid::regclass, pg_get_constraintdef(o.oid)), o.connamespace from pg_constraint o
			union all
			select indexdef, schemaname::regnamespace from pg_indexes
			union all
			select pg_get_functiondef(p.oid), p.pronamespace from pg_proc p where p.prokind = 'f' and p.pronamespace = 'public'::regnamespace
			union all
			select format('type %s', y.typname), y.typnamespace from pg_type y where y.typtype in ('d', 'e')
		) o
		where schema = 'public'::regnamespace and said !~ 'goose_db_version'
		order by said`)
}
