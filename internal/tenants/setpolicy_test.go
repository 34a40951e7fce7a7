package tenants

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

func TestAPolicyRowIsReplacedWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	first := b.setPolicy(t, tenant, Override{Operation: "op", Lease: ptr(time.Second), MismatchStatus: ptr(400)})
	second := b.setPolicy(t, tenant, Override{Operation: "op", Lease: ptr(time.Hour), StripHeaders: ptr([]string{"X-Secret"})})
	if second != first+1 {
		t.Errorf("version %d after %d", second, first)
	}
	got := b.mustSnapshot(t, tenant).Overrides(auth.NamespaceID{})
	want := []Override{{Operation: "op", Lease: ptr(time.Hour), StripHeaders: ptr([]string{"x-secret"})}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestWhatAPolicyCannotSayIsNamedByPointer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{MinRetention: time.Minute, MaxRetention: time.Hour}).ID
	b.newNamespace(t, tenant, NamespaceParams{Name: "live"})
	foreign := b.newNamespace(t, b.newTenant(t, CreateParams{}).ID, NamespaceParams{Name: "live"})
	before := b.mustSnapshot(t, tenant).PolicyVersion
	for what, tt := range map[string]struct {
		row  Override
		want []string
	}{
		"an operation too long":          {Override{Operation: strings.Repeat("o", maxOperationLength+1)}, []string{"/operation"}},
		"an operation that is not ASCII": {Override{Operation: "é"}, []string{"/operation"}},
		"an operation with a tab":        {Override{Operation: "a\tb"}, []string{"/operation"}},
		"a namespace alone":              {Override{Namespace: foreign.ID}, []string{"/namespace"}},
		"another tenant's namespace":     {Override{Operation: "op", Namespace: foreign.ID}, []string{"/namespace"}},
		"no namespace of that id":        {Override{Operation: "op", Namespace: auth.NamespaceID(uuid.New())}, []string{"/namespace"}},
		"a retention below the minimum":  {Override{Retention: ptr(59 * time.Second)}, []string{"/retention_seconds"}},
		"a retention above the maximum":  {Override{Retention: ptr(3601 * time.Second)}, []string{"/retention_seconds"}},
		"no retention":                   {Override{Retention: ptr(time.Duration(0))}, []string{"/retention_seconds"}},
		"a retention of a broken second": {Override{Retention: ptr(90*time.Second + time.Nanosecond)}, []string{"/retention_seconds"}},
		"a retention of 292 years":       {Override{Retention: ptr(time.Duration(1<<63 - 1).Truncate(time.Second))}, []string{"/retention_seconds"}},
		"no lease":                       {Override{Lease: ptr(time.Duration(0))}, []string{"/lease_seconds"}},
		"a lease over an hour":           {Override{Lease: ptr(3601 * time.Second)}, []string{"/lease_seconds"}},
		"a lease of a broken second":     {Override{Lease: ptr(1500 * time.Millisecond)}, []string{"/lease_seconds"}},
		"on_mismatch":                    {Override{OnMismatch: ptr(OnMismatch("ignore"))}, []string{"/on_mismatch"}},
		"mismatch_status":                {Override{MismatchStatus: ptr(404)}, []string{"/mismatch_status"}},
		"on_lease_expiry":                {Override{OnLeaseExpiry: ptr(OnLeaseExpiry(""))}, []string{"/on_lease_expiry"}},
		"store_errors":                   {Override{StoreErrors: ptr(StoreErrors("All"))}, []string{"/store_errors"}},
		"store_body":                     {Override{StoreBody: ptr(StoreBody("some"))}, []string{"/store_body"}},
		"a header that is no token":      {Override{StripHeaders: ptr([]string{"ok", "not ok", ""})}, []string{"/strip_headers/1", "/strip_headers/2"}},
		"a header too long":              {Override{KeepHeaders: ptr([]string{strings.Repeat("h", maxHeaderNameBytes+1)})}, []string{"/keep_headers/0"}},
		"too many headers":               {Override{KeepHeaders: ptr(slices.Repeat([]string{"h"}, maxHeaderNames+1))}, []string{"/keep_headers"}},
		"too many pointers":              {Override{IgnorePointers: ptr(slices.Repeat([]string{"/p"}, maxIgnorePointers+1))}, []string{"/ignore_pointers"}},
		"texts that are no pointers":     {Override{IgnorePointers: ptr([]string{"sent_at", "/ok", "/a~2", "/nul\x00", "/\xff", "/" + strings.Repeat("p", maxPointerBytes)})}, []string{"/ignore_pointers/0", "/ignore_pointers/2", "/ignore_pointers/3", "/ignore_pointers/4", "/ignore_pointers/5"}},
	} {
		_, err := b.SetPolicy(t.Context(), tenant, tt.row)
		if diff := cmp.Diff(pointers(err), tt.want); diff != "" {
			t.Errorf("%s: %v (-got +want):\n%s", what, err, diff)
		}
	}
	after := b.mustSnapshot(t, tenant)
	if after.PolicyVersion != before || len(after.Overrides(auth.NamespaceID{})) != 0 {
		t.Errorf("version %d after %d: something changed all the same", after.PolicyVersion, before)
	}
}

func TestWhatIsAtALimitIsAllowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{MinRetention: time.Minute, MaxRetention: time.Hour}).ID
	namespace := b.newNamespace(t, tenant, NamespaceParams{Name: "live"})
	var every []string
	for i := range maxIgnorePointers {
		every = append(every, fmt.Sprintf("/%d/~0~1é", i))
	}
	for what, row := range map[string]Override{
		"the longest operation":    {Operation: strings.Repeat("~", maxOperationLength)},
		"the shortest retention":   {Retention: ptr(time.Minute)},
		"the longest retention":    {Retention: ptr(time.Hour), Operation: "a"},
		"the shortest lease":       {Lease: ptr(time.Second), Operation: "b"},
		"the longest lease":        {Lease: ptr(time.Hour), Operation: "c"},
		"all pointers":             {IgnorePointers: &every, Operation: "d"},
		"the longest pointer":      {IgnorePointers: ptr([]string{"/" + strings.Repeat("p", maxPointerBytes-1)}), Operation: "e"},
		"the whole document":       {IgnorePointers: ptr([]string{""}), Operation: "f"},
		"all headers":              {StripHeaders: ptr(slices.Repeat([]string{strings.Repeat("h", maxHeaderNameBytes)}, maxHeaderNames)), Operation: "g"},
		"every sign of a token":    {KeepHeaders: ptr([]string{"!#$%&'*+-.^_`|~09azAZ"}), Operation: "h"},
		"one operation, one place": {Namespace: namespace.ID, Operation: "POST /v1/payouts"},
	} {
		if _, err := b.SetPolicy(t.Context(), tenant, row); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := len(b.mustSnapshot(t, tenant).Overrides(namespace.ID)); got != 11 {
		t.Errorf("%d rows, want 11", got)
	}
}

func TestAChangeThatFailsRaisesNoVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	b.exec(t, "alter table policies add constraint no_more check (false) not valid")
	if _, err := b.SetPolicy(t.Context(), tenant, Override{Lease: ptr(time.Second)}); !errors.Is(err, problem.KindInternal) {
		t.Errorf("got %v, want internal", err)
	}
	if got, err := b.Tenant(t.Context(), tenant); err != nil || got.PolicyVersion != 1 {
		t.Errorf("version %d, %v, want 1", got.PolicyVersion, err)
	}
}
