//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onceward/onceward/bench/load"
)

// writeReport prints the table, and writes it where the options say.
func (b *bench) writeReport(took time.Duration) error {
	text := b.table(took)
	b.say("\n%s", text)
	if b.opts.report == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(b.opts.report), 0o755); err != nil {
		return err
	}
	return os.WriteFile(b.opts.report, []byte(text), 0o644)
}

// table is the whole report.
func (b *bench) table(took time.Duration) string {
	var out strings.Builder
	b.head(&out, took)
	for _, r := range b.results {
		r.table(&out)
	}
	b.memoryTable(&out)
	b.markTable(&out)
	return out.String()
}

func (b *bench) head(out *strings.Builder, took time.Duration) {
	fmt.Fprintf(out, "# The last full run of `make bench`\n\n")
	fmt.Fprintf(out, "Written by the bench; docs/performance.md says what it means. %s, commit %s, %d CPUs (%s), PostgreSQL %s, %s; load average at the end %s, %s in all.\n\n",
		b.nowFunc().UTC().Format(time.DateOnly), commit(), runtime.NumCPU(), cpuModel(), b.postgres.Version, runtime.Version(), loadAverage(), took.Round(time.Second))
	fmt.Fprintf(out, "In force, as the server shows it: %s.\n\n", b.settings)
	fmt.Fprintf(out, "%d rounds of %d s per leg. The legs of a group run in turn in every round; figures are medians of the rounds, latencies are of all rounds together, "+
		"a ratio is taken within each round and given as median (lowest–highest). Everything shares the CPUs: generator, API, PostgreSQL and whatever else ran. "+
		"Every begin was checked to be acquired once, every record counted in the table.\n", b.opts.pairs, b.opts.seconds)
	for _, sentence := range b.left {
		fmt.Fprintf(out, "%s\n", sentence)
	}
	if b.storedBytes > 0 {
		fmt.Fprintf(out, "A body of %d bytes takes %d in the table.\n", bodyBytes, b.storedBytes)
	}
	if b.prunedRecords > 0 {
		fmt.Fprintf(out, "%d records were pruned meanwhile.\n", b.prunedRecords)
	}
	for _, sql := range b.opts.schema {
		fmt.Fprintf(out, "The schema was changed by `%s`.\n", sql)
	}
	if len(b.opts.environ) > 0 {
		fmt.Fprintf(out, "The API ran with %s.\n", strings.Join(b.opts.environ, " "))
	}
}

func (r result) table(out *strings.Builder) {
	fmt.Fprintf(out, "\n## %s\n\n", strings.ToUpper(r.name[:1])+r.name[1:])
	fmt.Fprintf(out, "| load | connections | a second | p50 ms | p99 ms | p99.9 ms | CPU µs API | PostgreSQL | generator | WAL B | ratio |\n")
	fmt.Fprintf(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, l := range r.legs {
		all := r.measures[l.id()]
		fmt.Fprintf(out, "| %s | %d | %.0f | %s | %s | %s |", l.name, l.conns, median(rates(all)), percentile(all, 50), percentile(all, 99), percentile(all, 99.9))
		var used usage
		var operations, wal int64
		for _, m := range all {
			used, operations, wal = used.plus(m.used), operations+m.operations, wal+m.wal
		}
		if used == (usage{}) { // not a load of ours
			fmt.Fprintf(out, " | | | |")
		} else {
			fmt.Fprintf(out, " %.1f | %.1f | %.1f | %d |", perOperation(used.api, operations), perOperation(used.postgres, operations), perOperation(used.generator, operations), wal/max(operations, 1))
		}
		if l.against == "" {
			fmt.Fprintf(out, " |\n")
			continue
		}
		fmt.Fprintf(out, " %s to %s |\n", newSpread(ratios(all, r.measures[l.against], rateOf)), l.against)
	}
}

func perOperation(d time.Duration, operations int64) float64 {
	return float64(d) / float64(time.Microsecond) / float64(max(operations, 1))
}

// percentile is of all rounds together, of begins and, where there are any, of
// completions.
func percentile(all []measure, p float64) string {
	var texts []string
	for kind := range load.Kinds {
		together := merged(all, kind)
		if together.TotalCount() > 0 {
			texts = append(texts, fmt.Sprintf("%.2f", float64(together.ValueAtPercentile(p))/1000))
		}
	}
	if len(texts) == 0 && p == 50 && len(all) > 0 && all[0].meanMS > 0 {
		means := make([]float64, len(all))
		for i, m := range all {
			means[i] = m.meanMS
		}
		return fmt.Sprintf("mean %.2f", median(means))
	}
	return strings.Join(texts, " / ")
}

func merged(all []measure, kind int) *hdrhistogram.Histogram {
	together := load.NewHistogram()
	for _, m := range all {
		if m.latency[kind] != nil {
			together.Merge(m.latency[kind])
		}
	}
	return together
}

func rateOf(m measure) float64 { return m.rate }

// latencyOf is a percentile of begins in one round, in milliseconds.
func latencyOf(p float64) func(measure) float64 {
	return func(m measure) float64 { return float64(m.latency[kindBegin].ValueAtPercentile(p)) / 1000 }
}

func walOf(m measure) float64 { return float64(m.wal) / float64(max(m.operations, 1)) }

func rates(all []measure) []float64 {
	list := make([]float64, len(all))
	for i, m := range all {
		list[i] = m.rate
	}
	return list
}

// ratios are taken round by round.
func ratios(of, to []measure, metric func(measure) float64) []float64 {
	list := make([]float64, min(len(of), len(to)))
	for i := range list {
		list[i] = metric(of[i]) / metric(to[i])
	}
	return list
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// spread is a median and its range.
type spread struct{ median, lowest, highest float64 }

func newSpread(list []float64) spread {
	if len(list) == 0 {
		return spread{}
	}
	return spread{median(list), slices.Min(list), slices.Max(list)}
}

func (s spread) String() string {
	if s.median >= 100 {
		return fmt.Sprintf("%.0f (%.0f–%.0f)", s.median, s.lowest, s.highest)
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.median, s.lowest, s.highest)
}

func (b *bench) memoryTable(out *strings.Builder) {
	m := b.memory
	if m == nil {
		return
	}
	const mib = 1 << 20
	fmt.Fprintf(out, "\n## Memory\n\nOne API with a full replay cache and %d idle connections: %d MiB resident, %d MiB at the most.\n",
		idleConnections, m.idle/mib, m.highest/mib)
	if m.soaked > 0 {
		fmt.Fprintf(out, "Under %s of load (%d pairs): %d MiB on average in the second quarter, %d MiB in the last.\n",
			m.soaked, m.soakedRecords, m.early/mib, m.late/mib)
	}
}

// fileName makes a name of letters, digits and hyphens.
func fileName(name string) string {
	fields := strings.FieldsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	})
	return strings.Join(fields, "-")
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output() //nolint:noctx // it reads a few files
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // a figure for the reader only
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return cmp.Or(runtime.GOARCH, "unknown")
}
