package analytics

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/tenants"
)

// A full buffer drops single events, and says so; every count stays.
func TestAFullBufferDropsEventsBeforeCounts(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.recorder = New(Config{Pool: h.pool, MaxEvents: 10})
	c := newClient()
	for range 100 {
		h.recorder.Note(c.event(Replay))
	}
	h.flush()
	h.same("replays", h.outcomes(c, Query{}).Total.Of(Replay), int64(100))
	h.same("events", h.number("select count(*) from analytics_events"), int64(10))
	h.same("dropped", h.recorder.Stats().DroppedEvents, int64(90))
	h.same("lost", h.recorder.Stats().LostCounts, int64(0))
}

// Too many series lose their caller, then their operation, and no count.
func TestTooManySeriesInOneWindowAreFoldedAndCounted(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.recorder = New(Config{Pool: h.pool, MaxSeries: 10})
	c := newClient()
	for i := range 300 {
		e := c.event(Acquired)
		e.Operation, e.Caller = fmt.Sprint("op ", i%7), fmt.Sprint("cus_", i)
		h.recorder.noteAt(h.now, e)
	}
	h.flush()
	h.same("begins", h.outcomes(c, Query{}).Total.Begins(), int64(300))
	h.same("lost", h.recorder.Stats().LostCounts, int64(0))
	if h.recorder.Stats().FoldedSeries == 0 {
		t.Error("nothing was folded")
	}
	groups := h.groups(c, byOperation, Query{})
	named := int64(0)
	for _, g := range groups.Items {
		named += g.Begins()
	}
	h.same("named and other", named+groups.Other.Begins(), int64(300))
}

// Where there is no room for one more tenant, what is not counted is said.
func TestWhatFindsNoRoomAtAllIsSaid(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.recorder = New(Config{Pool: h.pool, MaxSeries: 2})
	for range 10 {
		h.recorder.noteAt(h.now, newClient().event(Acquired))
	}
	h.flush()
	h.same("counted", h.number("select sum(n)::bigint from analytics_counts"), int64(4))
	h.same("lost", h.recorder.Stats().LostCounts, int64(6))
}

// A thousand names of a tenant and day are counted apart, over all processes;
// the rest is other, and the answer says so.
func TestNamesAreCappedOverAllProcesses(t *testing.T) {
	t.Parallel()
	const perProcess = 700
	h := setup(t)
	c := newClient()
	var flushing sync.WaitGroup
	for p := range 2 {
		flushing.Go(func() {
			recorder := New(Config{Pool: h.pool})
			for i := range perProcess {
				e := c.event(Replay)
				e.Caller = fmt.Sprintf("cus_%d_%d", p, i)
				recorder.noteAt(h.now, e)
				if i%100 == 99 {
					if err := recorder.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	flushing.Wait()
	for range 2 {
		callers := h.groups(c, byCaller, Query{Limit: maxGroups})
		h.same("named callers", len(callers.Items), maxNames)
		h.same("under other", callers.Other.Begins(), int64(2*perProcess-maxNames))
		h.same("ages under other", callers.Other.Ages.Count(), int64(2*perProcess-maxNames))
		h.same("said", callers.Capped, Capped{Callers: true})
		h.same("total", h.outcomes(c, Query{}).Total.Begins(), int64(2*perProcess))
		h.rollUp()
	}
	another := newClient()
	h.recorder.Note(another.event(Replay))
	h.flush()
	h.same("another tenant", h.groups(another, byCaller, Query{}).Capped, Capped{})
}

// commitMessage is how the driver sends a COMMIT.
const commitMessage = "Q\x00\x00\x00\x0bcommit\x00"

// wire is a way to the database that can be cut: wholly, or so that a COMMIT
// arrives and its answer does not.
type wire struct {
	listener net.Listener
	cut      atomic.Bool
	eatOne   atomic.Bool // the answer to the next COMMIT
	eaten    chan struct{}
}

func newWire(t *testing.T, pool *pgxpool.Pool) (*wire, *pgxpool.Pool) {
	t.Helper()
	target := pool.Config().ConnConfig
	w := &wire{eaten: make(chan struct{})}
	var err error
	if w.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.listener.Close() })
	network, address := "tcp", net.JoinHostPort(target.Host, fmt.Sprint(target.Port))
	if strings.HasPrefix(target.Host, "/") {
		network, address = "unix", fmt.Sprintf("%s/.s.PGSQL.%d", target.Host, target.Port)
	}
	go func() {
		for {
			client, err := w.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, address)
			if err != nil || w.cut.Load() {
				_ = client.Close()
				continue
			}
			go w.carry(client, server)
		}
	}()
	config := pool.Config()
	config.ConnConfig.Host, config.ConnConfig.Port = "127.0.0.1", uint16(w.listener.Addr().(*net.TCPAddr).Port)
	config.ConnConfig.Fallbacks = nil
	config.MaxConns = 1
	cuttable, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cuttable.Close)
	return w, cuttable
}

func (w *wire) carry(client, server net.Conn) {
	defer func() { _, _ = client.Close(), server.Close() }()
	var eat atomic.Bool
	go func() {
		defer func() { _, _ = client.Close(), server.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			if err != nil || w.cut.Load() {
				return
			}
			if string(buffer[:n]) == commitMessage && w.eatOne.CompareAndSwap(true, false) {
				eat.Store(true)
			}
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil || w.cut.Load() {
			return
		}
		if eat.Load() {
			close(w.eaten)
			return
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// The answer to the COMMIT of a flush is lost: the flush fails, is sent again,
// and counts once.
func TestAFlushWhoseCommitHadAnUnknownOutcomeCountsOnce(t *testing.T) {
	t.Parallel()
	h := setup(t)
	w, cuttable := newWire(t, h.pool)
	h.recorder = New(Config{Pool: cuttable})
	c := newClient()
	h.recorder.Note(c.event(Replay))
	w.eatOne.Store(true)
	if err := h.recorder.Flush(t.Context()); err == nil {
		t.Fatal("the flush succeeded, although its answer was lost")
	}
	<-w.eaten
	h.same("in the database already", h.outcomes(c, Query{}).Total.Begins(), int64(1))
	h.rollUp() // the row that it wrote is gone from where it was written
	h.recorder.Note(c.event(Replay))
	h.flush()
	h.same("replays", h.outcomes(c, Query{}).Total.Begins(), int64(2))
	h.same("events", h.number("select count(*) from analytics_events"), int64(2))
}

// While the database is away Note goes on, and what was noted arrives late in
// the minutes in which it happened.
func TestWhatIsNotedWhileTheDatabaseIsAwayArrivesInItsOwnMinute(t *testing.T) {
	t.Parallel()
	h := setup(t)
	w, cuttable := newWire(t, h.pool)
	h.recorder = New(Config{Pool: cuttable})
	c := newClient()
	h.flush() // reads the clock
	w.cut.Store(true)
	minute := h.now.Add(-30 * time.Minute)
	for i := range 5 {
		h.recorder.noteAt(minute.Add(time.Duration(i)*time.Minute), c.event(Replay))
		if err := h.recorder.Flush(t.Context()); err == nil {
			t.Fatal("the flush succeeded without a database")
		}
	}
	h.same("failures", h.recorder.Stats().FlushFailures, int64(5))
	w.cut.Store(false)
	h.flush()
	byMinute := map[int64]int64{}
	for _, step := range h.outcomes(c, Query{Step: StepMinute, From: minute, To: h.now}).Steps {
		if n := step.Begins(); n > 0 {
			byMinute[step.At.Unix()/60-minute.Unix()/60] = n
		}
	}
	h.same("replays by minute", byMinute, map[int64]int64{0: 1, 1: 1, 2: 1, 3: 1, 4: 1})
}

func TestRunFlushesByItselfAndOnceMoreAtTheEnd(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.recorder = New(Config{Pool: h.pool, Interval: 5 * time.Millisecond})
	c := newClient()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- h.recorder.Run(ctx) }()
	h.recorder.Note(c.event(Replay))
	deadline := time.Now().Add(10 * time.Second)
	for h.outcomes(c, Query{}).Total.Begins() != 1 {
		if time.Now().After(deadline) {
			t.Fatal("nothing was flushed within 10 s")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	h.recorder.Note(c.event(Replay))
	if err := h.recorder.Run(ctx); err != nil { // its context has ended: only the last flush is left
		t.Fatal(err)
	}
	h.same("replays", h.outcomes(c, Query{}).Total.Begins(), int64(2))
}

func TestALastFlushThatFailsSaysWhatIsLost(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	closed, err := pgxpool.NewWithConfig(t.Context(), pool.Config())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	recorder := New(Config{Pool: closed})
	for range 3 {
		recorder.Note(newClient().event(Replay))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := recorder.Run(ctx); err == nil || !strings.Contains(err.Error(), "3 outcomes are lost") {
		t.Errorf("err = %v, want one that says what is lost", err)
	}
	if got := recorder.Stats().LostCounts; got != 3 {
		t.Errorf("%d are said to be lost, want 3", got)
	}
}

// The minute is that of the database, whatever this machine's clock says.
func TestEventsBelongToTheDatabasesMinute(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.recorder.clock.nowFunc = func() time.Time { return time.Now().Add(-5 * time.Hour) }
	c := newClient()
	h.flush() // reads the clock
	h.recorder.Note(c.event(Replay))
	h.flush()
	h.same("in the last five minutes", h.outcomes(c, Query{Step: StepMinute, From: h.now.Add(-2 * time.Minute), To: h.now.Add(2 * time.Minute)}).Total.Begins(), int64(1))
}

func TestNoteNeverWaitsForAFlush(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "lock table analytics_counts in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	h.recorder.Note(c.event(Replay))
	flushed := make(chan error)
	go func() { flushed <- h.recorder.Flush(t.Context()) }()
	for h.number("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'") == 0 {
		continue // until the flush stands
	}
	for range 1000 {
		h.recorder.Note(c.event(Replay))
	}
	if err := errors.Join(tx.Rollback(background(t)), <-flushed); err != nil {
		t.Fatal(err)
	}
	h.flush()
	h.same("replays", h.outcomes(c, Query{}).Total.Begins(), int64(1001))
}

func TestReplaysAndConflictsAreLoggedWithoutTheirKeys(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var logged bytes.Buffer
	tenantService, err := tenants.New(h.pool)
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := tenantService.Create(t.Context(), tenants.CreateParams{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	h.exec("update tenants set secret = decode(repeat('ab', 32), 'hex') where tenant_id = $1", tenant.ID)
	h.recorder = New(Config{Pool: h.pool, Logger: slog.New(slog.NewJSONHandler(&logged, nil)), Tenants: tenantService})
	c := newClient()
	c.tenant = tenant.ID
	replay := c.event(Replay)
	replay.Key, replay.Status, replay.Age, replay.TraceID = "order-42-charge", 201, 2500*time.Millisecond, "4bf92f3577b34da6a3ce929d0e0e4736"
	replay.Record = uuid.UUID{}
	conflict := c.event(Mismatch)
	conflict.Key, conflict.Record, conflict.Status, conflict.Age = replay.Key, uuid.UUID{}, 402, 90*time.Second
	busy := c.event(InProgress)
	busy.Key, busy.Record, busy.Age = replay.Key, uuid.UUID{}, time.Second
	for _, e := range []Event{replay, conflict, busy, c.event(Acquired), c.event(LateCompletion)} {
		h.recorder.Note(e)
	}
	h.flush()
	var lines []map[string]any
	decoder := json.NewDecoder(&logged)
	for {
		var line map[string]any
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		for name, value := range line {
			if strings.Contains(fmt.Sprint(value), replay.Key) {
				t.Errorf("%s holds the whole key", name)
			}
		}
		lines = append(lines, line)
	}
	// printf 'onceward-log-key-1\0order-42-charge' | openssl dgst -sha256 -mac hmac -macopt hexkey:abab…
	const digest = "3ce09872af077c12"
	common := func(message string) map[string]any {
		return map[string]any{
			"level": "INFO", "msg": message, "tenant": c.tenant.String(), "credential": "abcdefghijklmnop",
			"operation": "POST /v1/charges", "id": "AAAAAAAAAAAAAAAAAAAAAA", "key_prefix": "orde", "key_digest": digest,
		}
	}
	first, second, third := common("idempotency.replay"), common("idempotency.conflict"), common("idempotency.conflict")
	first["original_status"], first["age_seconds"], first["trace_id"] = 201.0, 2.5, replay.TraceID
	second["kind"], second["original_status"], second["age_seconds"] = "mismatch", 402.0, 90.0
	third["kind"], third["age_seconds"] = "in_progress", 1.0
	h.same("lines", lines, []map[string]any{first, second, third})
}

// Whoever has the log alone cannot try guesses at a key on its digest: it takes
// the tenant's secret, and another tenant's gives another one.
func TestADigestOfAKeyIsItsTenantsOwn(t *testing.T) {
	t.Parallel()
	one, other := hmac.New(sha256.New, []byte{1}), hmac.New(sha256.New, []byte{2})
	if keyDigest(one, "order-42-charge") == keyDigest(one, "order-43-charge") {
		t.Error("a digest does not tell keys apart")
	}
	if keyDigest(one, "order-42-charge") == keyDigest(other, "order-42-charge") {
		t.Error("two tenants have one digest for a key")
	}
}

func TestALineOfATenantThatCannotBeReadHasNoDigest(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var logged bytes.Buffer
	tenantService, err := tenants.New(h.pool)
	if err != nil {
		t.Fatal(err)
	}
	h.recorder = New(Config{Pool: h.pool, Logger: slog.New(slog.NewJSONHandler(&logged, nil)), Tenants: tenantService})
	h.recorder.Note(newClient().event(Replay)) // of a tenant that is not there
	h.flush()
	if text := logged.String(); !strings.Contains(text, "idempotency.replay") || strings.Contains(text, "key_digest") {
		t.Errorf("the line is %s", text)
	}
}
