package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
)

// ErrorKind sorts the driver's errors for figures.
type ErrorKind string

// The kinds.
const (
	ErrorConnection    ErrorKind = "connection"    // not reached, lost, starting, stopping, or no answer in time
	ErrorReadOnly      ErrorKind = "read_only"     // a write on a server that only reads
	ErrorLockTimeout   ErrorKind = "lock_timeout"  // a lock was not had in time
	ErrorDeadlock      ErrorKind = "deadlock"      //
	ErrorSerialization ErrorKind = "serialization" //
	ErrorConstraint    ErrorKind = "constraint"    // class 23: as a rule an answer, such as a name that is taken
	ErrorData          ErrorKind = "data"          // class 22: a value that PostgreSQL cannot store
	ErrorDiskFull      ErrorKind = "disk_full"     // 53100
	ErrorResources     ErrorKind = "resources"     // the rest of class 53, 58030: out of memory, a broken disk
	ErrorCancelled     ErrorKind = "cancelled"     // whoever asked is gone, or a statement_timeout
	ErrorOther         ErrorKind = "other"         //
	classResources               = "53"            // insufficient resources
	codeQueryCanceled            = "57014"         //
)

// ErrorKinds names every kind.
func ErrorKinds() []string {
	var names []string
	for _, kind := range []ErrorKind{
		ErrorConnection, ErrorReadOnly, ErrorLockTimeout, ErrorDeadlock, ErrorSerialization,
		ErrorConstraint, ErrorData, ErrorDiskFull, ErrorResources, ErrorCancelled, ErrorOther,
	} {
		names = append(names, string(kind))
	}
	return names
}

// KindOf sorts err, which must not be nil.
func KindOf(err error) ErrorKind {
	c := code(err)
	switch {
	case IsConnectionError(err):
		return ErrorConnection
	case IsReadOnly(err):
		return ErrorReadOnly
	case IsLockNotAvailable(err):
		return ErrorLockTimeout
	case IsDeadlock(err):
		return ErrorDeadlock
	case IsSerialization(err):
		return ErrorSerialization
	case strings.HasPrefix(c, classIntegrityConstraint):
		return ErrorConstraint
	case strings.HasPrefix(c, classData):
		return ErrorData
	case c == codeDiskFull:
		return ErrorDiskFull
	case IsOutOfResources(err):
		return ErrorResources
	case c == codeQueryCanceled, errors.Is(err, context.Canceled):
		return ErrorCancelled
	default:
		return ErrorOther
	}
}

// tracer is what the driver tells of statements: cfg.Tracer, cfg.OnError, both,
// or nobody.
func tracer(cfg Config) pgx.QueryTracer {
	switch {
	case cfg.OnError == nil:
		return cfg.Tracer
	case cfg.Tracer == nil:
		return errorCounter(cfg.OnError)
	default:
		return multitracer.New(cfg.Tracer, errorCounter(cfg.OnError))
	}
}

// errorCounter looks at how things end and passes contexts on as they are, so
// that it allocates nothing.
type errorCounter func(ErrorKind)

func (count errorCounter) end(err error) {
	if err != nil {
		count(KindOf(err))
	}
}

// TraceQueryStart implements pgx.QueryTracer.
func (errorCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (count errorCounter) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	count.end(data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (errorCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements pgx.BatchTracer: the end has the error too.
func (errorCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (count errorCounter) TraceBatchEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	count.end(data.Err)
}

// TraceConnectStart implements pgx.ConnectTracer.
func (errorCounter) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

// TraceConnectEnd implements pgx.ConnectTracer.
func (count errorCounter) TraceConnectEnd(_ context.Context, data pgx.TraceConnectEndData) {
	count.end(data.Err)
}
