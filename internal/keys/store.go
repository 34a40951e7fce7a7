package keys

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// inlineBodyBytes is the largest body that is read together with its row;
	// a read of 512 rows carries at most 16 MiB of bodies so.
	inlineBodyBytes = 32 << 10
	// bodySliceBytes bounds one read of the bodies that are larger.
	bodySliceBytes = 16 << 20
	// statementTimeout is how long a statement may take once it is sent. It is
	// far above what any takes; what ends it is a lost network.
	statementTimeout = 10 * time.Second
)

// store runs the statements of this package. tenant_id stands in each of them,
// and namespace_id wherever a service credential asks; a foreign tenant or
// namespace sees no row. Its errors are the driver's: the service translates.
type store struct{ pool *pgxpool.Pool }

// errGone says that the caller's client was gone before anything was sent.
var errGone = errors.New("the client is gone")

// send runs a pipeline of statements as one transaction on a connection of
// the pool. A client that goes away before the pipeline is sent acquires
// nothing; after that nothing of the client's cancels it, since a cancel could
// reach the COMMIT.
func (s *store) send(ctx context.Context, batch *pgx.Batch) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if ctx.Err() != nil {
		return errGone
	}
	sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	// Close reads to the end of the pipeline: its error is the COMMIT's.
	return conn.SendBatch(sent, batch).Close()
}

const fenceNow = `(extract(epoch from now()) * 1000000)::bigint`

const sqlReadOne = `
select ` + rowColumns + `
from idempotency_keys k
where k.tenant_id = $2 and k.id = $3 and k.namespace_id = coalesce($4, k.namespace_id)`

// read returns the record, expired or not; nil where there is none in the
// tenant and namespace (zero: any namespace of the tenant).
func (s *store) read(ctx context.Context, at ref) (*row, error) {
	rows, err := s.pool.Query(ctx, sqlReadOne, inlineBodyBytes, at.tenant, at.id, nullNamespace(at.namespace))
	if err != nil {
		return nil, err
	}
	r, err := pgx.CollectExactlyOneRow(rows, func(cr pgx.CollectableRow) (*row, error) { return scanRow(cr) })
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // absence is an answer, not a failure
	}
	return r, err
}
