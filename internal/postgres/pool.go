// Package postgres owns what is common to every use of the database: how a
// pool is opened, how the schema is migrated, what a driver's error means, and
// how a transaction is run.
//
// It knows no table of ours: statements live in the store.go of the package
// whose data they touch. It imports nothing of ours but the embedded
// migrations.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// MinVersion is the oldest major version of PostgreSQL that the statements of
// the service are written for and tested on.
const MinVersion = 15

const (
	// connectTimeout bounds one attempt at one host, unless the URL says
	// connect_timeout. It covers TLS and authentication, so it must stay well
	// above a round trip to another region.
	connectTimeout = 5 * time.Second

	// maxConnLifetime and its jitter let a pool follow a changed DNS name or a
	// rebalanced proxy within the hour, without all connections leaving at once.
	maxConnLifetime       = 30 * time.Minute
	maxConnLifetimeJitter = 5 * time.Minute
	maxConnIdleTime       = 5 * time.Minute
	healthCheckPeriod     = 30 * time.Second

	// pingTimeout bounds the check of a connection that has idled for more
	// than a second, so that one lost without a FIN costs a request this much
	// and not the kernel's retransmission time.
	pingTimeout = 2 * time.Second
)

// Config says which database to use and how.
type Config struct {
	// URL is a PostgreSQL URL or key/value string. Everything that libpq and
	// pgxpool know may stand in it: several hosts, target_session_attrs,
	// sslmode, connect_timeout, pool_*, default_query_exec_mode. Required.
	URL string

	// MaxConns is the most connections the pool opens. Zero leaves it to
	// pool_max_conns in the URL, else to the larger of 4 and the CPUs.
	MaxConns int32

	// ApplicationName is what pg_stat_activity shows, unless the URL says
	// application_name.
	ApplicationName string

	// RuntimeParams are server settings of every session of this pool, such as
	// lock_timeout. They win over the URL's. Nil sets none.
	RuntimeParams map[string]string

	// Tracer sees every statement. Nil traces nothing.
	Tracer pgx.QueryTracer

	// OnError is told of every statement, pipeline and connection that failed,
	// also where it is tried again with success. It must not block. Nil: nobody
	// is told.
	OnError func(kind ErrorKind)
}

// Open connects to the database and answers once it has answered: a pool that
// is returned has one live connection. The caller closes it. Sessions run in
// UTC, whatever the URL or the server says.
//
// The error is one sentence that names the server and the cause, never the
// password.
func Open(ctx context.Context, cfg Config) (*pgxpool.Pool, error) {
	poolConfig, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("set up the pool for PostgreSQL at %s: %w", address(poolConfig.ConnConfig), err)
	}
	var number string
	if err := pool.QueryRow(ctx, "select current_setting('server_version_num')").Scan(&number); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to PostgreSQL at %s: %w", address(poolConfig.ConnConfig), rootCause(err))
	}
	if err := checkVersion(number); err != nil {
		pool.Close()
		return nil, fmt.Errorf("use PostgreSQL at %s: %w", address(poolConfig.ConnConfig), err)
	}
	return pool, nil
}

// CheckWritable returns why the server at the end of the pool can be written
// to by nobody: a standby, or one that was told to only read. nil: it can be.
func CheckWritable(ctx context.Context, pool *pgxpool.Pool) error {
	var standby, readOnly bool
	err := pool.QueryRow(ctx, "select pg_is_in_recovery(), current_setting('transaction_read_only')::boolean").Scan(&standby, &readOnly)
	switch {
	case err != nil:
		return rootCause(err)
	case standby:
		return errors.New("the server is a standby: name the primary, or all hosts and target_session_attrs=read-write, in the database URL")
	case readOnly:
		return errors.New("the server takes no writes (default_transaction_read_only is on)")
	}
	return nil
}

// CheckURL returns why a database's URL cannot be read, without repeating it;
// nil: it can. It connects to nothing.
func CheckURL(databaseURL string) error {
	if isCutShort(databaseURL) {
		return errors.New(cutShort)
	}
	if _, err := pgxpool.ParseConfig(databaseURL); err != nil {
		return errors.New(parseFault(err))
	}
	return nil
}

func parse(cfg Config) (*pgxpool.Config, error) {
	if strings.TrimSpace(cfg.URL) == "" {
		return nil, errors.New("no database URL is given: set ONCEWARD_DATABASE_URL, for example to postgres://user@host:5432/onceward")
	}
	if isCutShort(cfg.URL) {
		return nil, errors.New("the database URL cannot be read: " + cutShort)
	}
	poolConfig, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		// The driver's own message repeats the URL and masks passwords as well
		// as it can, which is not well enough for a log.
		return nil, fmt.Errorf("the database URL cannot be read: %s", parseFault(err))
	}
	conn := poolConfig.ConnConfig
	if cfg.MaxConns > 0 {
		poolConfig.MaxConns = cfg.MaxConns
	}
	if !strings.Contains(cfg.URL, "pool_max_conn_lifetime") {
		poolConfig.MaxConnLifetime = maxConnLifetime
		poolConfig.MaxConnLifetimeJitter = maxConnLifetimeJitter
	}
	if !strings.Contains(cfg.URL, "pool_max_conn_idle_time") {
		poolConfig.MaxConnIdleTime = maxConnIdleTime
	}
	if !strings.Contains(cfg.URL, "pool_health_check_period") {
		poolConfig.HealthCheckPeriod = healthCheckPeriod
	}
	if poolConfig.PingTimeout == 0 {
		poolConfig.PingTimeout = pingTimeout
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	if cfg.ApplicationName != "" && conn.RuntimeParams["application_name"] == "" {
		conn.RuntimeParams["application_name"] = cfg.ApplicationName
	}
	maps.Copy(conn.RuntimeParams, cfg.RuntimeParams)
	conn.RuntimeParams["timezone"] = "UTC"
	conn.Tracer = tracer(cfg)
	if conn.ValidateConnect != nil {
		leaveReadOnlyServers(conn)
	}
	return poolConfig, nil
}

// leaveReadOnlyServers closes a connection whose server turns out to be read
// only, so that the pool looks for the new primary among the hosts of the URL.
// target_session_attrs is checked only while connecting: without this a primary
// that is demoted keeps its connections, and every write on them fails until
// they grow old.
func leaveReadOnlyServers(conn *pgx.ConnConfig) {
	next := conn.OnPgError
	conn.OnPgError = func(c *pgconn.PgConn, err *pgconn.PgError) bool {
		if err.Code == codeReadOnlyTransaction {
			return false
		}
		return next(c, err)
	}
}

func checkVersion(number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("it calls its version %q, which is no number: %w", number, err)
	}
	if n/10000 < MinVersion {
		return fmt.Errorf("it is version %d, and version %d or newer is needed", n/10000, MinVersion)
	}
	return nil
}

// address names the servers of a URL for people: hosts, ports, database and
// user, and nothing that opens a door.
func address(conn *pgx.ConnConfig) string {
	hosts := []string{hostPort(conn.Host, conn.Port)}
	for _, f := range conn.Fallbacks {
		hosts = append(hosts, hostPort(f.Host, f.Port))
	}
	// A host appears twice under sslmode=prefer, once for each way.
	hosts = slices.Compact(hosts)
	return fmt.Sprintf("%s (database %q, user %q)", strings.Join(hosts, ", "), conn.Database, conn.User)
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

const (
	escapes  = "in a password write %2F for /, %3F for ?, %23 for # and %25 for %"
	cutShort = "its address ends before an @, or it has a #: " + escapes
)

// isCutShort finds a URL in which a / or ? of the password ended the address.
// The driver may take such a one, with the rest of the password as the name of
// the database or of a setting, and names are shown. A # it forgets, with all
// that comes after.
func isCutShort(databaseURL string) bool {
	scheme, rest, found := strings.Cut(databaseURL, "://")
	if !found || scheme != "postgres" && scheme != "postgresql" {
		return false
	}
	address, query, _ := strings.Cut(rest, "?")
	_, database, _ := strings.Cut(address, "/")
	if strings.Contains(rest, "#") || strings.Contains(database, "@") {
		return true
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, _ := strings.Cut(pair, "="); strings.Contains(name, "@") {
			return true
		}
	}
	return false
}

// parseFault is the reason in a driver's parse error without the text around it
// that repeats the connection string.
func parseFault(err error) string {
	var parseErr *pgconn.ParseConfigError
	if !errors.As(err, &parseErr) {
		return "it is neither a postgres:// URL nor a key=value string"
	}
	// "cannot parse `<string>`: <reason> (<cause>)": the cause of a bad URL is
	// net/url's, which quotes the URL whole, so only the reason is passed on.
	_, reason, found := strings.Cut(strings.TrimPrefix(parseErr.Error(), "cannot parse `"), "`: ")
	if !found {
		return "it is neither a postgres:// URL nor a key=value string"
	}
	reason, _, _ = strings.Cut(reason, " (")
	if strings.Contains(reason, "URL") {
		return reason + ": " + escapes
	}
	if cause := parseErr.Unwrap(); cause != nil && strings.Contains(reason, "TLS") {
		// By then the string has been taken apart: this is about sslmode or a
		// certificate's file.
		return reason + ": " + cause.Error()
	}
	return reason
}

// rootCause turns the driver's multi-line account of every host into one line.
// The chain is kept for errors.Is and errors.As.
func rootCause(err error) error {
	return &oneLineError{err: err}
}

type oneLineError struct{ err error }

func (e *oneLineError) Error() string {
	return strings.Join(strings.Fields(e.err.Error()), " ")
}

func (e *oneLineError) Unwrap() error { return e.err }
