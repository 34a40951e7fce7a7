package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// rollbackTimeout bounds a roll-back after the caller has gone. When it
	// passes the driver closes the connection, which rolls back as well.
	rollbackTimeout = 5 * time.Second

	// commitTimeout bounds a COMMIT. It is far above a slow disk or a
	// synchronous standby that is catching up: giving up on a COMMIT leaves
	// its outcome unknown.
	commitTimeout = 30 * time.Second
)

// InTx runs fn in one transaction, at the server's default isolation level
// (read committed), and commits it if fn returns nil. Otherwise, and when fn
// panics, it rolls back and returns fn's error as it is.
//
// A COMMIT that has been sent is not cancelled with ctx, since its outcome would
// then be unknown; a caller that is already gone when fn returns gets a
// roll-back. An error of the COMMIT itself that IsConnectionError reports means
// that the outcome is unknown.
func InTx(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	committed := false
	defer func() {
		if committed {
			return
		}
		rollbackCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		// The transaction is void whatever this says: a connection on which it
		// fails is closed by the pool.
		_ = tx.Rollback(rollbackCtx)
	}()

	if err := fn(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	commitCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	if err := tx.Commit(commitCtx); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	committed = true
	return nil
}
