package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/onceward/onceward/internal/postgres"
)

// The commands of the schema. Any number of processes may run up at once: one
// works, the others wait and find nothing left to do.

type shownLevel struct {
	Level     int64     `json:"level"`
	Name      string    `json:"name,omitzero"`
	State     string    `json:"state"` // applied, pending, or unknown: of a newer version
	AppliedAt time.Time `json:"applied_at,omitzero"`
	Loses     string    `json:"loses,omitzero"`
	Stays     string    `json:"stays,omitzero"`
}

func shownLevelOf(l postgres.Level) shownLevel {
	shown := shownLevel{l.Number, l.Name, "applied", l.AppliedAt.UTC(), l.Loses, l.Stays}
	switch {
	case l.AppliedAt.IsZero():
		shown.State = "pending"
	case l.Name == "":
		shown.State = "unknown"
	}
	return shown
}

// shownSchema is what every command of the schema ends with.
type shownSchema struct {
	Level   int64 `json:"level"`
	Pending int   `json:"pending"`
	Unknown int   `json:"unknown"`
	Jobs    struct {
		Level   int `json:"level"`
		Pending int `json:"pending"`
	} `json:"jobs"`
	TakenBack *shownLevel  `json:"taken_back,omitzero"`
	Levels    []shownLevel `json:"levels,omitzero"`
}

func readSchema(ctx context.Context, a *administration) (shownSchema, []postgres.Level, error) {
	s, err := postgres.ReadSchema(ctx, a.pool)
	shown := shownSchema{Level: s.Current(), Pending: len(s.Pending()), Unknown: len(s.Unknown())}
	shown.Jobs.Level, shown.Jobs.Pending = s.RiverLevel, s.RiverPending
	return shown, s.Levels, err
}

func migrateUp(*flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	return func(ctx context.Context, a *administration, out io.Writer) error {
		if err := postgres.Migrate(ctx, a.pool, a.logger); err != nil {
			return err
		}
		shown, _, err := readSchema(ctx, a)
		if err != nil {
			return err
		}
		return show(out, shown)
	}
}

func migrateStatus(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	check := set.Bool("check", false, "end with 1 where a level is pending")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		shown, levels, err := readSchema(ctx, a)
		if err != nil {
			return err
		}
		for _, l := range levels {
			shown.Levels = append(shown.Levels, shownLevelOf(l))
		}
		if err := show(out, shown); err != nil {
			return err
		}
		if pending := shown.Pending + shown.Jobs.Pending; *check && pending > 0 {
			return fmt.Errorf("%d levels are pending: run api migrate up", pending)
		}
		return nil
	}
}

func migrateDown(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	level := set.Int64("level", 0, "the level to take back, which is the last one that is applied; without it the command only says what would be lost")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		taken, err := postgres.TakeBack(ctx, a.pool, a.logger, *level)
		if err != nil {
			return err
		}
		shown, _, err := readSchema(ctx, a)
		if err != nil {
			return err
		}
		gone := shownLevelOf(taken)
		gone.State, gone.AppliedAt = "pending", time.Time{}
		shown.TakenBack = &gone
		return show(out, shown)
	}
}
