package client_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// TestPublishedVectors computes the published cases as a caller of the client
// does whose payloads stay at home, and lets the service compute them too: a
// begin by request and one by digest must be the same.
func TestPublishedVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../client/fingerprint/testdata/fingerprint.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name        string   `json:"name"`
			Method      string   `json:"method"`
			Path        string   `json:"path"`
			Query       string   `json:"query"`
			ContentType string   `json:"content_type"`
			Body        []byte   `json:"body_base64"`
			Ignore      []string `json:"ignore"`
			Fingerprint string   `json:"fingerprint"`
		} `json:"vectors"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) != 89 {
		t.Fatalf("%d vectors, want the 89 that are published", len(file.Vectors))
	}
	w := apitest.New(t)
	c := newClient(t, w)
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			request := &client.Request{Method: v.Method, Path: v.Path, Query: v.Query, ContentType: v.ContentType, Body: v.Body}
			if got := request.Fingerprint(v.Ignore...); got != v.Fingerprint {
				t.Fatalf("fingerprint %s, want %s", got, v.Fingerprint)
			}
			if len(v.Ignore) > 0 {
				return // the service would need a policy for it
			}
			op := client.Operation{Key: newKey(), Name: "vectors", Request: request}
			held := acquire(t, c, op).Held()
			if _, err := c.Complete(t.Context(), held, created()); err != nil {
				t.Fatal(err)
			}
			op.Fingerprint, op.Request = v.Fingerprint, nil
			if !replayOf(t, c, op).FingerprintMatched {
				t.Error("the service computes another")
			}
		})
	}
}
