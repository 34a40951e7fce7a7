package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
)

func TestTheContractSaysWhatHoldsInTheNamespace(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(2000), apitest.Retention(time.Minute, 10*time.Hour))
	hold, lease, retention := tenants.OnLeaseExpiryHold, 2*time.Minute, 2*time.Hour
	w.SetPolicy(t, tenants.Override{Operation: "POST /v1/payouts", OnLeaseExpiry: &hold, IgnorePointers: &[]string{"/sent_at"}})
	w.SetPolicy(t, tenants.Override{Operation: "POST /v1/payouts", Namespace: w.Tenant.Live, Lease: &lease})
	w.SetPolicy(t, tenants.Override{Operation: "a", Retention: &retention})
	w.SetPolicy(t, tenants.Override{Operation: "b", Namespace: w.Tenant.Flat, Lease: &lease})

	a := w.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	checkCommonHeaders(t, a)
	var got map[string]any
	a.Decode(t, &got)
	if version, ok := got["policy_version"].(float64); !ok || version < 5 {
		t.Errorf("policy_version %v after four changes", got["policy_version"])
	}
	delete(got, "policy_version")
	// The contract's default retention of a day is past the limit of this tenant.
	want := map[string]any{
		"namespace":   map[string]any{"id": w.Tenant.Live.String(), "name": "live", "key_scope": "operation"},
		"key_pattern": `^[\x21-\x7E][\x20-\x7E]{6,253}[\x21-\x7E]$`,
		"defaults":    map[string]any{"retention_seconds": 36000.0, "lease_seconds": 60.0, "on_lease_expiry": "takeover", "ignore_pointers": []any{}},
		"operations": []any{
			map[string]any{"operation": "POST /v1/payouts", "retention_seconds": 36000.0, "lease_seconds": 120.0, "on_lease_expiry": "hold", "ignore_pointers": []any{"/sent_at"}},
			map[string]any{"operation": "a", "retention_seconds": 7200.0, "lease_seconds": 60.0, "on_lease_expiry": "takeover", "ignore_pointers": []any{}},
		},
		"limits": map[string]any{
			"body_bytes": 2000.0, "json_request_bytes": 77536.0, "http_message_bytes": 67536.0, "batch_request_bytes": 16777216.0, "batch_entries": 500.0,
			"min_retention_seconds": 60.0, "max_retention_seconds": 36000.0, "min_lease_seconds": 1.0, "max_lease_seconds": 3600.0,
			"max_wait_seconds": 30.0, "metadata_pairs": 16.0, "metadata_value_length": 200.0,
		},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("contract (-got +want):\n%s", diff)
	}

	var flat map[string]any
	w.Client(w.Tenant.FlatService).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200).Decode(t, &flat)
	if diff := cmp.Diff(flat["namespace"], any(map[string]any{"id": w.Tenant.Flat.String(), "name": "flat", "key_scope": "namespace"})); diff != "" {
		t.Errorf("namespace (-got +want):\n%s", diff)
	}
	if operations := flat["operations"].([]any); len(operations) != 3 {
		t.Errorf("%d operations in the other namespace, want 3", len(operations))
	}
}

func TestTheKeyPatternTakesWhatBeginTakes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	var contract map[string]any
	c.Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200).Decode(t, &contract)
	pattern := regexp.MustCompile(contract["key_pattern"].(string))
	for _, key := range []string{
		"1234567", "12345678", strings.Repeat("k", 255), strings.Repeat("k", 256), " 12345678", "12345678 ", "1234 5678", "1234\t5678", "12345678\u00e9", "!!!!!!!~", "",
	} {
		taken := c.Begin(t, apitest.Charge(key)).Status == 201
		if got := pattern.MatchString(key); got != taken {
			t.Errorf("the pattern takes %q: %t; begin takes it: %t", key, got, taken)
		}
	}
}
