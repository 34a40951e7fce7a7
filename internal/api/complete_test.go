package api_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
)

// oddBodies are bytes that a store, an encoder or a decoder might mend.
var oddBodies = map[string][]byte{ //nolint:gochecknoglobals // a table of tests
	"nothing":                           {},
	"the four bytes of null":            []byte("null"),
	"JSON that nobody would write":      []byte("{ \"b\" : 1.10,\"a\":1e2 , \"a\":\"\\u0041\\/\" }\r\n"),
	"markup":                            []byte("<script>&amp;\u2028</script>"),
	"a zero byte":                       []byte("a\x00b"),
	"controls":                          []byte("\x01\x1f\x7f\t\n\r"),
	"what is no UTF-8":                  {0xff, 0xfe, 0x00, 0x80},
	"half a character at the end":       []byte("caf\xc3"),
	"a byte order mark":                 []byte("\ufeffx"),
	"characters beyond the first plane": []byte("\U0001F600 e\u0301"),
	"a message in a message":            []byte("HTTP/1.1 500 \r\nContent-Length: 0\r\n\r\n\r\n"),
	"every byte":                        everyByte(),
}

func everyByte() []byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return all
}

// B039, B041: what was stored comes back byte for byte, whichever way it came
// and whichever way it goes.
func TestABodyComesBackByteForByte(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	stores := map[string]func(*testing.T, apitest.Acquired, []byte) *apitest.Answer{
		"base64": func(t *testing.T, a apitest.Acquired, body []byte) *apitest.Answer {
			t.Helper()
			return c.Complete(t, a, apitest.Object{"status": 202, "body_base64": base64.StdEncoding.EncodeToString(body)})
		},
		"message": func(t *testing.T, a apitest.Acquired, body []byte) *apitest.Answer {
			t.Helper()
			return c.Complete(t, a, append([]byte("HTTP/1.1 202 Accepted\r\n\r\n"), body...), "Content-Type: application/http")
		},
		"batch": func(t *testing.T, a apitest.Acquired, body []byte) *apitest.Answer {
			t.Helper()
			return c.Do(t, http.MethodPost, "/v1/responses/batch", apitest.Object{"responses": []any{
				apitest.Object{"id": a.ID, "lease_token": a.Lease.Token, "status": 202, "body_base64": base64.StdEncoding.EncodeToString(body)},
			}})
		},
	}
	for bodyName, body := range oddBodies {
		for way, store := range stores {
			t.Run(bodyName+" as "+way, func(t *testing.T) {
				t.Parallel()
				key := newKey(t)
				store(t, acquire(t, c, key), body).Expect(t, 200)

				asJSON := c.Begin(t, apitest.Charge(key)).Replay(t)
				if !bytes.Equal(asJSON.Response.Bytes(), body) || asJSON.Response.Status != 202 {
					t.Errorf("JSON replay has status %d and %q, want 202 and %q", asJSON.Response.Status, asJSON.Response.Bytes(), body)
				}
				asMessage := c.Begin(t, apitest.Charge(key), "Accept: application/http").Expect(t, 200)
				if want := append([]byte("HTTP/1.1 202 \r\n\r\n"), body...); !bytes.Equal(asMessage.Body, want) {
					t.Errorf("message replay is %q, want %q", asMessage.Body, want)
				}
				results := c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge(key)}}).Results(t)
				var inBatch apitest.Replay
				results[0].As(t, &inBatch)
				if !bytes.Equal(inBatch.Response.Bytes(), body) {
					t.Errorf("batch replay is %q, want %q", inBatch.Response.Bytes(), body)
				}
			})
		}
	}
	t.Run("text as JSON", func(t *testing.T) {
		t.Parallel()
		key := newKey(t)
		c.Complete(t, acquire(t, c, key), "{\"status\":200,\"body\":\"a\\u0000\\ud83d\\ude00\\/\u00e9\"}").Expect(t, 200)
		if got, want := c.Begin(t, apitest.Charge(key)).Replay(t).Response.Bytes(), "a\x00\U0001F600/\u00e9"; string(got) != want {
			t.Errorf("replay has %q, want %q", got, want)
		}
	})
}

// B043: repeated names stay repeated, in order and letter case.
func TestHeadersComeBackInOrderAndLetterCase(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	sent := [][2]string{
		{"Link", "<1>"},
		{"X-Trace", "a"},
		{"Link", "<2>"},
		{"x-trace", "b"},
		{"Vary", "A"},
		{"Link", "<3>"},
		{"Vary", "B"},
		{"Set-Cookie", "canary=1"},
		{"X-Empty", ""},
		{"X-Text", "caf\u00e9"},
		{"Bad Name", "x"},
		{"X-Auth", "Bearer canary"},
		{"Set-Cookie", "b=2"},
	}
	want := [][2]string{
		{"Link", "<1>"},
		{"X-Trace", "a"},
		{"Link", "<2>"},
		{"x-trace", "b"},
		{"Vary", "A"},
		{"Link", "<3>"},
		{"Vary", "B"},
		{"X-Empty", ""},
		{"X-Text", "caf\u00e9"},
	}
	dropped := []string{"Set-Cookie", "Bad Name", "X-Auth", "Set-Cookie"}

	var message strings.Builder
	message.WriteString("HTTP/1.1 200 OK\r\n")
	for _, h := range sent {
		fmt.Fprintf(&message, "%s: %s\r\n", h[0], h[1])
	}
	message.WriteString("\r\nx")
	ways := map[string]func(*testing.T, apitest.Acquired) *apitest.Answer{
		"JSON": func(t *testing.T, a apitest.Acquired) *apitest.Answer {
			t.Helper()
			return c.Complete(t, a, apitest.Object{"status": 200, "headers": sent, "body": "x"})
		},
		"a message": func(t *testing.T, a apitest.Acquired) *apitest.Answer {
			t.Helper()
			return c.Complete(t, a, message.String(), "Content-Type: application/http; msgtype=response")
		},
	}
	for way, complete := range ways {
		t.Run("as "+way, func(t *testing.T) {
			t.Parallel()
			key := newKey(t)
			held := acquire(t, c, key)
			completion := complete(t, held).Completion(t)
			if completion.State != "completed" || completion.StoredHeaders != len(want) || completion.CompletedAt == nil {
				t.Errorf("completion %+v, want %d stored headers", completion, len(want))
			}
			if diff := cmp.Diff(completion.DroppedHeaders, dropped); diff != "" {
				t.Errorf("dropped headers (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(c.Begin(t, apitest.Charge(key)).Replay(t).Response.Headers, want); diff != "" {
				t.Errorf("replayed headers (-got +want):\n%s", diff)
			}
			asMessage := c.Begin(t, apitest.Charge(key), "Accept: application/http").Expect(t, 200)
			var wanted strings.Builder
			wanted.WriteString("HTTP/1.1 200 \r\n")
			for _, h := range want {
				fmt.Fprintf(&wanted, "%s: %s\r\n", h[0], h[1])
			}
			wanted.WriteString("\r\nx")
			if diff := cmp.Diff(string(asMessage.Body), wanted.String()); diff != "" {
				t.Errorf("message (-got +want):\n%s", diff)
			}
			// The same response in the other format is the same response.
			for again, complete := range ways {
				if diff := cmp.Diff(complete(t, held).Completion(t), completion); diff != "" {
					t.Errorf("completed again as %s (-got +want):\n%s", again, diff)
				}
			}
		})
	}
}

func TestAMessageReplayCarriesTheRestInHeaders(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	c.Complete(t, acquire(t, c, key), apitest.Object{"status": 200, "body_omitted": true, "body_ref": "s3://exports/42"}).Expect(t, 200)
	replay := c.Begin(t, apitest.Charge(key)).Replay(t)
	if !replay.Response.BodyOmitted || replay.Response.BodyRef != "s3://exports/42" || replay.Response.Body != nil {
		t.Errorf("response %+v, want no body and a reference to it", replay.Response)
	}
	a := c.Begin(t, apitest.Charge(key), "Accept: application/http").Expect(t, 200)
	checkCommonHeaders(t, a)
	got := map[string]string{}
	for name, values := range a.Header {
		if strings.HasPrefix(name, "Onceward-") || name == "Content-Type" || name == "Idempotent-Replay" {
			got[name] = strings.Join(values, "|")
		}
	}
	const layout = "2006-01-02T15:04:05.000000Z"
	want := map[string]string{
		"Content-Type": "application/http", "Idempotent-Replay": "true",
		"Onceward-Id": replay.ID, "Onceward-Attempt": "1",
		"Onceward-Created-At":   replay.CreatedAt.Format(layout),
		"Onceward-Completed-At": replay.CompletedAt.Format(layout),
		"Onceward-Expires-At":   replay.ExpiresAt.Format(layout),
		"Onceward-Body-Omitted": "true", "Onceward-Body-Ref": "s3://exports/42",
	}
	if age := got["Onceward-Age"]; age == "" || strings.ContainsAny(age, "eE-") {
		t.Errorf("Onceward-Age %q, want seconds", age)
	}
	delete(got, "Onceward-Age")
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("headers (-got +want):\n%s", diff)
	}
	if string(a.Body) != "HTTP/1.1 200 \r\n\r\n" {
		t.Errorf("body %q, want a message without one", a.Body)
	}
}

func TestEveryOtherAnswerStaysJSON(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	c.Begin(t, apitest.Charge(key), "Accept: application/http").Acquired(t)
	c.Begin(t, apitest.Charge(key), "Accept: application/http").Problem(t, 409, "in_progress")
	c.Begin(t, "{", "Accept: application/http").Problem(t, 400, "invalid_request")
}

func TestAReplaySaysThatItIsOne(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	completion := c.Complete(t, held, apitest.Object{"status": 500, "headers": [][2]string{{"Content-Type", "text/plain"}}, "body": "no"}).Completion(t)
	a := c.Begin(t, apitest.Charge(key), "Accept: */*")
	checkCommonHeaders(t, a)
	if got := a.Header.Get("Idempotent-Replay"); got != "true" {
		t.Errorf("Idempotent-Replay %q, want true", got)
	}
	got := a.Replay(t)
	no := "no"
	want := apitest.Replay{
		ID: held.ID, Outcome: "replay", Attempt: 1, FingerprintMatched: true,
		Response:  apitest.Response{Status: 500, Headers: [][2]string{{"Content-Type", "text/plain"}}, Body: &no},
		CreatedAt: held.CreatedAt, CompletedAt: *completion.CompletedAt, ExpiresAt: completion.ExpiresAt,
	}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(apitest.Replay{}, "AgeSeconds")); diff != "" {
		t.Errorf("replay (-got +want):\n%s", diff)
	}
	if got.AgeSeconds <= 0 || got.AgeSeconds > 60 {
		t.Errorf("age_seconds %v, want a moment", got.AgeSeconds)
	}
	checkTimes(t, a.Body, "created_at", "completed_at", "expires_at")
	if strings.Contains(string(a.Body), held.Lease.Token) {
		t.Error("the replay shows the lease token")
	}
}

func TestACompletionIsRefusedAtItsLimits(t *testing.T) {
	t.Parallel()
	const limit = 1000
	w := apitest.New(t, apitest.BodyLimit(limit))
	c := w.Client(w.Tenant.Service)
	tests := map[string]struct {
		body  apitest.Object
		fault string // empty: taken
	}{
		"status 200":             {apitest.Object{"status": 200}, ""},
		"status 199":             {apitest.Object{"status": 199}, "/status"},
		"status 599":             {apitest.Object{"status": 599}, ""},
		"status 600":             {apitest.Object{"status": 600}, "/status"},
		"a status beyond an int": {apitest.Object{"status": number("4294967496")}, "/status"},
		"no status":              {apitest.Object{}, "/status"},
		"status 2.0e2":           {apitest.Object{"status": number("2.0e2")}, ""},
		"a body at the limit":    {apitest.Object{"status": 200, "body": strings.Repeat("b", limit)}, ""},
		"a reference of 2048":    {apitest.Object{"status": 200, "body_omitted": true, "body_ref": strings.Repeat("r", 2048)}, ""},
		"a reference of 2049":    {apitest.Object{"status": 200, "body_omitted": true, "body_ref": strings.Repeat("r", 2049)}, "/body_ref"},
		"an empty reference":     {apitest.Object{"status": 200, "body_omitted": true, "body_ref": ""}, "/body_ref"},
		"a reference not ASCII":  {apitest.Object{"status": 200, "body_omitted": true, "body_ref": "\u00e9"}, "/body_ref"},
		"omitted, an empty body": {apitest.Object{"status": 200, "body_omitted": true, "body": ""}, ""},
		"not omitted":            {apitest.Object{"status": 200, "body_omitted": false, "body": "x"}, ""},
		"both bodies":            {apitest.Object{"status": 200, "body": "", "body_base64": ""}, "/body_base64"},
		"a body as an object":    {apitest.Object{"status": 200, "body": apitest.Object{}}, "/body"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := newKey(t)
			held := acquire(t, c, key)
			a := c.Complete(t, held, tt.body)
			if tt.fault == "" {
				a.Completion(t)
				return
			}
			checkFaults(t, a.Problem(t, 400, "invalid_request"), tt.fault)
			c.Begin(t, apitest.Charge(key)).Problem(t, 409, "in_progress") // the lease is still held
			c.Complete(t, held, apitest.Object{"status": 200}).Completion(t)
		})
	}
}

func TestABodyPastTheLimitCanBeLeftOut(t *testing.T) {
	t.Parallel()
	const limit = 1000
	w := apitest.New(t, apitest.BodyLimit(limit))
	c := w.Client(w.Tenant.Service)
	long := strings.Repeat("b", limit+1)
	ways := map[string]func(*testing.T, apitest.Acquired) *apitest.Answer{
		"JSON": func(t *testing.T, a apitest.Acquired) *apitest.Answer {
			t.Helper()
			return c.Complete(t, a, apitest.Object{"status": 201, "body": long})
		},
		"a message": func(t *testing.T, a apitest.Acquired) *apitest.Answer {
			t.Helper()
			return c.Complete(t, a, "HTTP/1.1 201 \r\n\r\n"+long, "Content-Type: application/http")
		},
	}
	for way, complete := range ways {
		t.Run("as "+way, func(t *testing.T) {
			t.Parallel()
			key := newKey(t)
			held := acquire(t, c, key)
			complete(t, held).Problem(t, 413, "body_too_large")
			c.Begin(t, apitest.Charge(key)).Problem(t, 409, "in_progress")
			c.Complete(t, held, "HTTP/1.1 201 \r\nContent-Length: 1001\r\n\r\n", "Content-Type: application/http", "Onceward-Body-Omitted: true").Completion(t)
			if got := c.Begin(t, apitest.Charge(key)).Replay(t); !got.Response.BodyOmitted || got.Response.Status != 201 {
				t.Errorf("replay %+v, want status 201 without its body", got.Response)
			}
		})
	}
}

func TestABadMessageStoresNothingAndKeepsTheLease(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	for _, message := range []string{
		"", "x", "HTTP/1.1 200 OK\n\nx", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxx", `{"status":200}`,
	} {
		p := c.Complete(t, held, message, "Content-Type: application/http").Problem(t, 400, "invalid_request")
		if len(p.Errors) != 1 || p.Errors[0].Reason == "" {
			t.Errorf("errors %+v for %q, want one reason", p.Errors, message)
		}
	}
	p := c.Complete(t, held, "HTTP/1.1 200 \r\n\r\n", "Content-Type: application/http", "Onceward-Body-Omitted: yes").Problem(t, 400, "invalid_request")
	checkFaults(t, p, "Onceward-Body-Omitted")
	c.Begin(t, apitest.Charge(key)).Problem(t, 409, "in_progress")
}

func TestACompletionThatReleasesAnswersOpen(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	storeErrors := tenants.StoreErrorsClient
	w.SetPolicy(t, tenants.Override{StoreErrors: &storeErrors})
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	a := c.Complete(t, held, apitest.Object{"status": 503, "headers": [][2]string{{"Set-Cookie", "a"}}, "body": "later"})
	got := a.Completion(t)
	if got.State != "open" || got.StoredHeaders != 0 || len(got.DroppedHeaders) != 0 || got.CompletedAt != nil {
		t.Errorf("completion %+v, want an open record with nothing stored", got)
	}
	if !strings.Contains(string(a.Body), `"dropped_headers":[],"completed_at":null`) {
		t.Errorf("body %s, want an empty list and null", a.Body)
	}
	if again := acquire(t, c, key); again.Attempt != 2 {
		t.Errorf("attempt %d after a release, want 2", again.Attempt)
	}
}

// The order of checks (wire contract, section 1): the size of a body before the
// values, whatever is wrong with them.
func TestABodyPastTheLimitIs413BeforeAnyFaultOfTheValues(t *testing.T) {
	t.Parallel()
	const limit = 1000
	w := apitest.New(t, apitest.BodyLimit(limit))
	c, admin := w.Client(w.Tenant.Service), w.Client(w.Tenant.Admin)
	long := strings.Repeat("b", limit+1)
	message := "HTTP/1.1 201 \r\n\r\n" + long
	held := acquire(t, c, newKey(t))
	path := "/v1/keys/" + held.ID + "/response"
	token := "Onceward-Lease: " + held.Lease.Token
	tests := map[string]func() *apitest.Answer{
		"no lease header":       func() *apitest.Answer { return c.Do(t, "PUT", path, apitest.Object{"status": 200, "body": long}) },
		"no status":             func() *apitest.Answer { return c.Do(t, "PUT", path, apitest.Object{"body": long}, token) },
		"a status out of range": func() *apitest.Answer { return c.Do(t, "PUT", path, apitest.Object{"status": 99, "body": long}, token) },
		"both bodies": func() *apitest.Answer {
			return c.Do(t, "PUT", path, apitest.Object{"status": 200, "body": long, "body_base64": "AA=="}, token)
		},
		"an empty reference": func() *apitest.Answer {
			return c.Do(t, "PUT", path, apitest.Object{"status": 200, "body": long, "body_ref": ""}, token)
		},
		"a message, no header": func() *apitest.Answer { return c.Do(t, "PUT", path, message, "Content-Type: application/http") },
		"a message, odd omitted": func() *apitest.Answer {
			return c.Do(t, "PUT", path, message, token, "Content-Type: application/http", "Onceward-Body-Omitted: maybe")
		},
		"a begin without a key": func() *apitest.Answer { return c.Begin(t, apitest.Object{"request": apitest.Object{"body": long}}) },
		"a begin, both bodies": func() *apitest.Answer {
			return c.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"request": apitest.Object{"body": "a", "body_base64": strings.Repeat("AAAA", limit)}}))
		},
		"a resolution, no status": func() *apitest.Answer {
			return admin.Do(t, "POST", "/v1/keys/"+held.ID+"/resolution", apitest.Object{"fence": held.Lease.Fence, "reason": "the provider says so", "action": "complete", "response": apitest.Object{"body": long}})
		},
	}
	for name, send := range tests {
		if a := send(); a.Status != 413 || !strings.Contains(string(a.Body), `"body_too_large"`) {
			t.Errorf("%s: status %d, want 413 body_too_large: %s", name, a.Status, a.Body)
		}
	}
	results := c.Do(t, "POST", "/v1/responses/batch", apitest.Object{"responses": []any{
		apitest.Object{"id": held.ID, "status": 200, "body": long}, // no lease_token
		apitest.Object{"lease_token": held.Lease.Token, "status": 200, "body": long},
		apitest.Object{"status": 200},
	}}).Results(t)
	if results[0].Status != 413 || results[1].Status != 413 {
		t.Errorf("a batch answers %s and %s, want 413 for both", results[0].Body, results[1].Body)
	}
	checkFaults(t, *results[2].Problem, "/responses/2/id", "/responses/2/lease_token")

	c.Begin(t, apitest.Object{"request": apitest.Object{"body": "a", "body_base64": "AA=="}}).Problem(t, 400, "missing_key") // before invalid_request
	c.Complete(t, held, apitest.Object{"status": 200}).Completion(t)                                                         // nothing was stored
}
