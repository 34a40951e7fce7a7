//go:build unix

package deploy

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

func promQL() parser.Parser { return parser.NewParser(parser.Options{}) }

// rules are the groups as Prometheus reads them at its start.
func rules(t *testing.T) []rulefmt.RuleGroup {
	t.Helper()
	groups, errs := rulefmt.Parse(read(t, deployed, "prometheus", "rules.yaml"), false, model.UTF8Validation, promQL(), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	return groups.Groups
}

func TestEveryAlertSaysHowBadItIsAndWhatToDo(t *testing.T) {
	t.Parallel()
	alerts := []string{}
	headings := headingsOf(t, "docs/operations.md")
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			alerts = append(alerts, r.Alert)
			if severity := r.Labels["severity"]; severity != "page" && severity != "ticket" {
				t.Errorf("%s has the severity %q", r.Alert, severity)
			}
			if r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("%s has no summary or no action", r.Alert)
			}
			if _, heading, _ := strings.Cut(r.Annotations["runbook"], "docs/operations.md#"); heading == "" || !headings[heading] {
				t.Errorf("%s has the runbook %q, which docs/operations.md has not", r.Alert, r.Annotations["runbook"])
			}
			delete(headings, strings.ToLower(r.Alert))
		}
	}
	for _, want := range []string{
		"OncewardErrorBudgetBurnsFast", "OncewardQueueFull", "OncewardPruneBacklog", "OncewardJobLate", "OncewardLateCompletions", "OncewardReplicaLag",
		"OncewardClockStepped", "OncewardDiskFull",
	} {
		if !slices.Contains(alerts, want) {
			t.Errorf("there is no alert %s", want)
		}
	}
	for heading := range headings {
		if strings.HasPrefix(heading, "onceward") {
			t.Errorf("docs/operations.md tells of %s, which is no alert", heading)
		}
	}
}

// headingsOf are the fragments by which a document's headings are linked to.
func headingsOf(t *testing.T, document string) map[string]bool {
	t.Helper()
	fragments := map[string]bool{}
	for line := range strings.Lines(string(read(t, root, document))) {
		if marks, title, ok := strings.Cut(strings.TrimSpace(line), " "); ok && marks != "" && strings.Trim(marks, "#") == "" {
			fragments[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = true
		}
	}
	return fragments
}

// history is what Prometheus has scraped: a sample of each series a minute,
// from minute 0, in the notation of Prometheus' own tests ("0+60x10").
type history struct {
	series map[string]*recorded
}

type recorded struct {
	labels  labels.Labels
	samples []chunks.Sample
}

type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

func minute(n int) int64 { return int64(n) * time.Minute.Milliseconds() }

func scraped(t *testing.T, descriptions ...string) *history {
	t.Helper()
	h := &history{series: map[string]*recorded{}}
	for _, description := range descriptions {
		name, values, err := promQL().ParseSeriesDesc(description)
		if err != nil {
			t.Fatalf("%s: %v", description, err)
		}
		for i, v := range values {
			if !v.Omitted {
				h.add(name, minute(i), v.Value)
			}
		}
	}
	return h
}

func (h *history) add(name labels.Labels, at int64, value float64) {
	s := h.series[name.String()]
	if s == nil {
		s = &recorded{labels: name}
		h.series[name.String()] = s
	}
	s.samples = append(s.samples, sample{at, value})
}

// found is a storage.SeriesSet.
type found struct {
	all []storage.Series
	at  int
}

func (f *found) Next() bool                        { f.at++; return f.at <= len(f.all) }
func (f *found) At() storage.Series                { return f.all[f.at-1] }
func (f *found) Err() error                        { return nil }
func (f *found) Warnings() annotations.Annotations { return nil }

func (h *history) storage() storage.Queryable {
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			set := &found{}
			for _, name := range slices.Sorted(maps.Keys(h.series)) {
				s := h.series[name]
				if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
					set.all = append(set.all, storage.NewListSeries(s.labels, s.samples))
				}
			}
			return set
		},
	}}
}

// query is the result of an expression at a minute.
func (h *history) query(t *testing.T, engine *promql.Engine, expression string, at int) promql.Vector {
	t.Helper()
	q, err := engine.NewInstantQuery(t.Context(), h.storage(), nil, expression, time.UnixMilli(minute(at)))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return slices.Clone(vector)
}

// firing runs all rules once a minute, as Prometheus does, and tells in which
// minutes the alert fired, as "from-to" of its first spell, and for which labels.
func (h *history) firing(t *testing.T, alert string, minutes int) string {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL()})
	groups := rules(t)
	since := map[string]int{} // pending, by labels
	spells := map[string][2]int{}
	for at := range minutes + 1 {
		for _, group := range groups {
			for _, r := range group.Rules {
				if r.Alert != "" && r.Alert != alert {
					continue
				}
				vector := h.query(t, engine, r.Expr, at)
				if r.Record != "" {
					for _, s := range vector {
						h.add(labels.NewBuilder(s.Metric).Set(model.MetricNameLabel, r.Record).Labels(), minute(at), s.F)
					}
					continue
				}
				active := map[string]bool{}
				for _, s := range vector {
					if math.IsNaN(s.F) {
						t.Errorf("%s is not a number", alert)
					}
					name := labels.NewBuilder(s.Metric).Del(model.MetricNameLabel).Labels().String()
					active[name] = true
					if _, ok := since[name]; !ok {
						since[name] = at
					}
					if time.Duration(at-since[name])*time.Minute >= time.Duration(r.For) {
						spell, ok := spells[name]
						if !ok {
							spell[0] = at
						}
						spells[name] = [2]int{spell[0], at}
					}
				}
				maps.DeleteFunc(since, func(name string, _ int) bool { return !active[name] })
			}
		}
	}
	lines := []string{}
	for _, name := range slices.Sorted(maps.Keys(spells)) {
		lines = append(lines, fmt.Sprintf("%s %d-%d", name, spells[name][0], spells[name][1]))
	}
	return strings.Join(lines, "\n")
}

// Each alert has a case at least.
func TestAlertsFireWhenTheyShouldAndNotBefore(t *testing.T) {
	t.Parallel()
	untried := map[string]bool{}
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			if r.Alert != "" {
				untried[r.Alert] = true
			}
		}
	}
	const (
		answered = `onceward_http_requests_total{class="2xx",instance="a"} `
		failed   = `onceward_http_requests_total{class="5xx",instance="a"} `
		jobAge   = `onceward_job_last_success_age_seconds{kind="prune",instance="w1"} `
	)
	for _, c := range []struct {
		name, alert string
		minutes     int
		series      []string
		want        string
	}{
		{
			"one in a thousand fails: what the objective allows", "OncewardErrorBudgetBurnsFast", 90,
			[]string{answered + "0+999x90", failed + "0+1x90"},
			"",
		},
		{
			"two in a hundred fail from minute 60", "OncewardErrorBudgetBurnsFast", 150,
			// The hour's ratio passes 1.44 % after 44 minutes; 2 more are waited for.
			[]string{answered + "0+1000x60 60980+980x90", failed + "0+0x60 20+20x90"},
			"{} 106-150",
		},
		{
			"half a minute's outage", "OncewardErrorBudgetBurnsFast", 120,
			[]string{answered + "0+1000x60 60500+1000x60", failed + "0+0x60 500+0x60"},
			"",
		},
		{
			"ten minutes' outage: the alert goes with it, though the hour is still bad", "OncewardErrorBudgetBurnsFast", 120,
			[]string{answered + "0+1000x60 60000+0x9 61000+1000x50", failed + "0+0x60 1000+1000x9 10000x50"},
			"{} 63-73",
		},
		{
			"one in a hundred fails for hours", "OncewardErrorBudgetBurns", 60,
			[]string{answered + "0+990x60", failed + "0+10x60"},
			"{} 16-60",
		},
		{
			"calls are turned away from minute 10 to 20", "OncewardQueueFull", 40,
			[]string{
				`onceward_queue_refused_total{kind="begin",instance="a",job="api"} 0x10 5+5x9 50x20`,
				`onceward_queue_refused_total{kind="lease",instance="a",job="api"} 0x40`,
				`onceward_queue_length{kind="begin",instance="a",job="api"} 0x40`,
				`onceward_queue_limit{instance="a",job="api"} 8192x40`,
			},
			`{kind="begin"} 13-23`,
		},
		{
			"a queue is nearly full at one of two", "OncewardQueueFull", 10,
			[]string{
				`onceward_queue_length{kind="complete",instance="a",job="api"} 100x10`,
				`onceward_queue_length{kind="complete",instance="b",job="api"} 7000x10`,
				`onceward_queue_limit{instance="a",job="api"} 8192x10`,
				`onceward_queue_limit{instance="b",job="api"} 8192x10`,
			},
			`{kind="complete"} 2-10`,
		},
		{
			"the clock jumps at minute 10, one of two processes doubts it for a minute, a worker sees nothing", "OncewardClockStepped", 30,
			[]string{
				`onceward_database_clock_steps_total{job="api",instance="a"} 0x9 1x20`,
				`onceward_database_clock_steps_total{job="api",instance="b"} 0x30`,
				`onceward_database_clock_steps_total{job="worker",instance="w"} 0x30`,
				`onceward_database_clock_doubtful{job="api",instance="a"} 0x9 1 0x19`,
				`onceward_database_clock_doubtful{job="api",instance="b"} 0x30`,
				`onceward_database_clock_doubtful{job="worker",instance="w"} 0x30`,
			},
			`{job="api"} 10-18`,
		},
		{
			"a process that began in doubt: its count has no jump to show", "OncewardClockStepped", 10,
			[]string{`onceward_database_clock_steps_total{job="api",instance="a"} 1x10`, `onceward_database_clock_doubtful{job="api",instance="a"} 1x4 0x5`},
			`{job="api"} 0-4`,
		},
		{
			"one statement finds no disk, others fail otherwise", "OncewardDiskFull", 20,
			[]string{`onceward_store_errors_total{kind="disk_full",instance="a"} 0x5 1x14`, `onceward_store_errors_total{kind="connection",instance="a"} 0+9x20`},
			`{} 6-9`,
		},
		{"statements fail, one in two seconds is borne", "OncewardStoreErrors", 20, []string{
			`onceward_store_errors_total{kind="connection",instance="a"} 0+60x20`, `onceward_store_errors_total{kind="data",instance="a"} 0+30x20`,
		}, `{kind="connection"} 8-20`},
		{"work waits for connections", "OncewardPoolExhausted", 12, []string{
			`onceward_pool_wait_seconds_total{job="api",instance="a"} 0+120x12`, `onceward_pool_connections{state="idle",job="api",instance="a"} 0x12`,
			`onceward_pool_wait_seconds_total{job="api",instance="b"} 0+120x12`, `onceward_pool_connections{state="idle",job="api",instance="b"} 3x12`,
		}, `{instance="a", job="api"} 8-12`},
		{"one record is corrupt", "OncewardCorruptRecord", 8, []string{`onceward_corrupt_records_total{instance="a"} 0x5 1x2`}, "{} 6-8"},
		{"an outcome is lost", "OncewardAnalyticsLost", 8, []string{`onceward_analytics_lost_total{instance="a"} 0x5 1x2`}, "{} 6-8"},
		{"counts pile up", "OncewardRollUpBacklog", 30, []string{`onceward_analytics_pending_rows{instance="w1"} 0+400000x30`}, "{} 28-30"},
		{"no exporter sees the database", "OncewardDatabaseUnwatched", 12, []string{`pg_up{instance="p"} 1x2 0x9`}, "{} 8-12"},
		{
			"a job is late, though one worker remembers an older success", "OncewardJobLate", 200,
			[]string{jobAge + "0+60x200", `onceward_job_last_success_age_seconds{kind="prune",instance="w2"} 100000x20 0+60x180`},
			`{kind="prune"} 177-200`,
		},
		{
			"an hourly job that keeps its time", "OncewardJobLate", 180,
			[]string{jobAge + "0+60x59 0+60x59 0+60x59"},
			"",
		},
		{
			"one late completion", "OncewardLateCompletions", 40,
			[]string{`onceward_late_completions_total{instance="a"} 0x10 1x30`},
			"{} 11-24",
		},
		{
			"a backlog that the next run takes away", "OncewardPruneBacklog", 180,
			[]string{`onceward_expired_records_left{instance="w1"} 3000000x60 0x120`},
			"",
		},
		{
			"a backlog that grows", "OncewardPruneBacklog", 180,
			[]string{`onceward_expired_records_left{instance="w1"} 1100000x60 2200000x60 3300000x60`},
			"{} 90-180",
		},
		{
			"a replica falls behind, the primary has no lag", "OncewardReplicaLag", 20,
			[]string{
				`pg_replication_lag_seconds{instance="r1"} 0+60x20`, `pg_replication_is_replica{instance="r1"} 1x20`,
				`pg_replication_lag_seconds{instance="p"} 900x20`, `pg_replication_is_replica{instance="p"} 0x20`,
			},
			`{instance="r1"} 7-20`,
		},
		{"no API is there", "OncewardAPIMissing", 10, []string{`onceward_begins_total{outcome="acquired"} 1x2`}, "{} 10-10"},
		{"no worker is there", "OncewardWorkerMissing", 12, nil, `{kind="roll_up"} 10-12`},
	} {
		delete(untried, c.alert)
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(scraped(t, c.series...).firing(t, c.alert, c.minutes), c.want); diff != "" {
				t.Errorf("%s (-got +want):\n%s", c.alert, diff)
			}
		})
	}
	for alert := range untried {
		t.Errorf("no case says when %s fires", alert)
	}
}
