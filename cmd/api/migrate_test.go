package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

func emptyShell(t *testing.T) shell {
	t.Helper()
	return shell{[]string{"ONCEWARD_DATABASE_URL=" + postgrestest.NewEmpty(t).Config().ConnString()}}
}

// Replicas that start together each run it first.
func TestSeveralThatMigrateAtOnceAllFindTheSchema(t *testing.T) {
	t.Parallel()
	s := emptyShell(t)
	var before, after shownSchema
	s.must(t, &before, "migrate", "status")
	const processes = 4
	outs, errs := make([]bytes.Buffer, processes), make([]error, processes)
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			errs[i] = run(t.Context(), []string{"migrate", "up"}, s.environ, &outs[i], &bytes.Buffer{})
		})
	}
	all.Wait()
	s.must(t, &after, "migrate", "status")
	want := fmt.Sprintf(`{"level":%d,"pending":0,"unknown":0,"jobs":{"level":%d,"pending":0}}`+"\n", after.Level, after.Jobs.Level)
	for i := range processes {
		if errs[i] != nil || outs[i].String() != want {
			t.Errorf("%v, %s, want %s", errs[i], outs[i].String(), want)
		}
	}
	if before.Level != 0 || before.Pending != len(before.Levels) || before.Jobs.Pending != after.Jobs.Level || before.Levels[0].State != "pending" {
		t.Errorf("before: %+v", before)
	}
	last := after.Levels[len(after.Levels)-1]
	if after.Level != last.Level || last.State != "applied" || last.AppliedAt.IsZero() || len(after.Levels) != len(before.Levels) {
		t.Errorf("after: %+v", after)
	}
}

// Asking is no failure unless the script says that it is one.
func TestPendingLevelsFailTheCheckAlone(t *testing.T) {
	t.Parallel()
	s := emptyShell(t)
	if out, failure := s.run(t, "migrate", "status"); failure != "" || !strings.Contains(out, `"state":"pending"`) {
		t.Errorf("%s, %s", out, failure)
	}
	if out, failure := s.run(t, "tenant", "list"); out != "" || !strings.Contains(failure, "the schema is too old for this version") {
		t.Errorf("without a schema: %s, %s", out, failure)
	}
	if out, failure := s.run(t, "migrate", "status", "-check"); !strings.Contains(failure, "levels are pending: run api migrate up") || !strings.Contains(out, `"level":0`) {
		t.Errorf("%s, %s", out, failure)
	}
	var done shownSchema
	s.must(t, &done, "migrate", "up")
	s.must(t, &done, "migrate", "status", "-check")
}

func TestALevelIsTakenBackByItsNumberAndComesAgain(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var at, down, up shownSchema
	s.must(t, &at, "migrate", "status")
	last := at.Levels[len(at.Levels)-1]
	for _, args := range [][]string{{"migrate", "down"}, {"migrate", "down", "-level", fmt.Sprint(last.Level - 1)}, {"migrate", "down", fmt.Sprint(last.Level)}} {
		out, failure := s.run(t, args...)
		if failure == "" || out != "" {
			t.Errorf("%v: %s", args, out)
		}
		if len(args) == 2 && (!strings.Contains(failure, last.Loses) || !strings.Contains(failure, fmt.Sprintf("-level %d", last.Level))) {
			t.Errorf("%v: %s, want what is lost and how to mean it", args, failure)
		}
	}
	s.must(t, &down, "migrate", "down", "-level", fmt.Sprint(last.Level))
	if down.TakenBack == nil || down.TakenBack.Level != last.Level || down.TakenBack.Loses != last.Loses || !down.TakenBack.AppliedAt.IsZero() || down.Level >= last.Level || down.Pending != 1 {
		t.Errorf("%+v", down)
	}
	s.must(t, &up, "migrate", "up")
	if up.Level != last.Level || up.Pending != 0 {
		t.Errorf("%+v", up)
	}
	if _, failure := s.run(t, "migrate"); failure != "api migrate needs one more word: up, status, down; api help shows what they do" {
		t.Errorf("migrate alone: %s", failure)
	}
}
