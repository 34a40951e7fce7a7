package fingerprint_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

// vector is one worked case of testdata/fingerprint.json, which is published with the contract.
type vector struct {
	Name          string           `json:"name"`
	Method        string           `json:"method"`
	Path          string           `json:"path"`
	Query         string           `json:"query"`
	ContentType   string           `json:"content_type"`
	Body          []byte           `json:"body_base64"`
	Ignore        []string         `json:"ignore"`
	Kind          fingerprint.Kind `json:"kind"`
	CanonicalBody []byte           `json:"canonical_body_base64"`
	Fingerprint   string           `json:"fingerprint"`
}

func (v vector) request() fingerprint.Request {
	return fingerprint.Request{
		Method:         v.Method,
		Path:           v.Path,
		Query:          v.Query,
		ContentType:    v.ContentType,
		Body:           v.Body,
		IgnorePointers: v.Ignore,
	}
}

func readVectors(tb testing.TB) []vector {
	tb.Helper()
	text, err := os.ReadFile("testdata/fingerprint.json")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		Algorithm string   `json:"algorithm"`
		Vectors   []vector `json:"vectors"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		tb.Fatal(err)
	}
	if file.Algorithm != fingerprint.Algorithm {
		tb.Fatalf("the vectors are of %q, the package computes %q", file.Algorithm, fingerprint.Algorithm)
	}
	return file.Vectors
}

func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	vectors := readVectors(t)
	if got, want := len(vectors), 89; got != want {
		t.Errorf("got %d vectors, want %d", got, want)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			result := fingerprint.Compute(v.request())
			if got, want := result.Hex(), v.Fingerprint; got != want {
				t.Errorf("got fingerprint %s, want %s", got, want)
			}
			if got, want := result.Kind, v.Kind; got != want {
				t.Errorf("got kind %s, want %s", got, want)
			}
			kind, canonical := fingerprint.Canonical(v.ContentType, v.Body, v.Ignore)
			if got, want := kind, v.Kind; got != want {
				t.Errorf("Canonical: got kind %s, want %s", got, want)
			}
			if diff := cmp.Diff(string(canonical), string(v.CanonicalBody)); diff != "" {
				t.Errorf("Canonical: body (-got +want):\n%s", diff)
			}
		})
	}
}
