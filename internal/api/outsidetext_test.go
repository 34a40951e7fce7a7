package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

// B103: text from outside comes back as it was sent, in JSON that no browser
// takes for a page, whatever is in it. (CSV and the dashboard have tests of their
// own.)
func TestTextFromOutsideIsNeverAPage(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, service := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	names := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `=HYPERLINK("https://evil.test")`, "a \u202egnp.exe", `</title><svg/onload=alert(1)>`,
	}
	want := map[string]string{} // places by what is expected there
	for i, name := range names {
		made := issue(t, admin, apitest.Object{"name": name, "role": "ops"})
		want["credential "+made.ID] = name
		tenant := makeTenant(t, w, apitest.Object{"name": name})
		want["tenant "+tenant.Tenant.ID] = name
		if strings.Contains(name, "\u202e") {
			continue // a key, caller and operation are printable ASCII
		}
		key := name + " " + string(rune('a'+i))
		held := service.Begin(t, apitest.Charge(key).With(apitest.Object{"caller": name, "operation": name, "metadata": apitest.Object{"note": name}})).Acquired(t)
		var record struct {
			Key, Caller, Operation string
			Metadata               map[string]string
		}
		if err := json.Unmarshal(admin.Inspect(t, held.ID, "").Expect(t, 200).Body, &record); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{record.Key, record.Caller, record.Operation, record.Metadata["note"]}, []string{key, name, name, name}); diff != "" {
			t.Errorf("the record (-got +want):\n%s", diff)
		}
	}
	got := map[string]string{}
	for id, c := range credentials(t, admin) {
		if _, ours := want["credential "+id]; ours {
			got["credential "+id] = c.Name
		}
	}
	var list struct{ Items []tenant }
	if err := json.Unmarshal(w.Operator().Do(t, http.MethodGet, "/v1/admin/tenants?limit=200", nil).Expect(t, 200).Body, &list); err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Items {
		if _, ours := want["tenant "+one.ID]; ours {
			got["tenant "+one.ID] = one.Name
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("names (-got +want):\n%s", diff)
	}
	// An answer that quotes what was sent is a document of its own type too.
	admin.Do(t, http.MethodGet, "/v1/policy?<script>alert(1)</script>=1", nil).Problem(t, 400, "invalid_request")
	for _, e := range w.Exchanges() {
		mediaType := e.Header.Get("Content-Type")
		if len(e.Body) > 0 && mediaType != "application/json" && mediaType != "application/problem+json" || e.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s is %q, %q", e.Method, e.URL, mediaType, e.Header.Get("X-Content-Type-Options"))
		}
	}
}
