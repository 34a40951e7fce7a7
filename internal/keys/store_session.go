package keys

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// statementTimeout is how long a transaction may take once it is sent,
	// connecting to the server included. It is far above what any takes; what
	// ends it is a lost network or a server that hangs.
	statementTimeout = 5 * time.Second
	// acquireTimeout is how long a connection of the pool is waited for, and
	// made where there is none.
	acquireTimeout = 3 * time.Second
)

var (
	// errGone says that the caller's client was gone before anything was sent.
	errGone = errors.New("the client is gone")
	// errUnknownCommit says that a COMMIT succeeded here, but that its wait for
	// a synchronous standby was cut short: it may be lost with this server.
	errUnknownCommit = errors.New("the wait for the synchronous standby was cancelled: the outcome is unknown")
)

// sender sends a pipeline of statements as one transaction: with a single
// Sync at its end they are one, and its COMMIT needs no round trip of its own.
type sender interface {
	send(ctx context.Context, batch *pgx.Batch) error
}

// pooled sends on a connection of the pool.
type pooled struct{ pool *pgxpool.Pool }

// send drops a client that is gone before the pipeline is sent. After that
// nothing of the client's cancels it: a cancel could reach the COMMIT.
func (p pooled) send(ctx context.Context, batch *pgx.Batch) error {
	waiting, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := p.pool.Acquire(waiting)
	if err != nil {
		return err
	}
	defer conn.Release()
	if ctx.Err() != nil {
		return errGone
	}
	sent, cancelSent := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancelSent()
	return sendOn(sent, conn.Conn(), batch)
}

func sendOn(ctx context.Context, conn *pgx.Conn, batch *pgx.Batch) error {
	// Close reads to the end of the pipeline: its error is the COMMIT's.
	return conn.SendBatch(ctx, batch).Close()
}

// session is the connection that one batcher owns. It is made when it is
// needed, and made anew after it was lost.
type session struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
	// unknown is set by the driver when a COMMIT warns that it did not wait for
	// its standby.
	unknown atomic.Bool
}

// sessionSettings are those of a batcher's connection.
//
// The plans are pinned: batches join a list of ids with the primary key, and a
// plan made while the table was small would scan it when it is large (measured:
// completions fell from 25,000 to 7,000 a second). Nobody waits long for a
// row's lock: whoever does goes on alone.
//
// They are set once connected and not while connecting: PgBouncer refuses a
// connection that comes with settings which it does not know.
const sessionSettings = `
	set plan_cache_mode = force_generic_plan;
	set enable_seqscan = off;
	set enable_bitmapscan = off;
	set enable_hashjoin = off;
	set enable_mergejoin = off;
	set lock_timeout = '100ms';
	set idle_in_transaction_session_timeout = '2s'`

func newSession(pool *pgxpool.Pool) *session {
	s := &session{config: pool.Config().ConnConfig}
	s.config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		return conn.Exec(ctx, sessionSettings).Close()
	}
	s.config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		// The only warning that a COMMIT gives (syncrep.c); its text is the
		// server's language, so every warning counts.
		if n.SeverityUnlocalized == "WARNING" {
			s.unknown.Store(true)
		}
	}
	return s
}

func (s *session) send(ctx context.Context, batch *pgx.Batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := pgx.ConnectConfig(ctx, s.config)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	if s.unknown.Swap(false) {
		// What is repeated may write nothing and so wait for no standby. An
		// empty message in the log does: the COMMIT returns when all before it
		// is there as well.
		batch.Queue("select pg_logical_emit_message(true, 'onceward', '')")
	}
	err := sendOn(ctx, s.conn, batch)
	if err == nil && s.unknown.Load() {
		return errUnknownCommit
	}
	return err
}

func (s *session) close() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.conn.Close(ctx) // the process is stopping; the server ends the session either way
}
