//go:build unix

// Package history_test lets many clients of two processes do at random whatever
// can be done to a few keys, kills a process meanwhile, and checks that all
// answers together are those of one record for each key to which everything
// happened one after the other (linearizability): no interleaving, and no
// crash, shows.
package history_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/test/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m, "api") }

const (
	workers       = 8
	hotKeys       = 4
	callsPerKey   = 300    // then another takes its place
	callsPerRound = 20_000 // of all workers; then what was answered is checked
	// parts of a round: at the end of each a session of a process is cut off, or
	// the process killed.
	parts = 10

	// checkTimeout is far above what the check takes.
	checkTimeout = 2 * time.Minute
)

//nolint:gochecknoglobals // a flag of this test: go test ./test/history -args -calls 2000000
var allCalls = flag.Int("calls", 3200, "how many calls are made and checked in all")

// hotKey is what the clients know of a key.
type hotKey struct {
	key   string
	calls atomic.Int32

	mu     sync.Mutex         // guards all below
	leases []apitest.Acquired // in the order in which they were learnt
}

// learn remembers an acquisition.
func (k *hotKey) learn(a apitest.Acquired) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leases = append(k.leases, a)
}

// pick is a lease of the key, mostly a recent one.
func (k *hotKey) pick(random *rand.Rand) (a apitest.Acquired, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.leases) == 0 {
		return a, false
	}
	back := min(random.IntN(4)*random.IntN(3), len(k.leases)-1)
	return k.leases[len(k.leases)-1-back], true
}

// run is one history.
type run struct {
	w     *processtest.World
	start time.Time

	doors [2]atomic.Pointer[processtest.API] // one of them may be nil for a while
	keys  [hotKeys]atomic.Pointer[hotKey]

	mu      sync.Mutex // guards history
	history []porcupine.Operation
}

// worker is one client, which makes one call at a time.
type worker struct {
	*run
	number int
	random *rand.Rand
	owners map[string]string // by key: of the last begin
	client map[*processtest.API]*apitest.Client
}

func TestEveryHistoryIsThatOfOneRecordForEachKey(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	for made, round := 0, uint64(0); made < *allCalls && !t.Failed(); round++ {
		n := min(*allCalls-made, callsPerRound)
		// Each in a world of its own, whose end checks its traffic and its logs.
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			t.Logf("the seed is %d", seed+round)
			r := &run{w: processtest.New(t), start: time.Now()}
			for i := range r.doors {
				r.doors[i].Store(r.w.API(t))
			}
			history := r.make(t, n/workers, seed+round)
			if !t.Failed() {
				check(t, history)
			}
		})
		made += n
	}
}

// make makes a round of calls while sessions are cut off in the middle of what
// they commit, and each process is killed once.
func (r *run) make(t *testing.T, callsPerWorker int, seed uint64) []porcupine.Operation {
	t.Helper()
	for i := range r.keys {
		r.keys[i].Store(&hotKey{key: processtest.NewKey()})
	}
	var working sync.WaitGroup
	for n := range workers {
		working.Go(func() {
			w := &worker{
				run: r, number: n, random: rand.New(rand.NewPCG(seed, uint64(n))),
				owners: map[string]string{}, client: map[*processtest.API]*apitest.Client{},
			}
			for range callsPerWorker {
				if err := w.doSomething(t.Context()); err != nil {
					t.Errorf("worker %d: %v", n, err)
					return
				}
			}
		})
	}
	for part := 1; part < parts; part++ {
		for made := r.size(); made <= part*workers*callsPerWorker/parts && !t.Failed(); made = r.size() {
			processtest.Eventually(t, "another call is answered", func() bool { return t.Failed() || r.size() > made })
		}
		if part != parts/3 && part != 2*parts/3 {
			r.cutOff(t)
			continue
		}
		door := &r.doors[part/(parts/2)]
		door.Swap(nil).Kill(t)
		door.Store(r.w.API(t))
	}
	working.Wait()
	return r.history
}

// cutOff ends a session of one of the processes, whatever it is in the middle
// of: the process does not learn whether its COMMIT was one.
func (r *run) cutOff(t *testing.T) {
	t.Helper()
	const statement = `
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and application_name = 'onceward-api' and query like '%idempotency_keys%'
order by state = 'idle', random() limit 1`
	if _, err := r.w.Pool.Exec(t.Context(), statement); err != nil {
		t.Error(err)
	}
}

func (r *run) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.history)
}

// check fails the test for a history that no record can have had.
func check(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	counts := map[string]int{}
	for _, operation := range history {
		counts[fmt.Sprint(operation.Input.(call).kind, " ", operation.Output.(reply).code)]++
	}
	for _, seen := range []string{
		"begin acquired", "begin replay", "begin in_progress", "begin fingerprint_mismatch", "begin outcome_unknown", "complete ok", "complete lease_lost",
		"complete already_completed", "renew ok", "renew lease_lost", "release ok", "release lease_lost", "unknown ok", "complete not_found",
	} {
		if counts[seen] == 0 {
			t.Errorf("the history has no %s: it is not random enough", seen)
		}
	}
	t.Logf("%d calls: %v", len(history), counts)
	lostCalls := 0
	for name, n := range counts {
		if strings.HasSuffix(name, " "+lost) {
			lostCalls += n
		}
	}
	if lostCalls > len(history)/10 {
		t.Errorf("%d of %d calls had no answer, or 503: a history of those shows nothing", lostCalls, len(history))
	}
	began := time.Now()
	result, info := porcupine.CheckOperationsVerbose(model(), history, checkTimeout)
	t.Logf("checked in %s", time.Since(began))
	if result == porcupine.Ok {
		return
	}
	path := filepath.Join(t.ArtifactDir(), "history.html")
	if file, err := os.Create(path); err == nil {
		_ = porcupine.Visualize(model(), info, file)
		_ = file.Close()
	}
	t.Errorf("the history is %s: no order of the calls explains every answer; see %s (go test -artifacts keeps it)%s", result, path, explain(history))
}

// doSomething makes a call, chosen at random, and writes down what came of it.
func (w *worker) doSomething(ctx context.Context) error {
	slot := &w.keys[w.random.IntN(hotKeys)]
	k := slot.Load()
	if k.calls.Add(1) == callsPerKey {
		slot.Store(&hotKey{key: processtest.NewKey()})
	}
	c := call{key: k.key, kind: w.choose()}
	a, ok := k.pick(w.random)
	if !ok {
		c.kind = begin
	}
	c.fence = a.Lease.Fence
	if c.kind == begin {
		c.fence = 0
		c.owner, c.payload = w.owners[k.key], w.random.IntN(8)/7
		if c.owner == "" || w.random.IntN(2) == 0 {
			c.owner = processtest.NewOwner()
			w.owners[k.key] = c.owner
		}
	}
	if c.kind == complete {
		c.body = []string{"one response", "another response"}[w.random.IntN(2)]
	}
	called := time.Since(w.start)
	got, err := w.do(ctx, k, c, a)
	if err != nil {
		return err
	}
	returned := time.Since(w.start)
	if got.code == lost {
		returned = math.MaxInt64 // it may happen at any time after the call
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, porcupine.Operation{ClientId: w.number, Input: c, Call: int64(called), Output: got, Return: int64(returned)})
	return nil
}

func (w *worker) choose() kind {
	n := w.random.IntN(100)
	for _, choice := range []struct {
		kind  kind
		share int
	}{{begin, 45}, {complete, 12}, {renew, 8}, {release, 12}, {unknown, 4}, {lapse, 12}, {expire, 7}} {
		if n -= choice.share; n < 0 {
			return choice.kind
		}
	}
	panic("the shares are not 100 in all")
}

// do makes the call. An error is an answer that the contract does not have.
func (w *worker) do(ctx context.Context, k *hotKey, c call, lease apitest.Acquired) (reply, error) {
	switch c.kind {
	case lapse:
		return w.change(ctx, lease.ID, `acquired_at = acquired_at - interval '2 min', lease_expires_at = lease_expires_at - interval '2 min', created_at = created_at - interval '2 min', completed_at = completed_at - interval '2 min'`)
	case expire:
		// Well before the start of every transaction that is under way: by now()
		// of an earlier one the record would not have ended yet.
		return w.change(ctx, lease.ID, `expires_at = case when expires_at = 'infinity' then expires_at else now() - interval '1 min' end`)
	}
	number := w.random.IntN(len(w.doors))
	door := w.doors[number].Load()
	if door == nil { // killed, and not there again yet
		door = w.doors[1-number].Load()
	}
	client := w.client[door]
	if client == nil {
		client = door.Client(w.w.Tenant.Service)
		w.client[door] = client
	}
	var a *apitest.Answer
	var err error
	address := "/v1/keys/" + lease.ID
	proof := processtest.Lease(lease)
	switch c.kind {
	case begin:
		body := processtest.Charging(c.key, fmt.Sprintf(`{"amount":%d}`, c.payload))
		a, err = processtest.Begin(ctx, client, body.With(apitest.Object{"owner": c.owner}))
	case complete:
		a, err = processtest.Complete(ctx, client, lease, processtest.Done(c.body))
	case renew:
		a, err = client.Try(ctx, http.MethodPatch, address+"/lease", nil, proof)
	case release:
		a, err = processtest.Release(ctx, client, lease)
	case unknown:
		a, err = client.Try(ctx, http.MethodPost, address+"/unknown", nil, proof)
	}
	if err != nil { // the process was killed
		return reply{code: lost}, ctx.Err()
	}
	return w.read(k, c, a)
}

// change makes time pass for the record.
func (w *worker) change(ctx context.Context, id, set string) (reply, error) {
	raw, _ := keys.ParseID(id) // the service made it
	_, err := w.w.Pool.Exec(ctx, `update idempotency_keys set `+set+` where tenant_id = $1 and id = $2`, w.w.Tenant.ID, raw)
	return reply{code: "ok"}, err
}

// read makes a reply of an answer.
func (w *worker) read(k *hotKey, c call, a *apitest.Answer) (reply, error) {
	switch {
	case a.Status == http.StatusCreated:
		acquired, err := processtest.Decode[apitest.Acquired](a)
		k.learn(acquired)
		return reply{code: acquired.Outcome, attempt: acquired.Attempt, fence: acquired.Lease.Fence, resumed: acquired.Resumed, takenOver: acquired.TakenOver}, err
	case a.Status == http.StatusOK && c.kind == begin:
		replay, err := processtest.Decode[apitest.Replay](a)
		return reply{code: replay.Outcome, attempt: replay.Attempt, body: string(replay.Response.Bytes())}, err
	case a.Status < http.StatusBadRequest:
		return reply{code: "ok"}, nil
	case a.Status == http.StatusConflict || a.Status == http.StatusNotFound:
		problem, err := processtest.Decode[apitest.Problem](a)
		return reply{code: problem.Code, attempt: problem.Attempt}, err
	case a.Status == http.StatusServiceUnavailable: // the session was cut off, and what it sent may stand
		return reply{code: lost}, nil
	default:
		return reply{}, fmt.Errorf("%s: %s", c.kind, processtest.Say(a, nil))
	}
}
