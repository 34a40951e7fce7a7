package postgres

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/onceward/onceward/migrations"
)

// OldestLevel is the oldest level of the schema on which this version serves:
// all calls, pruning and the roll-ups. What else needs a later one fails until
// it is there. docs/decisions/schema-compatibility.md says how it moves.
const OldestLevel = 40

// Level is one step of the schema: a file of migrations, or, where the database
// is ahead of this binary, a number that it does not know.
type Level struct {
	Number    int64
	Name      string    // empty: not known to this binary
	AppliedAt time.Time // zero: pending
	Loses     string    // what taking it back loses
	Stays     string    // why it cannot be taken back; empty: it can
}

// Schema is how far a database has come.
type Schema struct {
	Levels []Level // from the first one up

	RiverLevel, RiverPending int // of River's own tables
}

// Current is the highest level that is applied; zero: none.
func (s Schema) Current() int64 {
	for _, l := range slices.Backward(s.Levels) {
		if !l.AppliedAt.IsZero() {
			return l.Number
		}
	}
	return 0
}

// Pending are the levels that this binary knows and the database lacks.
func (s Schema) Pending() (pending []int64) {
	for _, l := range s.Levels {
		if l.AppliedAt.IsZero() {
			pending = append(pending, l.Number)
		}
	}
	return pending
}

// Unknown are the levels that the database has and this binary does not know.
func (s Schema) Unknown() (unknown []int64) {
	for _, l := range s.Levels {
		if l.Name == "" {
			unknown = append(unknown, l.Number)
		}
	}
	return unknown
}

// TooOld says why this version cannot serve on the schema; nil: it can, also
// where later levels are pending, or where the database is ahead of it.
func (s Schema) TooOld() error {
	if i := slices.IndexFunc(s.Levels, func(l Level) bool { return l.AppliedAt.IsZero() && l.Number <= OldestLevel }); i >= 0 {
		return fmt.Errorf("the schema is too old for this version: %s is not applied, and this version serves from level %d on: run api migrate up", s.Levels[i], OldestLevel)
	}
	if s.RiverPending > 0 {
		return fmt.Errorf("the tables of the jobs are too old for this version: %d of their levels are pending: run api migrate up", s.RiverPending)
	}
	return nil
}

// CheckSchema says why this version cannot serve on the schema of the database;
// nil: it can. It only reads.
func CheckSchema(ctx context.Context, pool *pgxpool.Pool) error {
	s, err := ReadSchema(ctx, pool)
	if err != nil {
		return err
	}
	return s.TooOld()
}

// LogSchema says once, for a process that starts, how far the database is from
// what it knows.
func LogSchema(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) {
	s, err := ReadSchema(ctx, pool)
	at := slog.Int64("level", s.Current())
	switch {
	case err != nil:
		logger.WarnContext(ctx, "the schema cannot be read", slog.Any("error", err))
	case s.TooOld() != nil:
		logger.WarnContext(ctx, "waiting for the schema", at, slog.Any("error", s.TooOld()))
	case len(s.Pending()) > 0:
		logger.WarnContext(ctx, "the schema is behind this version, which serves on it: run api migrate up", at, slog.Any("pending", s.Pending()))
	case len(s.Unknown()) > 0:
		logger.InfoContext(ctx, "the schema is ahead of this version, which serves on it", at)
	}
}

// ReadSchema looks how far a database has come. It only reads.
func ReadSchema(ctx context.Context, pool *pgxpool.Pool) (Schema, error) {
	s, err := readSchema(ctx, pool, migrations.FS)
	if err != nil {
		return s, err
	}
	want, err := RiverVersion()
	if err != nil {
		return s, err
	}
	s.RiverPending, err = riverPending(ctx, pool)
	s.RiverLevel = want - s.RiverPending
	return s, err
}

func readSchema(ctx context.Context, pool *pgxpool.Pool, files fs.FS) (s Schema, err error) {
	if s.Levels, err = knownLevels(files); err != nil {
		return s, err
	}
	// goose's own answer to this question creates its table first, which a
	// readiness probe must not do.
	var exists bool
	if err := pool.QueryRow(ctx, "select to_regclass($1) is not null", gooseTable).Scan(&exists); err != nil {
		return s, fmt.Errorf("look for the migrations table: %w", err)
	}
	if !exists {
		return s, nil
	}
	rows, err := pool.Query(ctx, "select version_id, tstamp from "+gooseTable+" where is_applied and version_id > 0")
	if err != nil {
		return s, fmt.Errorf("list applied migrations: %w", err)
	}
	var number int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&number, &at}, func() error {
		i := slices.IndexFunc(s.Levels, func(l Level) bool { return l.Number == number })
		if i < 0 {
			s.Levels = append(s.Levels, Level{Number: number, AppliedAt: at, Stays: "this version does not know it"})
			return nil
		}
		s.Levels[i].AppliedAt = at
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("list applied migrations: %w", err)
	}
	slices.SortFunc(s.Levels, func(a, b Level) int { return cmp.Compare(a.Number, b.Number) })
	return s, nil
}

// knownLevels are those of the files. What taking one back means stands in its
// file, in the line after "-- +goose Down": "-- loses: …" or "-- stays: …".
func knownLevels(files fs.FS) (levels []Level, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("read the version of migration %s: %w", name, err)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		_, title, _ := strings.Cut(strings.TrimSuffix(name, ".sql"), "_")
		level := Level{Number: number, Name: title}
		_, down, found := strings.Cut(string(text), "-- +goose Down\n")
		lines := bufio.NewScanner(strings.NewReader(down))
		lines.Scan()
		var says bool
		if level.Loses, says = strings.CutPrefix(lines.Text(), "-- loses: "); !says {
			level.Loses = ""
			if level.Stays, says = strings.CutPrefix(lines.Text(), "-- stays: "); !says {
				level.Stays = "its file does not say what that would lose"
			}
		}
		if !found {
			level.Stays = "nothing says how"
		}
		levels = append(levels, level)
	}
	return levels, nil
}

// TakeBack undoes the highest level of the schema, under the lock of Migrate.
// Only that one: level must be its number, so that nobody loses by a slip what
// they did not name. River's own tables stay as they are.
func TakeBack(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, level int64) (Level, error) {
	return takeBack(ctx, pool, logger, migrations.FS, level)
}

func takeBack(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, files fs.FS, number int64) (taken Level, err error) {
	err = withMigrationLock(ctx, pool, logger, func(ctx context.Context) error {
		s, err := readSchema(ctx, pool, files)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Levels, func(l Level) bool { return l.Number == s.Current() })
		if i < 0 {
			return errors.New("no level is applied: there is nothing to take back")
		}
		taken = s.Levels[i]
		switch {
		case taken.Stays != "":
			return fmt.Errorf("%s cannot be taken back: %s", taken, taken.Stays)
		case number == 0:
			return fmt.Errorf("%s would be taken back, which loses %s: if that is meant, say -level %d", taken, taken.Loses, taken.Number)
		case number != taken.Number:
			return fmt.Errorf("-level is %d, and the one that can be taken back is %s: nothing was done", number, taken)
		}
		return gooseDown(ctx, pool, logger, files, taken.Number)
	})
	return taken, err
}

// String names a level for people.
func (l Level) String() string {
	if l.Name == "" {
		return fmt.Sprintf("level %d", l.Number)
	}
	return fmt.Sprintf("level %d (%s)", l.Number, l.Name)
}
