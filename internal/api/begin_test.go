package api_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
)

const anOwner = "0d9f4c1e8a7b4d0c9e55aa01"

// timeForm is RFC 3339, UTC, six digits of fraction and Z.
var timeForm = regexp.MustCompile(`^"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"$`)

func Test201AcquiredSaysEverythingAboutTheLease(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	before := time.Now()
	a := w.Client(w.Tenant.Service).Begin(t, apitest.Charge(newKey(t)))
	checkCommonHeaders(t, a)
	got := a.Acquired(t)
	if location := a.Header.Get("Location"); location != "/v1/keys/"+got.ID {
		t.Errorf("Location %q, want the record's address", location)
	}
	if got.Attempt != 1 || got.Resumed || got.TakenOver || got.RecoveryPoint != nil || got.Lease.OnLeaseExpiry != "takeover" {
		t.Errorf("acquired %+v, want attempt 1 of a new record under takeover", got)
	}
	if length := got.Lease.ExpiresAt.Sub(got.CreatedAt); length != time.Minute {
		t.Errorf("the lease is %s long, want the policy's minute", length)
	}
	if got.Lease.Fence < before.Add(-time.Minute).UnixMicro() || got.Lease.Token == "" {
		t.Errorf("lease %+v, want a token and a fence of about now in microseconds", got.Lease)
	}
	var raw map[string]any
	a.Decode(t, &raw)
	want := []string{"attempt", "created_at", "expires_at", "id", "lease", "outcome", "recovery_point", "resumed", "taken_over"}
	if diff := cmp.Diff(names(raw), want); diff != "" {
		t.Errorf("members (-got +want):\n%s", diff)
	}
	checkTimes(t, a.Body, "created_at", "expires_at")
}

func names(o map[string]any) []string {
	var list []string
	for name := range o {
		list = append(list, name)
	}
	return sorted(list)
}

// checkTimes checks the written form of members that are times.
func checkTimes(t *testing.T, body []byte, members ...string) {
	t.Helper()
	for _, name := range members {
		value := regexp.MustCompile(`"` + name + `":("[^"]*")`).FindSubmatch(body)
		if value == nil || !timeForm.Match(value[1]) {
			t.Errorf("%s is not a time in UTC with six digits of fraction in %s", name, body)
		}
	}
}

func TestARecordUnderHoldDoesNotExpire(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	got := c.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"on_lease_expiry": "hold", "owner": anOwner})).Acquired(t)
	if got.ExpiresAt != nil || got.Lease.OnLeaseExpiry != "hold" {
		t.Errorf("expires_at %v under %s, want null under hold", got.ExpiresAt, got.Lease.OnLeaseExpiry)
	}
	without := apitest.Charge(newKey(t)).With(apitest.Object{"on_lease_expiry": "hold"})
	checkFaults(t, c.Begin(t, without).Problem(t, 400, "invalid_request"), "/owner")
}

// checkFaults compares the pointers and parameters that a problem names.
func checkFaults(t *testing.T, p apitest.Problem, want ...string) {
	t.Helper()
	var got []string
	for _, e := range p.Errors {
		got = append(got, e.Pointer+e.Parameter)
		if e.Reason == "" {
			t.Errorf("%s%s has no reason", e.Pointer, e.Parameter)
		}
	}
	if diff := cmp.Diff(got, want, cmpSorted(func(a, b string) bool { return a < b }), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("faults (-got +want):\n%s", diff)
	}
}

func Test409InProgressSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	a := c.Begin(t, apitest.Charge(key))
	checkCommonHeaders(t, a)
	p := a.Problem(t, 409, "in_progress")
	retryAfter, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || retryAfter < 1 || retryAfter > 30 || retryAfter != p.RetryAfter {
		t.Errorf("Retry-After %q and retry_after %d, want the same whole number from 1 to 30", a.Header.Get("Retry-After"), p.RetryAfter)
	}
	if p.Attempt != 1 || p.LeaseExpiresAt == nil || !p.LeaseExpiresAt.Equal(held.Lease.ExpiresAt) {
		t.Errorf("attempt %d, lease_expires_at %v; want 1 and %v", p.Attempt, p.LeaseExpiresAt, held.Lease.ExpiresAt)
	}
	checkTimes(t, a.Body, "lease_expires_at")
	if p.Type != w.URL+"/problems/in_progress" || p.Title == "" || p.Detail == "" {
		t.Errorf("type %q, title %q, detail %q; want an address of this service and two sentences", p.Type, p.Title, p.Detail)
	}
	w.Client("").Do(t, http.MethodGet, strings.TrimPrefix(p.Type, w.URL), nil).Expect(t, 200)
}

func TestTheConfiguredAddressIsTheOneInProblems(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BaseURL("https://api.example.test/"))
	p := w.Client("").Begin(t, apitest.Charge("12345678")).Problem(t, 401, "unauthenticated")
	if want := "https://api.example.test/problems/unauthenticated"; p.Type != want {
		t.Errorf("type %q, want %q", p.Type, want)
	}
}

func Test409OutcomeUnknownHasNoRetryAfter(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	begin := apitest.Charge(key).With(apitest.Object{"on_lease_expiry": "hold", "owner": anOwner})
	held := c.Begin(t, begin).Acquired(t)
	w.Advance(t, held.ID, 2*time.Minute)
	a := c.Begin(t, begin.With(apitest.Object{"owner": anOwner + "2"}))
	p := a.Problem(t, 409, "outcome_unknown")
	if a.Header.Get("Retry-After") != "" || p.RetryAfter != 0 {
		t.Errorf("Retry-After %q and retry_after %d, want none", a.Header.Get("Retry-After"), p.RetryAfter)
	}
}

func TestAMismatchHasTheStatusOfThePolicyAndNeverTheStoredBody(t *testing.T) {
	t.Parallel()
	for _, status := range []int{409, 422, 400} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			w := apitest.New(t)
			w.SetPolicy(t, tenants.Override{MismatchStatus: &status})
			c := w.Client(w.Tenant.Service)
			key := newKey(t)
			held := acquire(t, c, key)
			other := apitest.Charge(key)
			other["request"] = other["request"].(apitest.Object).With(apitest.Object{"body": `{"amount":5000}`})
			for _, when := range []string{"in progress", "completed"} {
				a := c.Begin(t, other, "Prefer: wait=1")
				p := a.Problem(t, status, "fingerprint_mismatch")
				if diff := cmp.Diff(p.Differs, []string{"body"}); diff != "" {
					t.Errorf("differs while %s (-got +want):\n%s", when, diff)
				}
				if a.Header.Get("Retry-After") != "" || strings.Contains(string(a.Body), "canary") {
					t.Errorf("while %s: Retry-After %q, body %s", when, a.Header.Get("Retry-After"), a.Body)
				}
				c.Complete(t, held, apitest.Object{"status": 201, "body": "canary"}).Expect(t, 200)
			}
		})
	}
}

func TestAReplayMayBeThePolicyForAMismatch(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	replay := tenants.OnMismatchReplay
	w.SetPolicy(t, tenants.Override{OnMismatch: &replay})
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	c.Complete(t, acquire(t, c, key), apitest.Object{"status": 201, "body": "x"}).Expect(t, 200)
	other := apitest.Charge(key)
	other["request"] = other["request"].(apitest.Object).With(apitest.Object{"body": `{"amount":5000}`})
	if got := c.Begin(t, other).Replay(t); got.FingerprintMatched {
		t.Error("fingerprint_matched is true for another request")
	}
	a := c.Begin(t, other, "Accept: application/http").Expect(t, 200)
	if got := a.Header.Get("Onceward-Fingerprint-Matched"); got != "false" {
		t.Errorf("Onceward-Fingerprint-Matched %q, want false", got)
	}
}

func TestABeginIsResumedByItsOwner(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	begin := apitest.Charge(newKey(t)).With(apitest.Object{"owner": anOwner})
	first := c.Begin(t, begin).Acquired(t)
	a := c.Begin(t, begin)
	second := a.Acquired(t)
	want := first
	want.Resumed = true
	if diff := cmp.Diff(second, want); diff != "" {
		t.Errorf("resumed begin (-got +want):\n%s", diff)
	}
	if got := a.Header.Get("Location"); got != "/v1/keys/"+first.ID {
		t.Errorf("Location %q of a resumed begin", got)
	}
}

func TestATakeoverGetsTheRecoveryPointAsItWasSent(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	first := acquire(t, c, key)
	const data = `{ "b":1.10 ,"a" :[1e2,null,"\u0041"],  "n":12345678901234567890}`
	c.SetRecoveryPoint(t, first, `{"name":"charged","data":`+data+`}`).Expect(t, 204)
	w.Advance(t, first.ID, pastLease)
	a := c.Begin(t, apitest.Charge(key))
	second := a.Acquired(t)
	if second.Attempt != 2 || !second.TakenOver || second.Lease.Fence <= first.Lease.Fence || second.Lease.Token == first.Lease.Token {
		t.Errorf("second attempt %+v after %+v, want a takeover with a higher fence and another token", second, first)
	}
	if !strings.Contains(string(a.Body), `"recovery_point":{"name":"charged","data":`+data+`}`) {
		t.Errorf("the recovery point is not as it was sent in %s", a.Body)
	}
}

func TestAKeyIsRefusedWithACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	tests := map[string]struct {
		key  any
		code string
	}{
		"absent":           {nil, "missing_key"},
		"empty":            {"", "invalid_key"},
		"7 characters":     {"1234567", "invalid_key"},
		"8 characters":     {"1234567!", ""},
		"255 characters":   {strings.Repeat("k", 255), ""},
		"256 characters":   {strings.Repeat("k", 256), "invalid_key"},
		"a space first":    {" 12345678", "invalid_key"},
		"a space last":     {"12345678 ", "invalid_key"},
		"a tab":            {"1234\t5678", "invalid_key"},
		"beyond ASCII":     {"cl\u00e9-12345678", "invalid_key"},
		"in upper case":    {"KEY-OF-A-TEST", ""},
		"in lower case":    {"key-of-a-test", ""},
		"a space between":  {"1234 5678", ""},
		"every other sign": {"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Another fault of the values beside it: the key comes first.
			begin := apitest.Charge("").With(apitest.Object{"key": tt.key})
			if tt.code != "" {
				c.Begin(t, begin.With(apitest.Object{"lease_seconds": 0})).Problem(t, 400, tt.code)
				return
			}
			c.Begin(t, begin).Acquired(t)
		})
	}
}

// Every limit of a begin that is not the key's: as it is, and one past it.
func TestTheValuesOfABeginAtTheirLimits(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	request := func(members apitest.Object) apitest.Object {
		return apitest.Object{"request": apitest.Charge("")["request"].(apitest.Object).With(members)}
	}
	pairs := func(n int) apitest.Object {
		metadata := apitest.Object{}
		for i := range n {
			metadata["m"+strconv.Itoa(i)] = "v"
		}
		return apitest.Object{"metadata": metadata}
	}
	tests := map[string]struct {
		members apitest.Object
		fault   string // empty: taken
	}{
		"operation of 512":             {apitest.Object{"operation": strings.Repeat("o", 512)}, ""},
		"operation of 513":             {apitest.Object{"operation": strings.Repeat("o", 513)}, "/operation"},
		"empty operation":              {apitest.Object{"operation": ""}, "/operation"},
		"no operation":                 {apitest.Object{"operation": nil}, ""},
		"an operation and no path":     {request(apitest.Object{"path": nil}), ""},
		"no operation and no path":     {apitest.Object{"operation": nil, "request": apitest.Object{"method": "POST"}}, ""},
		"caller of 255":                {apitest.Object{"caller": strings.Repeat("c", 255)}, ""},
		"caller of 256":                {apitest.Object{"caller": strings.Repeat("c", 256)}, "/caller"},
		"empty caller":                 {apitest.Object{"caller": ""}, "/caller"},
		"owner of 22":                  {apitest.Object{"owner": strings.Repeat("o", 22)}, ""},
		"owner of 21":                  {apitest.Object{"owner": strings.Repeat("o", 21)}, "/owner"},
		"owner of 128":                 {apitest.Object{"owner": strings.Repeat("o", 128)}, ""},
		"owner of 129":                 {apitest.Object{"owner": strings.Repeat("o", 129)}, "/owner"},
		"lease of 1":                   {apitest.Object{"lease_seconds": 1}, ""},
		"lease of 0":                   {apitest.Object{"lease_seconds": 0}, "/lease_seconds"},
		"lease of 3600":                {apitest.Object{"lease_seconds": 3600}, ""},
		"lease of 3601":                {apitest.Object{"lease_seconds": 3601}, "/lease_seconds"},
		"negative lease":               {apitest.Object{"lease_seconds": -1}, "/lease_seconds"},
		"retention of an hour":         {apitest.Object{"retention_seconds": 3600}, ""},
		"retention below an hour":      {apitest.Object{"retention_seconds": 3599}, "/retention_seconds"},
		"retention of 30 days":         {apitest.Object{"retention_seconds": 2592000}, ""},
		"retention over 30 days":       {apitest.Object{"retention_seconds": 2592001}, "/retention_seconds"},
		"takeover asked for":           {apitest.Object{"on_lease_expiry": "takeover", "owner": anOwner}, "/on_lease_expiry"},
		"16 pairs of metadata":         {pairs(16), ""},
		"17 pairs of metadata":         {pairs(17), "/metadata"},
		"metadata of 200 characters":   {apitest.Object{"metadata": apitest.Object{"a": strings.Repeat("\u00e9", 200)}}, ""},
		"metadata of 201 characters":   {apitest.Object{"metadata": apitest.Object{"a": strings.Repeat("\u00e9", 201)}}, "/metadata/a"},
		"metadata with a control":      {apitest.Object{"metadata": apitest.Object{"a": "\u0085"}}, "/metadata/a"},
		"metadata's name of 40":        {apitest.Object{"metadata": apitest.Object{strings.Repeat("n", 40): ""}}, ""},
		"metadata's name of 41":        {apitest.Object{"metadata": apitest.Object{strings.Repeat("n", 41): ""}}, "/metadata"},
		"method of 32":                 {request(apitest.Object{"method": strings.Repeat("M", 32)}), ""},
		"method of 33":                 {request(apitest.Object{"method": strings.Repeat("M", 33)}), "/request/method"},
		"method that is no token":      {request(apitest.Object{"method": "P T"}), "/request/method"},
		"path of 8192":                 {request(apitest.Object{"path": strings.Repeat("/", 8192)}), ""},
		"path of 8193":                 {request(apitest.Object{"path": strings.Repeat("/", 8193)}), "/request/path"},
		"path with a query":            {request(apitest.Object{"path": "/a?b"}), "/request/path"},
		"path with a fragment":         {request(apitest.Object{"path": "/a#b"}), "/request/path"},
		"query with its mark":          {request(apitest.Object{"query": "?a=b"}), "/request/query"},
		"neither request nor digest":   {apitest.Object{"request": nil}, ""},
		"both request and digest":      {apitest.Object{"fingerprint": strings.Repeat("a", 64)}, "/fingerprint"},
		"a digest alone":               {apitest.Object{"request": nil, "fingerprint": strings.Repeat("a", 64)}, ""},
		"a digest of 63 digits":        {apitest.Object{"request": nil, "fingerprint": strings.Repeat("a", 63)}, "/fingerprint"},
		"a digest in upper case":       {apitest.Object{"request": nil, "fingerprint": strings.Repeat("A", 64)}, "/fingerprint"},
		"a digest without operation":   {apitest.Object{"request": nil, "operation": nil, "fingerprint": strings.Repeat("a", 64)}, "/operation"},
		"a lease written as 3.0e1":     {apitest.Object{"lease_seconds": number("3.0e1")}, ""},
		"a retention written as 864e2": {apitest.Object{"retention_seconds": number("864e2")}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := c.Begin(t, apitest.Charge(newKey(t)).With(tt.members))
			switch {
			case name == "no operation and no path":
				checkFaults(t, a.Problem(t, 400, "invalid_request"), "/operation")
			case name == "neither request nor digest":
				checkFaults(t, a.Problem(t, 400, "invalid_request"), "")
			case tt.fault != "":
				checkFaults(t, a.Problem(t, 400, "invalid_request"), tt.fault)
			default:
				a.Acquired(t)
			}
		})
	}
}

func TestARequestBodyAtTheLimitAndOnePastIt(t *testing.T) {
	t.Parallel()
	const limit = 100
	w := apitest.New(t, apitest.BodyLimit(limit))
	c := w.Client(w.Tenant.Service)
	begin := func(payload apitest.Object) apitest.Object {
		return apitest.Charge(newKey(t)).With(apitest.Object{"request": payload})
	}
	c.Begin(t, begin(apitest.Object{"body": strings.Repeat("b", limit)})).Acquired(t)
	c.Begin(t, begin(apitest.Object{"body_base64": make([]byte, limit)})).Acquired(t)
	c.Begin(t, begin(apitest.Object{"body": strings.Repeat("b", limit+1)})).Problem(t, 413, "body_too_large")
	c.Begin(t, begin(apitest.Object{"body_base64": make([]byte, limit+1)})).Problem(t, 413, "body_too_large")
	// The largest body, written as largely as JSON allows.
	escaped := `{"key":"` + newKey(t) + `","operation":"o","request":{"body":"` + strings.Repeat(`\u0041`, limit) + `"}}`
	c.Begin(t, escaped).Acquired(t)
	// The size comes before the values.
	c.Begin(t, begin(apitest.Object{"body": strings.Repeat("b", limit+1)}).With(apitest.Object{"key": nil})).Problem(t, 413, "body_too_large")
}

func TestABodyThatIsJSONInsideJSONIsTold(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	p := c.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"request": apitest.Object{"body": apitest.Object{"amount": 1}}})).Problem(t, 400, "invalid_request")
	checkFaults(t, p, "/request/body")
	if !strings.Contains(p.Detail, "text") {
		t.Errorf("detail %q does not say to send it as text", p.Detail)
	}
}

// B121: names of headers are read in any letter case, over HTTP/1.1 and over
// HTTP/2, where they are always in lower case.
func TestHeadersAreReadInAnyLetterCase(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	held := acquire(t, w.Client(w.Tenant.Service), newKey(t))
	conn := dial(t, w.URL)
	conn.send(t, "PATCH /v1/keys/"+held.ID+"/lease HTTP/1.1\r\nhost: x\r\naUTHORIZATION: Bearer "+w.Tenant.Service+"\r\nONCEWARD-LEASE: "+held.Lease.Token+"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
	if got := conn.readAll(t); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("answer %.300q, want 200", got)
	}
}
