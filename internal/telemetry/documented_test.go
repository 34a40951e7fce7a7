package telemetry

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// Every metric of ours has its row in docs/telemetry.md, with its labels and the
// help that /metrics shows, and every row its metric.
func TestTheDocumentListsWhatIsExported(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none") // never connected
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	api, worker := NewMetrics(), NewWorkerMetrics()
	api.AllowTenants()
	api.Route("r").Observe(409, "in_progress", 0)
	api.Batches("begin").Observe(0, 1, 0)
	api.WatchStore(1, func() StoreStats { return StoreStats{Queues: []QueueStats{{Kind: "begin"}}} })
	api.WatchCapture(func() CaptureStats { return CaptureStats{} })
	api.WatchClock(func() int64 { return 0 }, func() bool { return false })
	worker.WatchClock(func() int64 { return 0 }, func() bool { return false })
	worker.Job("k", JobDone, 0)
	worker.JobLastSuccess("k", time.Now())
	rows := map[string]string{}
	for name, p := range map[string]*process{"api": &api.process, "worker": &worker.process} {
		p.WatchPool(pool)
		p.StoreErrors("other")
		for row := range rowsOf(t, p.registry) {
			if rows[row] != "" {
				rows[row] = "both"
				continue
			}
			rows[row] = name
		}
	}
	var want []string
	for row, where := range rows {
		want = append(want, strings.Replace(row, "WHERE", where, 1))
	}
	document, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "| `onceward_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("docs/telemetry.md (-got +want):\n%s\nThe rows should be:\n%s", diff, strings.Join(want, "\n"))
	}
}

func rowsOf(t *testing.T, registry *prometheus.Registry) map[string]bool {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "onceward_") {
			continue
		}
		labels := map[string]bool{}
		for _, label := range family.GetMetric()[0].GetLabel() {
			labels["`"+label.GetName()+"`"] = true
		}
		rows[fmt.Sprintf("| `%s` | WHERE | %s | %s |", family.GetName(), strings.Join(slices.Sorted(maps.Keys(labels)), ", "), family.GetHelp())] = true
	}
	return rows
}
