package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// SQLSTATE values, https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	codeUniqueViolation      = "23505"
	codeReadOnlyTransaction  = "25006"
	codeIdleInTxTimeout      = "25P03"
	codeSerializationFailure = "40001"
	codeDeadlockDetected     = "40P01"
	codeDiskFull             = "53100"
	codeTooManyConnections   = "53300"
	codeIOError              = "58030"
	codeOutOfMemory          = "53200"
	codeLockNotAvailable     = "55P03"
	codeAdminShutdown        = "57P01"
	codeCrashShutdown        = "57P02"
	codeCannotConnectNow     = "57P03"
	codeIdleSessionTimeout   = "57P05"

	classConnection          = "08"
	classData                = "22"
	classIntegrityConstraint = "23"
)

// IsUniqueViolation reports whether err is a unique violation (23505) of the
// named constraint or unique index. An empty name stands for any.
func IsUniqueViolation(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeUniqueViolation && (constraint == "" || pgErr.ConstraintName == constraint)
}

// IsLockNotAvailable reports whether a lock was not had within lock_timeout, or
// at once under NOWAIT (55P03).
func IsLockNotAvailable(err error) bool { return code(err) == codeLockNotAvailable }

// IsDeadlock reports whether PostgreSQL ended the transaction to break a
// deadlock (40P01). Nothing of it was kept; it may be run again.
func IsDeadlock(err error) bool { return code(err) == codeDeadlockDetected }

// IsSerialization reports whether the transaction could not be put in an order
// with others (40001). Nothing of it was kept; it may be run again.
func IsSerialization(err error) bool { return code(err) == codeSerializationFailure }

// IsReadOnly reports whether a write reached a server or transaction that only
// reads (25006): as a rule a primary that has been demoted.
func IsReadOnly(err error) bool { return code(err) == codeReadOnlyTransaction }

// IsOutOfResources reports whether the server had no disk, memory or connection
// left for the statement, or its disk failed (class 53, 58030). Nothing of the
// transaction was kept; the same call succeeds once there is room again.
func IsOutOfResources(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, classResources) || c == codeIOError
}

// IsOutOfMemory reports whether it was memory: a smaller batch may have enough
// (53200).
func IsOutOfMemory(err error) bool { return code(err) == codeOutOfMemory }

// IsDataError reports whether the statement's values were refused (classes 22
// and 23): running it again with the same values fails again.
func IsDataError(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, classData) || strings.HasPrefix(c, classIntegrityConstraint)
}

// IsConnectionError reports whether the database could not be reached, was lost
// on the way, is starting or stopping, has no connection to spare, or did not
// answer in time. It is what becomes a 503: the same call may succeed later.
// Whether a statement that was under way took effect is not known.
//
// A context that the caller cancelled is not one, however the connection ended
// because of it; a deadline that passed is.
func IsConnectionError(err error) bool {
	if err == nil {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return isConnectionCode(pgErr.Code)
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.Timeout(err) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, puddle.ErrClosedPool) ||
		errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

func isConnectionCode(c string) bool {
	switch c {
	case codeTooManyConnections, codeAdminShutdown, codeCrashShutdown, codeCannotConnectNow,
		codeIdleInTxTimeout, codeIdleSessionTimeout:
		return true
	}
	return strings.HasPrefix(c, classConnection)
}

// code is the SQLSTATE in err, or "".
func code(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}
