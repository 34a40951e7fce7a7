package api_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/keys"
)

// newKey is a fresh idempotency key of the test.
func newKey(tb testing.TB) string {
	tb.Helper()
	return "key-" + rand.Text()
}

// acquire begins a charge that nobody has begun before, with the longest lease
// there is: it does not lapse while a slow machine comes to what needs it.
func acquire(tb testing.TB, c *apitest.Client, key string) apitest.Acquired {
	tb.Helper()
	return c.Begin(tb, apitest.Charge(key).With(apitest.Object{"lease_seconds": keys.MaxLeaseSeconds})).Acquired(tb)
}

// pastLease is how far a record of acquire moves for its lease to lapse.
const pastLease = (keys.MaxLeaseSeconds + 1) * time.Second

// eventually polls until ok, and fails the test after ten seconds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			tb.Fatalf("did not happen within 10 s: %s", what)
		}
	}
}

// logbook keeps what is logged.
type logbook struct {
	slog.Handler

	mu    sync.Mutex // guards lines
	lines []string
}

func newLogbook() *logbook {
	b := &logbook{}
	b.Handler = slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})
	return b
}

func (b *logbook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(line))
	return len(line), nil
}

func (b *logbook) all() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "")
}

func cmpSorted(less func(a, b string) bool) cmp.Option { return cmpopts.SortSlices(less) }

// rawConn is a connection on which a test writes HTTP by hand.
type rawConn struct{ *net.TCPConn }

func dial(tb testing.TB, url string) rawConn {
	tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(tb.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		tb.Fatal(err)
	}
	return rawConn{conn.(*net.TCPConn)}
}

func (c rawConn) send(tb testing.TB, text string) {
	tb.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		tb.Fatal(err)
	}
}

func (c rawConn) closeWrite(tb testing.TB) {
	tb.Helper()
	if err := c.CloseWrite(); err != nil {
		tb.Fatal(err)
	}
}

// readAll reads until the server closes the connection.
func (c rawConn) readAll(tb testing.TB) string {
	tb.Helper()
	got, err := io.ReadAll(c)
	if err != nil {
		tb.Fatalf("read the answer: %v", err)
	}
	return string(got)
}

// number is a JSON number in the words of the test.
type number string

func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

func hexOf(c byte) string { return hex.EncodeToString([]byte{c}) }

func itoa(i int) string { return strconv.Itoa(i) }

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
