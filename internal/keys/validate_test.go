package keys

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// tryBegin is the error of a begin of a fresh key under the change.
func (h *house) tryBegin(change func(*BeginRequest)) error {
	h.t.Helper()
	_, err := h.service.Begin(h.t.Context(), h.caller, with(charge(), change))
	return err
}

// B059, B061: the form of a key, at each limit and one past it.
func TestKeyForm(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, key := range []string{"12345678", strings.Repeat("k", 255), "a b c d e", "~!@#$%^&*()", "KEY-ONE-", "key-one-"} {
		if err := h.tryBegin(func(r *BeginRequest) { r.Key = &key }); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", "1234567", strings.Repeat("k", 256), " 12345678", "12345678 ", "1234567\t", "1234567\x00", "1234567\x7f", "schlüssel", "e\u0301e\u0301e\u0301e\u0301"} {
		wantKind(t, h.tryBegin(func(r *BeginRequest) { r.Key = &key }), problem.InvalidKey)
	}
	wantKind(t, h.tryBegin(func(r *BeginRequest) { r.Key = nil }), problem.MissingKey)
	// The key is looked at before all other values.
	wantKind(t, h.tryBegin(func(r *BeginRequest) { *r = BeginRequest{LeaseSeconds: new(int64(0))} }), problem.MissingKey)
}

func TestValuesAtTheirLimits(t *testing.T) {
	t.Parallel()
	h := setup(t)
	pairs := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m["name-"+strings.Repeat("x", i)] = "v"
		}
		return m
	}
	for name, change := range map[string]func(*BeginRequest){
		"operation of 1":   func(r *BeginRequest) { r.Operation = new("o") },
		"operation of 512": func(r *BeginRequest) { r.Operation = new(strings.Repeat("o", 512)) },
		"caller of 1":      func(r *BeginRequest) { r.Caller = new("c") },
		"caller of 255":    func(r *BeginRequest) { r.Caller = new(strings.Repeat("c", 255)) },
		"owner of 22":      func(r *BeginRequest) { r.Owner = new(strings.Repeat("o", 22)) },
		"owner of 128":     func(r *BeginRequest) { r.Owner = new(strings.Repeat("-", 64) + strings.Repeat("_", 64)) },
		"no owner":         func(r *BeginRequest) { r.Owner = nil },
		"lease of 1":       func(r *BeginRequest) { r.LeaseSeconds = new(int64(1)) },
		"lease of 3600":    func(r *BeginRequest) { r.LeaseSeconds = new(int64(3600)) },
		"least retention":  func(r *BeginRequest) { r.RetentionSeconds = new(int64(60)) },
		"most retention":   func(r *BeginRequest) { r.RetentionSeconds = new(int64(2592000)) },
		"hold":             func(r *BeginRequest) { r.OnLeaseExpiry = new("hold") },
		"16 pairs":         func(r *BeginRequest) { r.Metadata = pairs(16) },
		"name of 40, value 200": func(r *BeginRequest) {
			r.Metadata = map[string]string{strings.Repeat("n", 40): strings.Repeat("é", 200)}
		},
		"empty value":             func(r *BeginRequest) { r.Metadata = map[string]string{"A.b_c-9": ""} },
		"method of 32":            func(r *BeginRequest) { r.Request.Method = new(strings.Repeat("M", 32)) },
		"path of 8192":            func(r *BeginRequest) { r.Operation = new("o"); r.Request.Path = new(strings.Repeat("/", 8192)) },
		"empty query and type":    func(r *BeginRequest) { r.Request.Query, r.Request.ContentType = new(""), new("") },
		"nothing in the request":  func(r *BeginRequest) { r.Operation = new("o"); r.Request = &RequestPayload{} },
		"digest":                  func(r *BeginRequest) { r.Operation, r.Request, r.Fingerprint = new("o"), nil, new(zeroDigest) },
		"derived operation, 512":  func(r *BeginRequest) { r.Request.Path = new(strings.Repeat("/", 507)) },
		"body as large as it may": func(r *BeginRequest) { r.Request.Body = make([]byte, tenants.DefaultBodyLimit) },
	} {
		if err := h.tryBegin(change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, test := range map[string]struct {
		change  func(*BeginRequest)
		pointer string
	}{
		"empty operation":           {func(r *BeginRequest) { r.Operation = new("") }, "/operation"},
		"operation of 513":          {func(r *BeginRequest) { r.Operation = new(strings.Repeat("o", 513)) }, "/operation"},
		"operation not ASCII":       {func(r *BeginRequest) { r.Operation = new("é") }, "/operation"},
		"derived operation, 513":    {func(r *BeginRequest) { r.Request.Path = new(strings.Repeat("/", 508)) }, "/operation"},
		"derived, not ASCII":        {func(r *BeginRequest) { r.Request.Path = new("/é") }, "/operation"},
		"no method":                 {func(r *BeginRequest) { r.Request.Method = nil }, "/operation"},
		"no path":                   {func(r *BeginRequest) { r.Request.Path = nil }, "/operation"},
		"digest without operation":  {func(r *BeginRequest) { r.Request, r.Fingerprint = nil, new(zeroDigest) }, "/operation"},
		"empty caller":              {func(r *BeginRequest) { r.Caller = new("") }, "/caller"},
		"caller of 256":             {func(r *BeginRequest) { r.Caller = new(strings.Repeat("c", 256)) }, "/caller"},
		"caller with a control":     {func(r *BeginRequest) { r.Caller = new("a\nb") }, "/caller"},
		"owner of 21":               {func(r *BeginRequest) { r.Owner = new(strings.Repeat("o", 21)) }, "/owner"},
		"owner of 129":              {func(r *BeginRequest) { r.Owner = new(strings.Repeat("o", 129)) }, "/owner"},
		"owner with a dot":          {func(r *BeginRequest) { r.Owner = new(strings.Repeat("o.", 16)) }, "/owner"},
		"hold without owner":        {func(r *BeginRequest) { r.Owner, r.OnLeaseExpiry = nil, new("hold") }, "/owner"},
		"takeover asked for":        {func(r *BeginRequest) { r.OnLeaseExpiry = new("takeover") }, "/on_lease_expiry"},
		"lease of 0":                {func(r *BeginRequest) { r.LeaseSeconds = new(int64(0)) }, "/lease_seconds"},
		"lease of 3601":             {func(r *BeginRequest) { r.LeaseSeconds = new(int64(3601)) }, "/lease_seconds"},
		"retention below":           {func(r *BeginRequest) { r.RetentionSeconds = new(int64(59)) }, "/retention_seconds"},
		"retention above":           {func(r *BeginRequest) { r.RetentionSeconds = new(int64(2592001)) }, "/retention_seconds"},
		"17 pairs":                  {func(r *BeginRequest) { r.Metadata = pairs(17) }, "/metadata"},
		"name of 41":                {func(r *BeginRequest) { r.Metadata = map[string]string{strings.Repeat("n", 41): ""} }, "/metadata"},
		"name with a space":         {func(r *BeginRequest) { r.Metadata = map[string]string{"a b": ""} }, "/metadata"},
		"value of 201":              {func(r *BeginRequest) { r.Metadata = map[string]string{"n": strings.Repeat("é", 201)} }, "/metadata/n"},
		"value with a control":      {func(r *BeginRequest) { r.Metadata = map[string]string{"n": "a\u0085b"} }, "/metadata/n"},
		"neither request nor print": {func(r *BeginRequest) { r.Operation, r.Request = new("o"), nil }, ""},
		"both":                      {func(r *BeginRequest) { r.Fingerprint = new(zeroDigest) }, "/fingerprint"},
		"digest in capitals": {func(r *BeginRequest) {
			r.Operation, r.Request, r.Fingerprint = new("o"), nil, new(strings.Repeat("A", 64))
		}, "/fingerprint"},
		"digest of 63":         {func(r *BeginRequest) { r.Operation, r.Request, r.Fingerprint = new("o"), nil, new(zeroDigest[1:]) }, "/fingerprint"},
		"empty method":         {func(r *BeginRequest) { r.Operation = new("o"); r.Request.Method = new("") }, "/request/method"},
		"method of 33":         {func(r *BeginRequest) { r.Request.Method = new(strings.Repeat("M", 33)) }, "/request/method"},
		"method with a space":  {func(r *BeginRequest) { r.Request.Method = new("A B") }, "/request/method"},
		"empty path":           {func(r *BeginRequest) { r.Operation = new("o"); r.Request.Path = new("") }, "/request/path"},
		"path of 8193":         {func(r *BeginRequest) { r.Operation = new("o"); r.Request.Path = new(strings.Repeat("/", 8193)) }, "/request/path"},
		"path with a query":    {func(r *BeginRequest) { r.Request.Path = new("/a?b") }, "/request/path"},
		"path with a fragment": {func(r *BeginRequest) { r.Request.Path = new("/a#b") }, "/request/path"},
		"query with its mark":  {func(r *BeginRequest) { r.Request.Query = new("?a=1") }, "/request/query"},
	} {
		p := wantKind(t, h.tryBegin(test.change), problem.InvalidRequest)
		if len(p.Fields) != 1 || p.Fields[0].Pointer != test.pointer || p.Fields[0].Reason == "" {
			t.Errorf("%s: %+v, want only %q", name, p.Fields, test.pointer)
		}
	}
	wantKind(t, h.tryBegin(func(r *BeginRequest) { r.Request.Body = make([]byte, tenants.DefaultBodyLimit+1) }), problem.BodyTooLarge)
	// Size comes before all values.
	wantKind(t, h.tryBegin(func(r *BeginRequest) { r.Key, r.Request.Body = nil, make([]byte, tenants.DefaultBodyLimit+1) }), problem.BodyTooLarge)
}

func TestEverythingWrongIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	h := setup(t)
	p := wantKind(t, h.tryBegin(func(r *BeginRequest) {
		r.Owner, r.LeaseSeconds, r.RetentionSeconds = new("short"), new(int64(-1)), new(int64(1))
	}), problem.InvalidRequest)
	var pointers []string
	for _, f := range p.Fields {
		pointers = append(pointers, f.Pointer)
	}
	if diff := cmp.Diff(pointers, []string{"/lease_seconds", "/retention_seconds", "/owner"}); diff != "" {
		t.Error(diff)
	}
}

func TestPolicyDecidesWhatTheCallLeavesOut(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.policy("", func(o *tenants.Override) { o.OnLeaseExpiry = new(tenants.OnLeaseExpiryHold) })
	wantKind(t, h.tryBegin(func(r *BeginRequest) { r.Owner = nil }), problem.InvalidRequest)
	if a := h.acquire(h.caller, charge()); a.Lease.OnLeaseExpiry != tenants.OnLeaseExpiryHold {
		t.Errorf("got %+v", a)
	}
}

func TestAPolicyThatCannotBeReadIsUnavailable(t *testing.T) {
	t.Parallel()
	h := setup(t)
	if _, err := h.pool.Exec(t.Context(), "alter table policies rename to policies_gone"); err != nil {
		t.Fatal(err)
	}
	unread, err := tenants.New(h.pool)
	if err != nil {
		t.Fatal(err)
	}
	h.tenants = unread
	_, err = h.process(h.pool).Begin(t.Context(), h.caller, charge())
	wantKind(t, err, problem.KindUnavailable)
	var records int
	if err := h.pool.QueryRow(t.Context(), "select count(*) from idempotency_keys").Scan(&records); err != nil || records != 0 {
		t.Errorf("%d records, %v", records, err)
	}
}
