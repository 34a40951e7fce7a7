//go:build unix

// Package browser_test drives the dashboard in a real Chromium: the real API,
// as a process, on a real PostgreSQL, looked at by scenarios in Node that
// playwright-core runs. A scenario sees what a person sees; what it should see
// was made by the test's own traffic.
//
// It needs Chromium, Node and web/node_modules (`make test` sees to them).
// Where one is missing the tests are skipped, but with
// TEST_BROWSER_REQUIRED=1 they fail.
package browser_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/test/processtest"
)

const (
	// tenantRounds is how often each of two tenants reads its figures beside
	// the other.
	tenantRounds    = 500
	scenarioTimeout = 4 * time.Minute
)

func TestMain(m *testing.M) { processtest.Main(m, "api") }

func TestTheOverviewShowsExactlyWhatWasAnswered(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	sendTraffic(t, w, p)
	b.run(t, "numbers", map[string]any{
		"url": p.URL, "ops": w.Tenant.Ops,
		"figures": map[string]any{
			"all":     map[string]string{"begins": "32", "replays": "6", "rate": "28 %", "takeovers": "1", "late": "1"},
			"refunds": map[string]string{"begins": "7", "rate": "86 %"},
			"ages":    map[string]string{"2 s to 5 s": "3", "30 s to 1 min": "2", "1 h to 6 h": "1", "up to 100 ms": "0"},
		},
	})
}

func TestAnAdminSetsRetentionCredentialsAndUnknownOutcomes(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	made := sendTraffic(t, w, p)
	b.run(t, "admin", map[string]any{
		"url": p.URL, "admin": w.Tenant.Admin, "service": w.Tenant.Service, "completed": made.completed, "body": made.body,
		"preview": map[string]string{"lost": "1", "pruned": "1"},
	})
}

func TestOpsSeesTheSettingsAndSavesNone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	b.run(t, "ops", map[string]any{"url": p.URL, "ops": w.Tenant.Ops})
}

// B031: chart data of one tenant was shown to another that asked at the same
// instant.
func TestTwoTenantsSideBySideSeeTheirOwnTotals(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	other := w.NewTenant(t)
	people := map[string]any{"url": p.URL, "rounds": tenantRounds}
	for name, who := range map[string]struct {
		tenant   *apitest.Tenant
		begins   int
		text     string
		rate     string
		caller   string
		conflict bool
	}{
		"a": {w.Tenant, 7, "7", "0 %", "customer-of-a", false},
		"b": {other, 13, "13", "92 %", "customer-of-b", true},
	} {
		c := p.Client(who.tenant.Service)
		key := processtest.NewKey()
		for range who.begins {
			if !who.conflict {
				key = processtest.NewKey()
			}
			c.Begin(t, apitest.Charge(key).With(apitest.Object{"caller": who.caller}))
		}
		people[name] = map[string]string{"ops": who.tenant.Ops, "begins": who.text, "rate": who.rate, "caller": who.caller}
	}
	b.run(t, "tenants", people)
}

// B103: text from outside ran in an admin's session.
func TestHostileNamesAreText(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	const operation = `<script>alert('operation')</script> javascript:alert(1)`
	w.NewNamespace(t, w.Tenant, `<img src=x onerror=alert('namespace')>`, tenants.KeyScopeOperation)
	w.Issue(t, w.Tenant, auth.IssueParams{Name: "\u202egnp.exe \"><svg onload=alert('name')>", Role: auth.RoleOps})
	w.SetPolicy(t, tenants.Override{Operation: operation, Lease: new(time.Minute)})
	c := p.Client(w.Tenant.Service)
	begin := apitest.Charge(`<img src=x onerror=alert('key')>`).With(apitest.Object{
		"operation": operation, "caller": `"><img src=x onerror=alert('caller')>`, "metadata": apitest.Object{"note": `=cmd|'/c calc'!A1<b>`},
	})
	held := c.Begin(t, begin).Acquired(t)
	c.Complete(t, held, apitest.Object{"status": 200, "headers": [][]string{{"X-Note", "<script>alert('header')</script>"}}, "body": "<script>alert('body')</script>"}).Expect(t, 200)
	c.Begin(t, begin).Expect(t, 200)
	b.run(t, "hostile", map[string]any{"url": p.URL, "admin": w.Tenant.Admin, "record": held.ID, "operation": operation})
}

func TestThePrintedLinkSignsInOnceIntoASmallPage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	key, err := auth.ParseKey(w.Tenant.Admin)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := auth.NewSessions(w.Pool)
	if err != nil {
		t.Fatal(err)
	}
	link, err := sessions.NewLink(t.Context(), w.Tenant.ID, key.ID())
	if err != nil {
		t.Fatal(err)
	}
	b.run(t, "link", map[string]any{"url": p.URL, "link": link})
}

// The pictures are for people: the test fails where a view does not come up,
// asks somebody else, or breaks the content security policy.
func TestEveryViewIsPictured(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	made := sendTraffic(t, w, p)
	b.run(t, "views", map[string]any{"url": p.URL, "admin": w.Tenant.Admin, "completed": made.completed})
}

// browser is what a scenario runs in.
type browser struct{ chromium, node, web, artifacts string }

func newBrowser(t *testing.T) browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes its time")
	}
	missing := func(what string) {
		t.Helper()
		if os.Getenv("TEST_BROWSER_REQUIRED") == "1" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	var b browser
	var err error
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if b.chromium, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		missing("no Chromium is installed: apt-get install chromium")
	}
	if b.node, err = exec.LookPath("node"); err != nil {
		missing("no Node is installed")
	}
	if b.web, err = filepath.Abs("../../web"); err != nil {
		t.Fatal(err)
	}
	if b.artifacts, err = filepath.Abs("../artifacts/browser"); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"node_modules/playwright-core", "dist/index.html"} {
		if _, err := os.Stat(filepath.Join(b.web, made)); err != nil {
			missing("web/" + made + " is missing: make web/build")
		}
	}
	return b
}

// run runs one scenario; whatever it throws fails the test.
func (b browser) run(t *testing.T, name string, config map[string]any) {
	t.Helper()
	config["chromium"], config["web"], config["artifacts"] = b.chromium, b.web, b.artifacts
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.node, filepath.Join("scenarios", name+".mjs"))
	cmd.Env = processtest.Environ("BROWSER_CONFIG="+string(text), "TZ=Europe/Amsterdam")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("scenario %s: %v\n%s", name, err, out)
	}
	if len(out) > 0 {
		t.Logf("%s", out)
	}
}
