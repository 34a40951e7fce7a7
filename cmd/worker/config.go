package main

import (
	"errors"
	"io"
	"time"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/settings"
	"github.com/onceward/onceward/internal/telemetry"
)

// config is what the environment says. The help of each field, its meaning and
// what zero does, is what `worker help` prints; an empty variable counts as one
// that is not set.
type config struct {
	settings.Database
	DBMaxConns connections     `env:"ONCEWARD_WORKER_DB_MAX_CONNS" envDefault:"8" unit:"connections" help:"most database connections of this process, at least 4"`
	PollOnly   settings.Switch `env:"ONCEWARD_WORKER_POLL_ONLY" envDefault:"false" unit:"true or false" help:"look for jobs every second instead of listening, for a database behind a pooler in transaction mode: true or false"`

	ListenAddr settings.ListenAddr `env:"ONCEWARD_WORKER_LISTEN_ADDR" envDefault:"127.0.0.1:8082" unit:"host:port" help:"host:port of /healthz, /readyz and /metrics, which no customer may reach; port 0 takes a free one"`
	AddrFile   string              `env:"ONCEWARD_WORKER_ADDR_FILE" unit:"path" help:"file to which the real address is written as {\"ops_url\"} once it answers, and which is removed at the end; unset writes none"`

	PruneBatch pruneBatch `env:"ONCEWARD_PRUNE_BATCH" envDefault:"5000" unit:"records" help:"most records that one statement prunes, 100 to 50000"`
	PrunePause prunePause `env:"ONCEWARD_PRUNE_PAUSE" envDefault:"100ms" unit:"duration" help:"least pause after a full batch, with its unit, up to 1m; a batch that took long is followed by five times as long a rest; 0s prunes without any and is felt by callers"`

	LogLevel settings.LogLevel `env:"ONCEWARD_LOG_LEVEL" envDefault:"info" unit:"word" help:"debug, info, warn or error; the log goes to standard error as JSON lines"`

	telemetry.Environment
	targets telemetry.Targets // that it names
}

const (
	fewestConns = 4 // jobs of each queue, the leader, and listening
	mostConns   = 10_000
	longestRest = time.Minute
	leastBatch  = 100
	mostBatch   = 50_000
)

type connections int32

// UnmarshalText reads a whole number from fewestConns to mostConns.
func (c *connections) UnmarshalText(text []byte) error {
	n, err := settings.Whole(text, fewestConns, mostConns)
	*c = connections(n) //nolint:gosec // within the range
	return err
}

type pruneBatch int

// UnmarshalText reads a whole number from leastBatch to mostBatch.
func (b *pruneBatch) UnmarshalText(text []byte) error {
	n, err := settings.Whole(text, leastBatch, mostBatch)
	*b = pruneBatch(n)
	return err
}

type prunePause time.Duration

// UnmarshalText reads a duration from 0s to longestRest.
func (p *prunePause) UnmarshalText(text []byte) error {
	d, err := settings.Duration(text, 0, longestRest, "100ms")
	*p = prunePause(d)
	return err
}

// String is how it is written in a variable.
func (p prunePause) String() string { return time.Duration(p).String() }

// loadConfig reads the variables of environ (KEY=value). Its error has one
// sentence for each thing wrong, and never a value that may be secret.
func loadConfig(environ []string) (config, error) {
	var cfg config
	errs := settings.Read(environ, &cfg)
	errs = cfg.Database.Check(errs, postgres.CheckURL)
	var err error
	if cfg.targets, err = cfg.Environment.Targets(); err != nil {
		errs = append(errs, err)
	}
	return cfg, errors.Join(errs...)
}

const usage = `Onceward's worker: prunes expired records and rolls up the analytics of one
PostgreSQL. Any number of workers may run; each job runs once.

Usage:
  worker         work until SIGTERM or SIGINT
  worker config  show what the environment makes of every variable, and end
  worker probe   ask the process that works with this environment whether it lives: ends with 0 or 1
  worker help    show this

Environment:
`

func printHelp(w io.Writer) error {
	if _, err := io.WriteString(w, usage); err != nil {
		return err
	}
	return settings.Help(w, config{})
}
