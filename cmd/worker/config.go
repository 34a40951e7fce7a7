package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/onceward/onceward/internal/telemetry"
)

// config is what the environment says. The help of each field, its meaning and
// what zero does, is what `worker help` prints; an empty variable counts as one
// that is not set.
type config struct {
	DatabaseURL string `env:"ONCEWARD_DATABASE_URL" help:"PostgreSQL 15 or newer, as postgres://user:password@host:port/database; required"`
	DBMaxConns  int32  `env:"ONCEWARD_WORKER_DB_MAX_CONNS" envDefault:"8" help:"most database connections of this process, at least 4"`
	PollOnly    bool   `env:"ONCEWARD_WORKER_POLL_ONLY" envDefault:"false" help:"look for jobs every second instead of listening, for a database behind a pooler in transaction mode: true or false"`

	ListenAddr string `env:"ONCEWARD_WORKER_LISTEN_ADDR" envDefault:"127.0.0.1:8082" help:"host:port of /healthz, /readyz and /metrics, which no customer may reach; port 0 takes a free one"`
	AddrFile   string `env:"ONCEWARD_WORKER_ADDR_FILE" help:"file to which the real address is written as {\"ops_url\"} once it answers, and which is removed at the end; unset writes none"`

	PruneBatch int           `env:"ONCEWARD_PRUNE_BATCH" envDefault:"5000" help:"most records that one statement prunes, 100 to 50000"`
	PrunePause time.Duration `env:"ONCEWARD_PRUNE_PAUSE" envDefault:"100ms" help:"least pause after a full batch, with its unit, up to 1m; a batch that took long is followed by five times as long a rest; 0s prunes without any and is felt by callers"`

	targets telemetry.Targets // of OTEL_*, which docs/telemetry.md lists

	LogLevel slog.Level `env:"ONCEWARD_LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error; the log goes to standard error as JSON lines"`
}

const (
	fewestConns = 4 // jobs of each queue, the leader, and listening
	mostConns   = 10_000
	longestRest = time.Minute
	leastBatch  = 100
	mostBatch   = 50_000
)

// loadConfig reads the variables of environ (KEY=value). Its error has one
// sentence for each thing wrong, and never a value that may be secret.
func loadConfig(environ []string) (config, error) {
	set := env.ToMap(environ)
	for name, value := range set {
		if strings.TrimSpace(value) == "" {
			delete(set, name)
		}
	}
	var cfg config
	errs := sentences(env.ParseWithOptions(&cfg, env.Options{Environment: set}))
	var targetsErr error
	if cfg.targets, targetsErr = telemetry.ReadTargets(set); targetsErr != nil {
		errs = append(errs, targetsErr)
	}
	if len(errs) > 0 { // what could not be read has no range
		return cfg, errors.Join(errs...)
	}
	_, port, splitErr := net.SplitHostPort(cfg.ListenAddr)
	_, portErr := strconv.ParseUint(port, 10, 16)
	for _, check := range []struct {
		wrong bool
		text  string
	}{
		{cfg.DatabaseURL == "", "ONCEWARD_DATABASE_URL is not set: name the database, for example postgres://user@host:5432/onceward"},
		{cfg.DBMaxConns < fewestConns || cfg.DBMaxConns > mostConns, fmt.Sprintf("ONCEWARD_WORKER_DB_MAX_CONNS is %d: give a whole number from %d to %d", cfg.DBMaxConns, fewestConns, mostConns)},
		{splitErr != nil || portErr != nil, fmt.Sprintf("ONCEWARD_WORKER_LISTEN_ADDR is %q: give host:port with a port from 0 to 65535, such as 127.0.0.1:8082", cfg.ListenAddr)},
		{cfg.PruneBatch < leastBatch || cfg.PruneBatch > mostBatch, fmt.Sprintf("ONCEWARD_PRUNE_BATCH is %d: give a whole number from %d to %d", cfg.PruneBatch, leastBatch, mostBatch)},
		{cfg.PrunePause < 0 || cfg.PrunePause > longestRest, fmt.Sprintf("ONCEWARD_PRUNE_PAUSE is %s: give a duration from 0s to %s", cfg.PrunePause, longestRest)},
	} {
		if check.wrong {
			errs = append(errs, errors.New(check.text))
		}
	}
	return cfg, errors.Join(errs...)
}

// sentences says what the library found in terms of variables instead of fields.
func sentences(err error) []error {
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range all.Errors {
		if parse, ok := errors.AsType[env.ParseError](e); ok {
			e = fmt.Errorf("%s cannot be read: worker help says what it takes", variable(parse.Name))
		}
		list = append(list, e)
	}
	return list
}

func variable(field string) string {
	f, _ := reflect.TypeFor[config]().FieldByName(field)
	return f.Tag.Get("env")
}

const usage = `Onceward's worker: prunes expired records and rolls up the analytics of one
PostgreSQL. Any number of workers may run; each job runs once.

Usage:
  worker        work until SIGTERM or SIGINT
  worker probe  ask the process that works with this environment whether it lives: ends with 0 or 1
  worker help   show this

Environment:
`

func printHelp(w io.Writer) error {
	if _, err := io.WriteString(w, usage); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for field := range reflect.TypeFor[config]().Fields() {
		if !field.IsExported() {
			continue
		}
		byDefault := field.Tag.Get("envDefault")
		if byDefault == "" {
			byDefault = "-"
		}
		if _, err := fmt.Fprintf(table, "  %s\t%s\t%s\n", variable(field.Name), byDefault, field.Tag.Get("help")); err != nil {
			return err
		}
	}
	return table.Flush()
}
