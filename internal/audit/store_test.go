package audit

import (
	"crypto/rand"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

func by(name string) Actor {
	return Actor{Kind: ActorCredential, Name: name, Role: "admin", RequestID: "R", Address: "192.0.2.1"}
}

func add(t *testing.T, log *Log, entries ...Entry) {
	t.Helper()
	for _, e := range entries {
		if err := log.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func list(t *testing.T, log *Log, tenant uuid.UUID, f Filter) []Record {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = MaxPage
	}
	records, _, err := log.List(t.Context(), tenant, f)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	log, tenant := NewLog(postgrestest.New(t)), uuid.New()
	add(t, log,
		Entry{Tenant: tenant, Actor: by("abc"), Action: "thing.change", Object: Object{"thing", "7"}, Reason: "because", Before: map[string]int{"n": 1}, After: map[string]int{"n": 2}},
		Entry{Tenant: tenant, Action: "thing.look", Object: Object{Kind: "thing"}}) // by nobody: on the machine itself
	want := []Record{
		{Actor: Local(), Action: "thing.look", Object: Object{Kind: "thing"}},
		{Actor: by("abc"), Action: "thing.change", Object: Object{"thing", "7"}, Reason: "because", Before: []byte(`{"n": 1}`), After: []byte(`{"n": 2}`)},
	}
	got := list(t, log, tenant, Filter{})
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(Record{}, "ID", "At")); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	for _, r := range got {
		if r.ID == 0 || time.Since(r.At).Abs() > time.Minute {
			t.Errorf("%d at %v", r.ID, r.At)
		}
	}
	if err := log.Add(t.Context(), Entry{Tenant: tenant, Action: "No Form", Object: Object{Kind: "thing"}}); err == nil {
		t.Error("an action of another form is taken")
	}
}

func TestAFilterNarrowsAndPagesMeetWithoutAGap(t *testing.T) {
	t.Parallel()
	log, tenant := NewLog(postgrestest.New(t)), uuid.New()
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		add(t, log,
			Entry{Tenant: tenant, Actor: by("a"), Action: "thing.make", Object: Object{"thing", id}},
			Entry{Tenant: tenant, Actor: by("b"), Action: "thing.drop", Object: Object{"thing", id}})
	}
	all := list(t, log, tenant, Filter{})
	for name, tt := range map[string]struct {
		filter Filter
		want   int
	}{
		"all": {Filter{}, 10}, "an action": {Filter{Action: "thing.make"}, 5}, "an actor": {Filter{Actor: "b"}, 5}, "an object": {Filter{ObjectID: "3"}, 2},
		"together": {Filter{Actor: "b", Action: "thing.drop", ObjectID: "3"}, 1}, "nobody": {Filter{Actor: "c"}, 0},
		"since inclusive": {Filter{Since: all[0].At}, 1}, "until exclusive": {Filter{Until: all[9].At}, 0},
	} {
		if got := list(t, log, tenant, tt.filter); len(got) != tt.want {
			t.Errorf("%s: %d records, want %d", name, len(got), tt.want)
		}
	}
	var seen []int64
	for f := (Filter{Limit: 3}); ; {
		page, more, err := log.List(t.Context(), tenant, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			seen = append(seen, r.ID)
		}
		if !more {
			break
		}
		f.Before = page[len(page)-1].ID
	}
	var want []int64
	for _, r := range all {
		want = append(want, r.ID)
	}
	if diff := cmp.Diff(seen, want); diff != "" {
		t.Errorf("the pages together (-got +want):\n%s", diff)
	}
}

// TestAStrangerReadsNothing calls every exported method of the store as another
// tenant. A new method fails it until it has its line here.
func TestAStrangerReadsNothing(t *testing.T) {
	t.Parallel()
	log, tenant := NewLog(postgrestest.New(t)), uuid.New()
	add(t, log, Entry{Tenant: tenant, Actor: by("a"), Action: "thing.make", Object: Object{"thing", "1"}})
	id := list(t, log, tenant, Filter{})[0].ID
	calls := map[string]func(){
		"List": func() {
			for _, f := range []Filter{{}, {ObjectID: "1"}, {Actor: "a"}, {Before: id + 1}} {
				if got := list(t, log, uuid.New(), f); len(got) != 0 {
					t.Errorf("%+v shows %+v", f, got)
				}
			}
		},
	}
	for method := range reflect.TypeFor[*store]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("%s is not called as a stranger", method.Name)
			continue
		}
		call()
	}
}

// The application's own role may add to the trail and read it, and no more;
// everywhere else it may work, the schema of the jobs included.
func TestTheApplicationsRoleMayOnlyInsertIntoAndReadTheTrail(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	run := func(statement string) error {
		_, err := conn.Exec(t.Context(), statement)
		return err
	}
	must := func(statement string) {
		t.Helper()
		if err := run(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	tenant := uuid.New()
	role := "app_" + strings.ToLower(rand.Text())
	must("begin") // a role belongs to the whole server: it is rolled back
	must("create role " + role)
	must("select onceward_grant('" + role + "')")
	must("create table made_later ()")
	must("set local role " + role)
	if err := Write(t.Context(), conn, Entry{Tenant: tenant, Actor: by("a"), Action: "thing.make", Object: Object{"thing", "1"}}); err != nil {
		t.Fatal(err)
	}
	var entries int
	if err := conn.QueryRow(t.Context(), "select count(*) from audit where tenant_id = $1", tenant).Scan(&entries); err != nil || entries != 1 {
		t.Errorf("it reads %d entries, %v", entries, err)
	}
	must("update tenants set name = name")
	must("delete from made_later")
	must("select nextval('river.river_job_id_seq')")
	must("delete from river.river_job")
	for _, statement := range []string{"update audit set actor = 'x'", "delete from audit", "truncate audit", "drop table audit", "alter table audit disable trigger all"} {
		must("savepoint s")
		err := run(statement)
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "42501" {
			t.Errorf("%s: %v, want permission denied", statement, err)
		}
		must("rollback to s")
	}
	// A tenant that is not being deleted keeps its trail.
	var gone int
	if err := conn.QueryRow(t.Context(), "select audit_forget($1, 100)", tenant).Scan(&gone); err != nil || gone != 0 {
		t.Errorf("%d entries went, %v", gone, err)
	}
	must("rollback")
}
