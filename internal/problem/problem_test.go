package problem

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func document(t *testing.T, e *Error) map[string]any {
	t.Helper()
	text, err := e.Document("https://api.example.com", "REQ1")
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return members
}

func TestADocumentHasItsMembersAndNothingOfTheCause(t *testing.T) {
	t.Parallel()
	e := New(InProgress, "wait %d s", 3).WithCause(errors.New("password=hunter2"))
	e.RetryAfter = 2100 * time.Millisecond
	e.Members = []Member{{"attempt", 2}, {"differs", []string{"body"}}}
	want := map[string]any{
		"type": "https://api.example.com/problems/in_progress", "title": "Another attempt is in progress", "status": 409.0,
		"detail": "wait 3 s", "code": "in_progress", "request_id": "REQ1", "retry_after": 3.0, "attempt": 2.0, "differs": []any{"body"},
	}
	if diff := cmp.Diff(document(t, e), want); diff != "" {
		t.Error(diff)
	}
}

func TestADocumentNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	e := Invalid(Field{Pointer: "/key", Reason: "is \xff"}, Field{Parameter: "limit", Reason: "no"})
	want := []any{map[string]any{"pointer": "/key", "reason": "is \ufffd"}, map[string]any{"parameter": "limit", "reason": "no"}}
	if diff := cmp.Diff(document(t, e)["errors"], any(want)); diff != "" {
		t.Error(diff)
	}
	if got := document(t, Invalid(Field{Pointer: "/key", Reason: "is \xff"}))["detail"]; got != "/key: is \ufffd" {
		t.Errorf("detail %q", got)
	}
}

func TestEveryKindHasOneRowWithAStatusOfItsClass(t *testing.T) {
	t.Parallel()
	seen := map[Kind]bool{}
	for _, e := range Table() {
		if seen[e.Kind] || e.Title == "" || e.Meaning == "" || e.Status < 400 || e.Status > 599 {
			t.Errorf("%+v", e)
		}
		seen[e.Kind] = true
		if e.Kind.Status() != e.Status {
			t.Errorf("%s: status %d, the table says %d", e.Kind, e.Kind.Status(), e.Status)
		}
	}
	if len(seen) != 30 {
		t.Errorf("%d kinds, the contract lists 30", len(seen))
	}
}

func TestErrorsIsFindsKindAndCause(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("begin key: %w", Unavailable(io.ErrUnexpectedEOF))
	if !errors.Is(err, KindUnavailable) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, NotFound) {
		t.Errorf("%v", err)
	}
	if got := From(err); got.Kind != KindUnavailable || got.RetryAfter == 0 {
		t.Errorf("%+v", got)
	}
	if got := From(io.EOF); got.Kind != KindInternal || !errors.Is(got, io.EOF) {
		t.Errorf("%+v", got)
	}
}

func TestAPolicysStatusReplacesTheKinds(t *testing.T) {
	t.Parallel()
	e := New(FingerprintMismatch, "no")
	e.Status = 422
	if e.HTTPStatus() != 422 || document(t, e)["status"] != 422.0 {
		t.Errorf("%d", e.HTTPStatus())
	}
	if got := New("no_such_kind", "x"); got.HTTPStatus() != 500 || document(t, got)["code"] != "internal" {
		t.Errorf("%v", document(t, got))
	}
}
