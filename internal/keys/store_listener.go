package keys

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/auth"
)

const (
	// replayChannel carries what invalidates cached replays, and each
	// process's echoes.
	replayChannel = "onceward_replays"
	echoInterval  = 150 * time.Millisecond
	relistenAfter = 200 * time.Millisecond
	listenTimeout = 5 * time.Second
)

// InvalidationStatement announces in the transaction that runs it that a
// record's stored answer is not to be served any more ($1 the tenant, $2 the
// id), or, with a null id, no answer of the tenant.
// Answer only InvalidationDelay after that transaction's COMMIT.
const InvalidationStatement = `select pg_notify('` + replayChannel + `', concat_ws(' ', 'drop', $1::uuid, $2::uuid))`

// InvalidationDelay is how long after the COMMIT of an InvalidationStatement no
// process serves the old answer any more, whether it heard of it or not.
const InvalidationDelay = heardFor + 50*time.Millisecond

// listener keeps a replay cache honest: it hears what is invalidated, and its
// own echoes, on a connection of its own.
type listener struct {
	config  *pgx.ConnConfig
	cache   *replays
	logger  *slog.Logger
	name    string
	pending echo // sent, not yet heard; used by the listening goroutine alone
	number  int
}

func newListener(config *pgx.ConnConfig, cache *replays, logger *slog.Logger) *listener {
	l := &listener{config: config, cache: cache, logger: logger, name: rand.Text()}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { l.hear(n.Payload) }
	return l
}

// run listens until ctx ends. Where the connection is lost the cache is
// emptied and stays off until an echo is heard again.
func (l *listener) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.listen(ctx)
		l.cache.lost()
		if ctx.Err() != nil {
			return
		}
		l.logger.Warn("the replay cache is off: the database is asked for every replay until its notifications are heard again", slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(relistenAfter):
		}
	}
}

func (l *listener) listen(ctx context.Context) error {
	connecting, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, l.config)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // lost already, or the process is stopping
	}()
	if _, err := conn.Exec(connecting, "listen "+replayChannel); err != nil {
		return err
	}
	for {
		if err := l.send(ctx, conn); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, echoInterval)
		for waiting.Err() == nil {
			if _, err := conn.WaitForNotification(waiting); err != nil && waiting.Err() == nil {
				cancel()
				return err
			}
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// send notifies itself and reads the database's clock.
func (l *listener) send(ctx context.Context, conn *pgx.Conn) error {
	sending, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	l.number++
	l.pending = echo{sentAt: l.cache.nowFunc()}
	var clock time.Time
	err := conn.QueryRow(sending, "select clock_timestamp() from pg_notify('"+replayChannel+"', $1)", l.echoText()).Scan(&clock)
	if err != nil {
		return err
	}
	// The echo may have come with the answer, before its clock was known.
	heard := l.pending.roundTrip > 0
	l.pending.clock = clock
	if heard {
		l.publish()
	}
	return nil
}

func (l *listener) echoText() string { return fmt.Sprintf("echo %s %d", l.name, l.number) }

// hear is called by the driver, on the goroutine that reads the connection.
func (l *listener) hear(payload string) {
	kind, rest, _ := strings.Cut(payload, " ")
	switch kind {
	case "echo":
		if payload != l.echoText() {
			return // another process's, or one that came too late to matter
		}
		l.pending.roundTrip = max(l.cache.nowFunc().Sub(l.pending.sentAt), 1)
		if !l.pending.clock.IsZero() {
			l.publish()
		}
	case "drop":
		l.drop(rest)
	default:
		l.logger.Warn("a notification that this version does not know: the replay cache is emptied", slog.Int("payload_bytes", len(payload)))
		l.cache.lost()
	}
}

func (l *listener) publish() {
	heard := l.pending
	l.cache.echo.Store(&heard)
}

func (l *listener) drop(rest string) {
	tenantText, idText, one := strings.Cut(rest, " ")
	tenant, err := uuid.Parse(tenantText)
	var id uuid.UUID
	if err == nil && one {
		id, err = uuid.Parse(idText)
	}
	if err != nil {
		l.cache.lost()
		return
	}
	l.cache.invalidate(auth.TenantID(tenant), ID(id))
}
