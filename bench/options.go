//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"time"
)

// options say what is measured and for how long.
type options struct {
	pairs   int // rounds of each comparison
	seconds int // of each leg of a round
	quick   bool
	walGB   int
	records int64 // of the large table; zero leaves it and pruning out
	soak    time.Duration
	only    *regexp.Regexp // names of groups
	report  string         // where the table is written; empty: nowhere
	profile string         // folder for profiles of every load; empty: none
	environ []string       // of the API, beside what the bench sets
	schema  []string       // statements that change the schema before anything is measured
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string { return fmt.Sprint(*l) }

func (l *list) Set(entry string) error {
	*l = append(*l, entry)
	return nil
}

func readOptions(args []string, errs io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.BoolVar(&o.quick, "quick", false, "under two minutes: 2 rounds of 1 second, without telemetry, the large table, pruning and memory")
	flags.IntVar(&o.pairs, "pairs", 5, "rounds of each comparison")
	flags.IntVar(&o.seconds, "seconds", 5, "seconds of each leg of a round")
	flags.IntVar(&o.walGB, "wal", 8, "gigabytes of WAL segments that are made before anything is measured")
	flags.Int64Var(&o.records, "records", 10_000_000, "records of the large table; 0 leaves it and pruning out")
	flags.DurationVar(&o.soak, "soak", 0, "how long to load one API and watch its memory, such as 10m; 0 leaves it out")
	only := flags.String("only", "", "regular expression: the groups to run, of single caller, begin, pair, batch, hot key, replay, open loop, two processes, telemetry, Redis, large table, pruning, memory")
	flags.StringVar(&o.report, "report", "bench/results/latest.md", "file for the table; empty writes none")
	flags.StringVar(&o.profile, "profile", "", "folder for CPU and allocation profiles of the API under every load")
	flags.Var((*list)(&o.environ), "env", "NAME=value for the API; may be repeated")
	flags.Var((*list)(&o.schema), "schema", "statement that tries another schema, such as \"alter table idempotency_keys set (fillfactor = 50)\"; may be repeated")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	set := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if o.quick {
		for name, change := range map[string]func(){
			"pairs": func() { o.pairs = 2 }, "seconds": func() { o.seconds = 1 }, "wal": func() { o.walGB = 1 }, "records": func() { o.records = 0 },
			"report": func() { o.report = "" },
		} {
			if !set[name] {
				change()
			}
		}
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if flags.NArg() > 0 || o.pairs < 1 || o.seconds < 1 || o.walGB < 1 || o.records < 0 {
		return o, errors.New("no arguments are taken, and -pairs, -seconds and -wal are at least 1")
	}
	return o, nil
}
