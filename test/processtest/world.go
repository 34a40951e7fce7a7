//go:build unix

package processtest

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/api/reference/openapitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// riverUI refreshes the counts of jobs by itself, and says so as an error when
// the database is away: no call of the service has failed by that.
const riverUI = "querycacher.QueryCacher"

// World is a database with a tenant, and the processes that a test starts on
// it. The instance of apitest that is part of it makes tenants and policies,
// and serves no request of these tests.
type World struct {
	*apitest.World

	databaseURL string
	expected    []string // in error lines of logs

	mu        sync.Mutex // guards processes
	processes []*API
}

// New makes a world on a database of its own. At the end of the test the
// processes are ended, and everything that they did is checked.
func New(tb testing.TB, opts ...apitest.Option) *World {
	tb.Helper()
	pool := postgrestest.New(tb)
	return On(tb, apitest.On(tb, pool, opts...), pool.Config().ConnString())
}

// On is New on a world that there is; the processes find its database at the
// URL, which may be that of a proxy.
func On(tb testing.TB, base *apitest.World, databaseURL string) *World {
	tb.Helper()
	w := &World{World: base, databaseURL: databaseURL, expected: []string{riverUI}}
	tb.Cleanup(func() { w.check(tb) })
	return w
}

// API starts one more process, with further environment variables as
// NAME=value.
func (w *World) API(tb testing.TB, environ ...string) *API {
	tb.Helper()
	return w.apiOf(tb, filepath.Join(binFolder, "api"), environ)
}

func (w *World) apiOf(tb testing.TB, binary string, environ []string) *API {
	tb.Helper()
	p := start(tb, w.World, binary, w.databaseURL, environ)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(w.processes, p)
	return p
}

// APIs starts n processes.
func (w *World) APIs(tb testing.TB, n int) []*API {
	tb.Helper()
	processes := make([]*API, n)
	for i := range processes {
		processes[i] = w.API(tb)
	}
	return processes
}

// Expect says that a process may log errors that contain one of the texts,
// because the test breaks what they speak of.
func (w *World) Expect(errors ...string) { w.expected = append(w.expected, errors...) }

// CheckSecrets fails the test for every secret of its requests and answers that
// the text holds, such as the log of another process.
func (w *World) CheckSecrets(tb testing.TB, name, text string) {
	tb.Helper()
	checkSecrets(tb, name, text, secretsOf(w.Exchanges()))
}

// check looks at what the processes did. They have ended: their clean-up ran
// before, since it was registered after this one's.
func (w *World) check(tb testing.TB) {
	tb.Helper()
	exchanges := slices.DeleteFunc(w.Exchanges(), func(e apitest.Exchange) bool {
		// Of the operator's listener the document has the calls alone.
		return slices.ContainsFunc(w.processes, func(p *API) bool {
			return strings.HasPrefix(e.URL, p.OperatorURL+"/") && !strings.HasPrefix(e.URL, p.OperatorURL+"/v1/")
		})
	})
	checkTraffic(tb, exchanges)
	secrets := secretsOf(exchanges)
	for _, p := range w.processes {
		checkLog(tb, p.Log.String(), secrets, w.expected)
	}
}

var validator = sync.OnceValues(openapitest.New) //nolint:gochecknoglobals // compiled once

// checkTraffic holds every exchange against the OpenAPI document.
func checkTraffic(tb testing.TB, exchanges []apitest.Exchange) {
	tb.Helper()
	v, err := validator()
	if err != nil {
		tb.Fatal(err)
	}
	const enough = 5
	faults := 0
	for _, e := range exchanges {
		if err := v.Validate(openapitest.Exchange(e)); err != nil {
			tb.Errorf("not as the OpenAPI document says: %v", err)
			if faults++; faults == enough {
				tb.Fatal("more of it is not looked at")
			}
		}
	}
}

// NewKey is an idempotency key that nobody has used.
func NewKey() string { return "key-" + rand.Text() }

// NewOwner is the owner of an attempt.
func NewOwner() string { return rand.Text() }

// Canary is a text that nobody else writes, to be looked for.
func Canary(what string) string { return strings.ToLower(what + "-canary-" + rand.Text()) }
