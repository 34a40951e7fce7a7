//go:build unix

package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/postgres"
)

func TestTheClockMayDriftAndNotStep(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		passed, databasePassed time.Duration
		took                   time.Duration // the second look, on the way back
		fine                   bool
	}{
		"together":                       {time.Hour, time.Hour, 0, true},
		"apart within five s":            {time.Second, 5 * time.Second, 0, true},
		"a step ahead":                   {time.Second, 7 * time.Second, 0, false},
		"a step back":                    {time.Second, -5 * time.Second, 0, false},
		"a drift over an hour":           {time.Hour, time.Hour + 8*time.Second, 0, true},
		"a step within the hour":         {time.Hour, time.Hour + 9*time.Second, 0, false},
		"a look that takes long":         {time.Second, time.Second, 20 * time.Second, true},
		"a step during a look":           {time.Second, 27 * time.Second, 20 * time.Second, false},
		"a step back during a long look": {time.Second, -5 * time.Second, 20 * time.Second, false},
	} {
		c := &postgres.Clock{}
		look := func(databasePassed, passed, took time.Duration) error {
			return c.Look(start.Add(databasePassed), start.Add(passed), start.Add(passed+took))
		}
		if err := look(0, 0, 0); err != nil {
			t.Errorf("%s: the first look: %v", name, err)
		}
		if err := look(tt.databasePassed, tt.passed, tt.took); (err == nil) != tt.fine || err != nil && !errors.Is(err, postgres.ErrClockStepped) {
			t.Errorf("%s: %v", name, err)
		}
		steps := c.Steps()
		if (steps == 0) != tt.fine || (c.Doubt() == nil) != tt.fine {
			t.Errorf("%s: %d steps, doubt %v", name, steps, c.Doubt())
		}
		later := tt.passed + tt.took
		if err := look(tt.databasePassed+tt.took+59*time.Second, later+59*time.Second, 0); (err == nil) != tt.fine {
			t.Errorf("%s, and 59 s: %v", name, err)
		}
		if err := look(tt.databasePassed+tt.took+time.Minute, later+time.Minute, 0); err != nil || c.Doubt() != nil {
			t.Errorf("%s, and a minute: %v", name, err)
		}
		if c.Steps() != steps {
			t.Errorf("%s: %d steps after a minute of agreement, were %d", name, c.Steps(), steps)
		}
	}
}

// A second jump within the minute begins it anew, and the operator's word ends
// it.
func TestADoubtfulClockIsBelievedAtTheOperatorsWord(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	c := &postgres.Clock{}
	look := func(database, our time.Duration) error {
		return c.Look(start.Add(database), start.Add(our), start.Add(our))
	}
	_ = look(0, 0)
	_ = look(time.Hour, time.Second)
	_ = look(50*time.Second, 50*time.Second) // back again
	if err := look(105*time.Second, 105*time.Second); !errors.Is(err, postgres.ErrClockStepped) {
		t.Errorf("55 s after the second jump: %v", err)
	}
	c.Trust()
	if err := c.Doubt(); err != nil {
		t.Errorf("after the operator's word: %v", err)
	}
	if err := look(106*time.Second, 106*time.Second); err != nil {
		t.Errorf("the next look: %v", err)
	}
	if got := c.Steps(); got != 2 {
		t.Errorf("%d steps, want 2", got)
	}
}
