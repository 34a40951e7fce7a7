//go:build unix

package deploy

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/outputtest"
	"github.com/onceward/onceward/test/processtest"
)

// exported is what processes show at /metrics: the values of each label, by the
// name of the series.
type exported map[string]map[string][]string

// beside are series that others export: postgres_exporter (its collectors
// replication and the connection itself), with the labels of their own.
func beside() exported {
	return exported{"pg_replication_lag_seconds": {}, "pg_replication_is_replica": {}, "pg_up": {}}
}

func (e exported) add(t *testing.T, page []byte) {
	t.Helper()
	text := expfmt.NewTextParser(model.UTF8Validation)
	families, err := text.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		names := []string{name}
		if family.GetType() == dto.MetricType_HISTOGRAM {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, name := range names {
			if e[name] == nil {
				e[name] = map[string][]string{}
			}
			for _, m := range family.GetMetric() {
				for _, l := range m.GetLabel() {
					e[name][l.GetName()] = append(e[name][l.GetName()], l.GetValue())
				}
			}
		}
	}
}

// worker starts a worker and returns its operator's address once every job has
// run there.
func worker(t *testing.T, databaseURL string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "addr.json")
	cmd := exec.Command(filepath.Join(processtest.BinFolder(), "worker"))
	cmd.Env = processtest.Environ("ONCEWARD_DATABASE_URL="+databaseURL, "ONCEWARD_WORKER_LISTEN_ADDR=127.0.0.1:0", "ONCEWARD_WORKER_ADDR_FILE="+file)
	log := &outputtest.Buffer{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the worker ended with %v:\n%s", err, log)
		}
	})
	var at struct {
		OpsURL string `json:"ops_url"`
	}
	processtest.Eventually(t, "every job has run", func() bool {
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &at) != nil {
			return false
		}
		status, page := get(t, at.OpsURL+"/readyz")
		return status == http.StatusOK && strings.Contains(page, `"age_seconds":`) && !strings.Contains(page, `"age_seconds":null`)
	})
	return at.OpsURL
}

func get(t *testing.T, url string) (status int, page string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// gather is what an API that has answered and a worker that has worked export.
func gather(t *testing.T) exported {
	t.Helper()
	all := beside()
	w := processtest.New(t)
	p := w.API(t)
	client := p.Client(w.Tenant.Service)
	held := client.Begin(t, apitest.Charge("one-charge")).Acquired(t)
	client.Begin(t, apitest.Charge("one-charge")).Problem(t, http.StatusConflict, "in_progress")
	client.Complete(t, held, processtest.Done("paid"))
	client.Begin(t, apitest.Charge("one-charge")).Replay(t)
	operator := p.OperatorClient()
	defer operator.Close()
	all.add(t, operator.Do(t, http.MethodGet, "/metrics", nil).Expect(t, http.StatusOK).Body)

	_, page := get(t, worker(t, w.Pool.Config().ConnString())+"/metrics")
	all.add(t, []byte(page))
	return all
}

// check holds every series of a PromQL expression against what is exported:
// its name, its labels, and, where a label has few values that are all shown,
// the values.
func (e exported) check(t *testing.T, where, expression string) {
	t.Helper()
	parsed, err := promQL().ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, expression)
		return
	}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		series, ok := e[selector.Name]
		if !ok {
			t.Errorf("%s: nothing exports %s", where, selector.Name)
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if m.Name == model.MetricNameLabel || m.Name == "job" || m.Name == "instance" { // which Prometheus adds
				continue
			}
			values, ok := series[m.Name]
			if !ok {
				t.Errorf("%s: %s has no label %s", where, selector.Name, m.Name)
			}
			if m.Name == "class" || m.Type != labels.MatchEqual && m.Type != labels.MatchRegexp {
				continue // a class is shown once an answer was of it
			}
			for value := range strings.SplitSeq(m.Value, "|") {
				if !slices.Contains(values, value) {
					t.Errorf("%s: no %s has %s=%q, only %q", where, selector.Name, m.Name, value, slices.Compact(slices.Sorted(slices.Values(values))))
				}
			}
		}
		return nil
	})
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		aggregate, ok := node.(*parser.AggregateExpr)
		if !ok || aggregate.Without {
			return nil
		}
		for _, label := range aggregate.Grouping {
			if label != "job" && label != "instance" && !slices.ContainsFunc(slices.Collect(maps.Keys(e)), func(name string) bool {
				_, has := e[name][label]
				return has && strings.Contains(expression, name) || label == "le" && strings.HasSuffix(name, "_bucket")
			}) {
				t.Errorf("%s: nothing that is summed has the label %s", where, label)
			}
		}
		return nil
	})
}

func TestWhatRulesPanelsAndTheChartAskForIsExported(t *testing.T) {
	t.Parallel()
	all := gather(t)
	t.Run("rules", func(t *testing.T) {
		t.Parallel()
		ruledBy(t, maps.Clone(all))
	})
	t.Run("service dashboard", func(t *testing.T) {
		t.Parallel()
		expressions := 0
		for _, p := range dashboardOf(t, "service.json").Panels {
			for _, target := range p.Targets {
				expressions++
				all.check(t, p.Title, strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m").Replace(target.Expr))
			}
		}
		if expressions < 30 {
			t.Errorf("%d expressions: the test looks past them", expressions)
		}
	})
	t.Run("chart", func(t *testing.T) {
		t.Parallel()
		r, err := render(t, everything)
		if err != nil {
			t.Fatal(err)
		}
		for name, scaler := range r.scalers {
			for _, m := range scaler.Spec.Metrics {
				if m.Pods != nil && all[m.Pods.Metric.Name] == nil {
					t.Errorf("%s: nothing exports %s", name, m.Pods.Metric.Name)
				}
			}
		}
	})
}

// ruledBy looks at the rules in their order: a later one may use what an
// earlier one records. Every job has an alert for when it is late.
func ruledBy(t *testing.T, all exported) {
	t.Helper()
	late := map[string]bool{}
	for _, group := range rules(t) {
		for _, r := range group.Rules {
			all.check(t, group.Name+" "+r.Alert+r.Record, r.Expr)
			if r.Record != "" {
				all[r.Record] = map[string][]string{}
			}
			if r.Alert == "OncewardJobLate" {
				for _, m := range regexp.MustCompile(`kind=~?"([^"]+)"`).FindAllStringSubmatch(r.Expr, -1) {
					for kind := range strings.SplitSeq(m[1], "|") {
						late[kind] = true
					}
				}
			}
		}
	}
	for _, kind := range all["onceward_job_last_success_age_seconds"]["kind"] {
		if !late[kind] {
			t.Errorf("nobody is told when the job %s is late", kind)
		}
	}
}
