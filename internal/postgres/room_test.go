package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/postgres"
)

func TestWantOfRoomIsToldForTenSeconds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	room := postgres.NewRoom(func() time.Time { return now })
	says := func(want string) {
		t.Helper()
		err := room.Lack()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	says("")
	for _, other := range postgres.ErrorKinds() {
		if kind := postgres.ErrorKind(other); kind != postgres.ErrorDiskFull && kind != postgres.ErrorResources {
			room.Note(kind)
		}
	}
	says("")
	room.Note(postgres.ErrorResources)
	says("no memory")
	now = now.Add(9 * time.Second)
	room.Note(postgres.ErrorDiskFull)
	says("no disk left for a statement 0.0 s ago")
	now = now.Add(10 * time.Second)
	says("10.0 s ago")
	now = now.Add(1)
	says("")
}
