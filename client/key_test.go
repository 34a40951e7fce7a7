package client_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/client"
)

// TestAKeyIsTheSameForever holds keys that were written down once: a key that
// changes with a release would charge every retry in flight again (B033).
func TestAKeyIsTheSameForever(t *testing.T) {
	t.Parallel()
	type orderID string
	for _, tc := range []struct {
		parts []any
		want  string
	}{
		{[]any{"order", 42, "charge", 1}, "b7bdc4a2-4bc5-8063-af7d-f2bfce27cb41"},
		{[]any{orderID("order"), int64(42), "charge", uint8(1)}, "b7bdc4a2-4bc5-8063-af7d-f2bfce27cb41"},
		{[]any{"order", 42, "charge", 2}, "b2459e4f-5072-8dfe-ae5a-4112214fc702"},
		{[]any{"order", 42, "charge", true}, "90f41db1-7cb6-8542-9859-f0ab8f67ea84"},
	} {
		got, err := client.Key(tc.parts...)
		if err != nil {
			t.Fatal(err)
		}
		if got != tc.want {
			t.Errorf("Key(%v) = %s, want %s", tc.parts, got, tc.want)
		}
	}
	if got, want := client.DownstreamKey("pD3vJ0kq8mQ2x7TzY1cLwA", "stripe", "charge"), "c3cbaf42-55ef-88f8-9411-c00159ff811d"; got != want {
		t.Errorf("DownstreamKey = %s, want %s", got, want)
	}
}

func TestOtherPartsGiveAnotherKey(t *testing.T) {
	t.Parallel()
	seen := make(map[string][]any)
	for _, parts := range [][]any{
		{"order", 42},
		{"order", "42"},
		{"order", 4, 2},
		{"order42"},
		{"orde", "r42"},
		{"order", 42, "charge"},
		{42, "order"},
		{"order", -42},
		{"order", 43},
		{"order", true},
		{"order", "true"},
		{"order", false},
		{"order", 42, 4999},
		{"order", 42, 5000},
	} {
		key, err := client.Key(parts...)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[key]; taken {
			t.Errorf("%v and %v have one key", parts, other)
		}
		seen[key] = parts
	}
	for _, record := range []client.RecordID{"a", "b"} {
		for _, provider := range []string{"stripe", "adyen"} {
			for _, step := range []string{"charge", "refund"} {
				seen[client.DownstreamKey(record, provider, step)] = nil
			}
		}
	}
	if want := 14 + 8; len(seen) != want {
		t.Errorf("%d keys, want %d", len(seen), want)
	}
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for key := range seen {
		if !uuid.MatchString(key) {
			t.Errorf("%q is no UUID of version 8", key)
		}
	}
}

func TestWhatWouldChangeFromRetryToRetryIsNoPartOfAKey(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][]any{
		"nothing":         nil,
		"a missing id":    {"order", ""},
		"a time":          {"order", time.Now()},
		"a duration":      {"order", time.Second},
		"a float":         {"order", 4.2},
		"a pointer":       {"order", new(int)},
		"nil":             {"order", nil},
		"a slice":         {"order", []byte("42")},
		"a struct with a": {struct{ A int }{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if key, err := client.Key(parts...); err == nil || key != "" || !strings.Contains(err.Error(), "key") {
				t.Errorf("Key = %q, %v; want an error", key, err)
			}
		})
	}
}
