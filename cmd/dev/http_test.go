//go:build unix

package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

type answer struct {
	status int
	body   string
	header http.Header
}

func call(t *testing.T, s state, key, method, path, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{got.StatusCode, string(text), got.Header}
}

func beginBody(key string) string {
	return `{"key": "` + key + `", "request": {"method": "POST", "path": "/v1/charges", "body": "{\"amount\": 4999}"}}`
}

// completedKey begins and completes a record, and returns its id.
func completedKey(t *testing.T, s state, key string) (id string) {
	t.Helper()
	begun := call(t, s, s.Credentials["service"], http.MethodPost, "/v1/keys", beginBody(key))
	var acquired struct {
		ID    string `json:"id"`
		Lease struct {
			Token string `json:"token"`
		} `json:"lease"`
	}
	if err := json.Unmarshal([]byte(begun.body), &acquired); err != nil || begun.status != http.StatusCreated {
		t.Fatalf("begin: %d %s", begun.status, begun.body)
	}
	completed := call(t, s, s.Credentials["service"], http.MethodPut, "/v1/keys/"+acquired.ID+"/response",
		`{"status": 201, "headers": [["Content-Type", "application/json"]], "body": "{\"id\": 7}"}`, "Onceward-Lease", acquired.Lease.Token)
	if completed.status != http.StatusOK {
		t.Fatalf("complete: %d %s", completed.status, completed.body)
	}
	return acquired.ID
}

func checkReplay(t *testing.T, s state, key, id string) {
	t.Helper()
	got := call(t, s, s.Credentials["service"], http.MethodPost, "/v1/keys", beginBody(key))
	if got.status != http.StatusOK || got.header.Get("Idempotent-Replay") != "true" || !strings.Contains(got.body, id) {
		t.Errorf("replay: %d %s", got.status, got.body)
	}
}
