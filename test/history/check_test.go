//go:build unix

package history_test

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestTheCheckTellsAGoodHistoryFromABadOne: a check that takes everything would
// hold nothing.
func TestTheCheckTellsAGoodHistoryFromABadOne(t *testing.T) {
	t.Parallel()
	at := func(from, to int64, c call, r reply) porcupine.Operation {
		c.key = "the key"
		return porcupine.Operation{Call: from, Return: to, Input: c, Output: r}
	}
	acquires := func(attempt int, fence int64) reply { return reply{code: "acquired", attempt: attempt, fence: fence} }
	first := at(0, 1, call{kind: begin, owner: "a"}, acquires(1, 10))
	for name, tt := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"one acquires, the other is told": {[]porcupine.Operation{
			first, at(0, 1, call{kind: begin, owner: "b"}, reply{code: "in_progress", attempt: 1}),
		}, porcupine.Ok},
		"two acquire": {[]porcupine.Operation{
			first, at(0, 1, call{kind: begin, owner: "b"}, acquires(1, 11)),
		}, porcupine.Illegal},
		"the owner resumes": {[]porcupine.Operation{
			first, at(2, 3, call{kind: begin, owner: "a"}, reply{code: "acquired", attempt: 1, fence: 10, resumed: true}),
		}, porcupine.Ok},
		"the owner resumes another lease": {[]porcupine.Operation{
			first, at(2, 3, call{kind: begin, owner: "a"}, reply{code: "acquired", attempt: 1, fence: 11, resumed: true}),
		}, porcupine.Illegal},
		"a takeover after a lapse": {[]porcupine.Operation{
			first, at(2, 3, call{kind: lapse}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, reply{code: "acquired", attempt: 2, fence: 11, takenOver: true}),
		}, porcupine.Ok},
		"a takeover before the lapse": {[]porcupine.Operation{
			first, at(4, 5, call{kind: lapse}, reply{code: "ok"}),
			at(2, 3, call{kind: begin, owner: "b"}, reply{code: "acquired", attempt: 2, fence: 11, takenOver: true}),
		}, porcupine.Illegal},
		"a fence that does not rise": {[]porcupine.Operation{
			first, at(2, 3, call{kind: lapse}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, reply{code: "acquired", attempt: 2, fence: 10, takenOver: true}),
		}, porcupine.Illegal},
		"a fence that does not rise over a retention": {[]porcupine.Operation{
			first, at(2, 3, call{kind: expire}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, acquires(1, 9)),
		}, porcupine.Illegal},
		"a stale token completes": {[]porcupine.Operation{
			first, at(2, 3, call{kind: release, fence: 10}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, acquires(2, 11)),
			at(6, 7, call{kind: complete, fence: 10, body: "x"}, reply{code: "ok"}),
		}, porcupine.Illegal},
		"the replay of what nobody stored": {[]porcupine.Operation{
			first, at(2, 3, call{kind: complete, fence: 10, body: "x"}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, reply{code: "replay", attempt: 1, body: "y"}),
		}, porcupine.Illegal},
		"an acknowledged completion that is gone": {[]porcupine.Operation{
			first, at(2, 3, call{kind: complete, fence: 10, body: "x"}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, reply{code: "in_progress", attempt: 1}),
		}, porcupine.Illegal},
		"a lost completion that happens later": {[]porcupine.Operation{
			first, at(2, math.MaxInt64, call{kind: complete, fence: 10, body: "x"}, reply{code: lost}),
			at(4, 5, call{kind: begin, owner: "b"}, reply{code: "in_progress", attempt: 1}),
			at(6, 7, call{kind: begin, owner: "b"}, reply{code: "replay", attempt: 1, body: "x"}),
		}, porcupine.Ok},
		"a lost begin that is resumed": {[]porcupine.Operation{
			at(0, math.MaxInt64, call{kind: begin, owner: "a"}, reply{code: lost}),
			at(4, 5, call{kind: begin, owner: "a"}, reply{code: "acquired", attempt: 1, fence: 10, resumed: true}),
		}, porcupine.Ok},
		"a lost begin that comes and goes": {[]porcupine.Operation{
			at(0, math.MaxInt64, call{kind: begin, owner: "a"}, reply{code: lost}),
			at(2, 3, call{kind: begin, owner: "b"}, reply{code: "in_progress", attempt: 1}),
			at(4, 5, call{kind: begin, owner: "b"}, acquires(1, 11)),
		}, porcupine.Illegal},
		"what is unknown is acquired": {[]porcupine.Operation{
			first, at(2, 3, call{kind: unknown, fence: 10}, reply{code: "ok"}),
			at(4, 5, call{kind: begin, owner: "b"}, reply{code: "acquired", attempt: 2, fence: 11, takenOver: true}),
		}, porcupine.Illegal},
	} {
		if got := porcupine.CheckOperationsTimeout(model(), tt.history, checkTimeout); got != tt.want {
			t.Errorf("%s: %s, want %s%s", name, got, tt.want, explain(tt.history))
		}
	}
}
