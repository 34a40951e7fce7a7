//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/onceward/onceward/internal/postgres/devpg"
)

// bench is one run of this program.
type bench struct {
	opts    options
	out     io.Writer
	nowFunc func() time.Time
	unique  int64 // tells the keys of one run of this program from another's

	dir      string // everything that is thrown away
	logDir   string
	api      string // the binary
	pgbench  string
	postgres *devpg.Server
	settings string // of PostgreSQL, as shown

	runs          int // loads so far
	prunedRecords int64
	storedBytes   int // of one body in the table; zero: not looked at
	results       []result
	memory        *remembered // nil: not looked at
	left          []string    // sentences about what was left out
}

func (b *bench) say(format string, args ...any) { _, _ = fmt.Fprintf(b.out, format+"\n", args...) }

func (b *bench) wants(group string) bool { return b.opts.only.MatchString(group) }

func (b *bench) profileName(name string, conns int) string {
	if b.opts.profile == "" {
		return ""
	}
	return fileName(legID(name, conns))
}

// warmup is load before each measured leg.
func (b *bench) warmup() time.Duration {
	return min(time.Second, time.Duration(b.opts.seconds)*time.Second/4)
}

func firstOf(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// run prepares, measures, and reports.
func (b *bench) run(ctx context.Context) (err error) {
	if err := b.prepare(ctx); err != nil {
		return errors.Join(err, b.cleanUp(ctx))
	}
	defer func() { err = errors.Join(err, b.cleanUp(ctx)) }()
	db, err := b.open(ctx, "bench")
	if err != nil {
		return err
	}
	defer db.session.close(ctx)
	if b.settings, err = db.session.checkDurable(ctx); err != nil {
		return err
	}
	b.say("PostgreSQL %s: %s", b.postgres.Version, b.settings)
	if err := db.session.recycle(ctx, b.opts.walGB); err != nil {
		return err
	}
	started := b.nowFunc()
	if err := b.measureAll(ctx, db); err != nil {
		b.say("\n%s", b.table(b.nowFunc().Sub(started))) // what there is of it
		return err
	}
	return b.writeReport(b.nowFunc().Sub(started))
}

func (b *bench) measureAll(ctx context.Context, db *database) error {
	if err := b.compare(ctx, db); err != nil {
		return err
	}
	if err := b.large(ctx, db); err != nil {
		return err
	}
	if b.wants("memory") && !b.opts.quick {
		m, err := b.remember(ctx, db)
		if err != nil {
			return fmt.Errorf("memory: %w", err)
		}
		b.memory = &m
	}
	return nil
}

func (b *bench) prepare(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "onceward-bench-"); err != nil {
		return err
	}
	b.logDir = b.dir
	if inMemory, err := os.MkdirTemp("/dev/shm", "onceward-bench-"); err == nil {
		b.logDir = inMemory
	}
	if b.opts.profile != "" {
		if err := os.MkdirAll(b.opts.profile, 0o755); err != nil {
			return err
		}
	}
	b.say("building the API …")
	if b.api, err = buildAPI(ctx, b.dir, b.opts.profile != ""); err != nil {
		return err
	}
	if err := b.startPostgres(ctx); err != nil {
		return err
	}
	if b.pgbench, err = findPgbench(b.postgres.BinDir); err != nil {
		return err
	}
	return b.writeScripts()
}

func (b *bench) cleanUp(ctx context.Context) error {
	var errs []error
	if b.postgres != nil {
		errs = append(errs, b.postgres.Stop(context.WithoutCancel(ctx)))
	}
	for _, dir := range []string{b.dir, b.logDir} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// add runs a group and keeps what it found, as far as it came.
func (b *bench) add(ctx context.Context, g group) (result, error) {
	r, err := b.runGroup(ctx, g)
	b.results = append(b.results, r)
	return r, err
}

// compare runs what is measured on the database that is empty at first.
func (b *bench) compare(ctx context.Context, db *database) (err error) {
	api, err := b.startAPI(ctx, "one", db)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, api.stop()) }()
	if err := b.compareBegins(ctx, db, api); err != nil {
		return err
	}
	for _, g := range []group{b.pairs(db, api), b.batches(db, api), b.hotKey(db, api)} {
		if !b.wants(g.name) {
			continue
		}
		if _, err := b.add(ctx, g); err != nil {
			return err
		}
		if g.name == "pair" {
			if b.storedBytes, err = db.session.bodyOnDisk(ctx); err != nil {
				return err
			}
		}
	}
	if b.wants("replay") || b.wants("two processes") {
		if err := b.compareWithOther(ctx, db, api); err != nil {
			return err
		}
	}
	if b.wants("telemetry") && !b.opts.quick {
		if err := b.compareTelemetry(ctx, db, api); err != nil {
			return err
		}
	}
	if !b.wants("Redis") {
		return nil
	}
	r, err := b.startRedis(ctx)
	if err != nil {
		return err
	}
	if r == nil {
		b.left = append(b.left, "Redis was left out: redis-server and redis-benchmark are not on PATH.")
		return nil
	}
	defer func() { err = firstOf(err, r.stop()) }()
	_, err = b.add(ctx, b.besideRedis(db, api, r))
	return err
}

func (b *bench) compareBegins(ctx context.Context, db *database, api *server) (err error) {
	if !b.wants("begin") && !b.wants("single caller") {
		return nil
	}
	naive, err := b.startNaive(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, naive.stop()) }()
	if b.wants("single caller") {
		if _, err := b.add(ctx, b.singleCaller(db, api, naive)); err != nil {
			return err
		}
	}
	if !b.wants("begin") {
		return nil
	}
	closed, err := b.add(ctx, b.begins(db, api, naive))
	if err == nil && b.wants("open loop") {
		_, err = b.add(ctx, b.opened(db, api, closed))
	}
	return err
}

// compareWithOther needs a second API, which has no replay cache.
func (b *bench) compareWithOther(ctx context.Context, db *database, api *server) (err error) {
	other, err := b.startAPI(ctx, "other", db, "ONCEWARD_REPLAY_CACHE_MIB=0")
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, other.stop()) }()
	if b.wants("replay") {
		g, err := b.replays(ctx, db, api, other)
		if err == nil {
			_, err = b.add(ctx, g)
		}
		if err != nil {
			return err
		}
	}
	if b.wants("two processes") {
		_, err = b.add(ctx, b.twoProcesses(db, api, other))
	}
	return err
}

// large runs what needs a large table.
func (b *bench) large(ctx context.Context, small *database) (err error) {
	if b.opts.records == 0 || !b.wants("large table") && !b.wants("pruning") {
		return nil
	}
	large, err := b.open(ctx, "large")
	if err != nil {
		return err
	}
	defer large.session.close(ctx)
	b.say("making %d records …", b.opts.records)
	if err := large.session.makeRecords(ctx, large, b.opts.records, expiredFifths); err != nil {
		return err
	}
	atSmall, err := b.startAPI(ctx, "small", small)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, atSmall.stop()) }()
	atLarge, err := b.startAPI(ctx, "large", large)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, atLarge.stop()) }()
	for _, g := range []group{b.largeTable(small, large, atSmall, atLarge), b.pruned(large, atLarge)} {
		if !b.wants(g.name) {
			continue
		}
		if _, err := b.add(ctx, g); err != nil {
			return err
		}
	}
	return nil
}
