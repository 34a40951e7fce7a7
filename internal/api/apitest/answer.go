package apitest

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Acquired is the body of a 201.
type Acquired struct {
	ID            string         `json:"id"`
	Outcome       string         `json:"outcome"`
	Attempt       int            `json:"attempt"`
	Resumed       bool           `json:"resumed"`
	TakenOver     bool           `json:"taken_over"`
	Lease         Lease          `json:"lease"`
	RecoveryPoint *RecoveryPoint `json:"recovery_point"`
	CreatedAt     time.Time      `json:"created_at"`
	ExpiresAt     *time.Time     `json:"expires_at"` // nil: does not expire
}

func (a Acquired) header() string { return "Onceward-Lease: " + a.Lease.Token }

// Lease is the member lease, and the answer to a renewal.
type Lease struct {
	Token         string    `json:"token"`
	Fence         int64     `json:"fence"`
	ExpiresAt     time.Time `json:"expires_at"`
	OnLeaseExpiry string    `json:"on_lease_expiry"`
}

// RecoveryPoint is how far an attempt came.
type RecoveryPoint struct {
	Name string         `json:"name"`
	Data jsontext.Value `json:"data"`
}

// Replay is the body of a replay.
type Replay struct {
	ID                 string    `json:"id"`
	Outcome            string    `json:"outcome"`
	Attempt            int       `json:"attempt"`
	FingerprintMatched bool      `json:"fingerprint_matched"`
	Response           Response  `json:"response"`
	CreatedAt          time.Time `json:"created_at"`
	CompletedAt        time.Time `json:"completed_at"`
	ExpiresAt          time.Time `json:"expires_at"`
	AgeSeconds         float64   `json:"age_seconds"`
}

// Response is a stored response, or one to be stored.
type Response struct {
	Status      int         `json:"status"`
	Headers     [][2]string `json:"headers,omitzero"`
	Body        *string     `json:"body,omitzero"`
	BodyBase64  []byte      `json:"body_base64,omitzero"`
	BodyOmitted bool        `json:"body_omitted,omitzero"`
	BodyRef     string      `json:"body_ref,omitzero"`
}

// Bytes is the body, however it was sent.
func (r Response) Bytes() []byte {
	if r.Body != nil {
		return []byte(*r.Body)
	}
	return r.BodyBase64
}

// Completion is the answer to a complete.
type Completion struct {
	ID             string     `json:"id"`
	State          string     `json:"state"`
	StoredHeaders  int        `json:"stored_headers"`
	DroppedHeaders []string   `json:"dropped_headers"`
	CompletedAt    *time.Time `json:"completed_at"`
	ExpiresAt      time.Time  `json:"expires_at"`
}

// Problem is a problem document.
type Problem struct {
	Type           string     `json:"type"`
	Title          string     `json:"title"`
	Status         int        `json:"status"`
	Detail         string     `json:"detail"`
	Code           string     `json:"code"`
	RequestID      string     `json:"request_id"`
	RetryAfter     int        `json:"retry_after,omitzero"`
	Errors         []Fault    `json:"errors,omitzero"`
	Differs        []string   `json:"differs,omitzero"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at,omitzero"`
	Attempt        int        `json:"attempt,omitzero"`
}

// Fault is one of the errors of invalid_request.
type Fault struct {
	Pointer   string `json:"pointer,omitzero"`
	Parameter string `json:"parameter,omitzero"`
	Reason    string `json:"reason"`
}

// BatchResult is one entry of the results of a batch: a status, and the body of
// the single call or a problem.
type BatchResult struct {
	Status  int
	Problem *Problem
	Body    []byte // the whole entry
}

// Expect ends the test unless the answer has that status.
func (a *Answer) Expect(tb testing.TB, status int) *Answer {
	tb.Helper()
	if a.Status != status {
		tb.Fatalf("status %d, want %d: %.2000s", a.Status, status, a.Body)
	}
	return a
}

// Decode reads the body as JSON; a member that into does not have ends the test.
func (a *Answer) Decode(tb testing.TB, into any) {
	tb.Helper()
	decode(tb, a.Body, into)
}

func decode(tb testing.TB, body []byte, into any) {
	tb.Helper()
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		tb.Fatalf("%v: %.2000s", err, body)
	}
}

// Acquired is the body of a 201; another answer ends the test.
func (a *Answer) Acquired(tb testing.TB) (body Acquired) {
	tb.Helper()
	a.Expect(tb, http.StatusCreated).Decode(tb, &body)
	if body.Outcome != "acquired" {
		tb.Fatalf("outcome %q, want acquired", body.Outcome)
	}
	return body
}

// Replay is the body of a replay; another answer ends the test.
func (a *Answer) Replay(tb testing.TB) (body Replay) {
	tb.Helper()
	a.Expect(tb, http.StatusOK).Decode(tb, &body)
	if body.Outcome != "replay" {
		tb.Fatalf("outcome %q, want replay", body.Outcome)
	}
	return body
}

// Completion is the answer to a complete; another answer ends the test.
func (a *Answer) Completion(tb testing.TB) (body Completion) {
	tb.Helper()
	a.Expect(tb, http.StatusOK).Decode(tb, &body)
	return body
}

// Lease is the answer to a renewal; another answer ends the test.
func (a *Answer) Lease(tb testing.TB) (body Lease) {
	tb.Helper()
	a.Expect(tb, http.StatusOK).Decode(tb, &body)
	return body
}

// Problem is the problem with that status and code; another answer ends the
// test.
func (a *Answer) Problem(tb testing.TB, status int, code string) (body Problem) {
	tb.Helper()
	a.Expect(tb, status).Decode(tb, &body)
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		tb.Fatalf("Content-Type %q, want application/problem+json", got)
	}
	if body.Code != code || body.Status != status {
		tb.Fatalf("problem %s %d, want %s %d: %s", body.Code, body.Status, code, status, body.Detail)
	}
	return body
}

// Results are those of a batch; another answer ends the test.
func (a *Answer) Results(tb testing.TB) []BatchResult {
	tb.Helper()
	var body struct {
		Results []jsontext.Value `json:"results"`
	}
	a.Expect(tb, http.StatusOK).Decode(tb, &body)
	results := make([]BatchResult, len(body.Results))
	for i, raw := range body.Results {
		var entry struct {
			Status  int            `json:"status"`
			Problem jsontext.Value `json:"problem"`
		}
		if err := json.Unmarshal(raw, &entry); err != nil {
			tb.Fatalf("result %d: %v: %.2000s", i, err, raw)
		}
		results[i] = BatchResult{Status: entry.Status, Body: raw}
		if entry.Problem != nil {
			results[i].Problem = new(Problem)
			decode(tb, entry.Problem, results[i].Problem)
		}
	}
	return results
}

// As reads the members of a result beside its status.
func (r BatchResult) As(tb testing.TB, into any) {
	tb.Helper()
	var members map[string]jsontext.Value
	decode(tb, r.Body, &members)
	delete(members, "status")
	rest, err := json.Marshal(members)
	if err != nil {
		tb.Fatal(err)
	}
	decode(tb, rest, into)
}
