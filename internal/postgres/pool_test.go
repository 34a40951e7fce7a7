//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

func TestOpenSetsUpItsSessions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		query  string // added to the URL
		config postgres.Config
		sql    string
		want   string
	}{
		"in UTC whatever the URL says": {
			query: "timezone=Asia/Tokyo",
			sql:   "show timezone", want: "UTC",
		},
		"under the application's name": {
			config: postgres.Config{ApplicationName: "api"},
			sql:    "show application_name", want: "api",
		},
		"under the operator's name for the application, where the URL has one": {
			query:  "application_name=blue",
			config: postgres.Config{ApplicationName: "api"},
			sql:    "show application_name", want: "blue",
		},
		"with the settings of the pool, which win over the URL's": {
			query:  "lock_timeout=7s",
			config: postgres.Config{RuntimeParams: map[string]string{"lock_timeout": "100ms"}},
			sql:    "show lock_timeout", want: "100ms",
		},
		"with the settings of the URL, where the pool has none": {
			query: "lock_timeout=7s",
			sql:   "show lock_timeout", want: "7s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := test.config
			cfg.URL = withQuery(t, postgrestest.NewURL(t), test.query)
			pool, err := postgres.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if diff := cmp.Diff(queryAll[string](t, pool, test.sql), []string{test.want}); diff != "" {
				t.Errorf("%s (-got +want):\n%s", test.sql, diff)
			}
		})
	}
}

func TestOpenLeavesThePoolToTheURLWhereTheConfigIsSilent(t *testing.T) {
	t.Parallel()
	databaseURL := withQuery(t, postgrestest.NewURL(t),
		"pool_max_conns=3&pool_max_conn_lifetime=7m&pool_max_conn_idle_time=3m&pool_health_check_period=9s&pool_ping_timeout=1s&connect_timeout=4")
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: databaseURL})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	cfg := pool.Config()
	got := map[string]any{
		"max": cfg.MaxConns, "lifetime": cfg.MaxConnLifetime, "idle": cfg.MaxConnIdleTime,
		"health": cfg.HealthCheckPeriod, "ping": cfg.PingTimeout, "connect": cfg.ConnConfig.ConnectTimeout,
	}
	want := map[string]any{
		"max": int32(3), "lifetime": 7 * time.Minute, "idle": 3 * time.Minute,
		"health": 9 * time.Second, "ping": time.Second, "connect": 4 * time.Second,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("pool settings (-got +want):\n%s", diff)
	}
	if cfg.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		t.Errorf("statements run in mode %v, want %v", cfg.ConnConfig.DefaultQueryExecMode, pgx.QueryExecModeCacheStatement)
	}
}

func TestOpenFindsThePrimaryAmongSeveralHosts(t *testing.T) {
	t.Parallel()
	conn := postgrestest.New(t).Config().ConnConfig
	databaseURL := fmt.Sprintf("postgres://%s@127.0.0.1:%d,%s:%d/%s?sslmode=disable&target_session_attrs=read-write",
		url.UserPassword(conn.User, conn.Password), closedPort(t), conn.Host, conn.Port, conn.Database)
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: databaseURL})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if diff := cmp.Diff(queryAll[string](t, pool, "select current_database()::text"), []string{conn.Database}); diff != "" {
		t.Errorf("database (-got +want):\n%s", diff)
	}
}

// A primary that is demoted keeps its old connections; they must not be used
// for another half hour.
func TestAConnectionWhoseServerTurnsReadOnlyIsLeft(t *testing.T) {
	t.Parallel()
	for attrs, wantNew := range map[string]bool{"read-write": true, "any": false} {
		t.Run("under target_session_attrs="+attrs, func(t *testing.T) {
			t.Parallel()
			databaseURL := withQuery(t, postgrestest.NewURL(t), "target_session_attrs="+attrs)
			pool, err := postgres.Open(t.Context(), postgres.Config{URL: databaseURL, MaxConns: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			before := queryAll[int32](t, pool, "select pg_backend_pid()")
			queryAll[string](t, pool, "select set_config('default_transaction_read_only', 'on', false)")
			if _, err := pool.Exec(t.Context(), "create table written (id int)"); !postgres.IsReadOnly(err) {
				t.Fatalf("err = %v, want a refusal to write", err)
			}
			after := queryAll[int32](t, pool, "select pg_backend_pid()")
			if gotNew := before[0] != after[0]; gotNew != wantNew {
				t.Errorf("the pool has a new connection: %v, want %v", gotNew, wantNew)
			}
		})
	}
}

func TestOpenFailsInOneSentenceWithoutThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-Zq9"
	good := postgrestest.New(t).Config().ConnConfig
	closed := closedPort(t)
	for name, test := range map[string]struct {
		url  string
		want []string
	}{
		"no URL": {
			"", []string{"ONCEWARD_DATABASE_URL"},
		},
		"nobody listens": {
			fmt.Sprintf("postgres://ann:%s@127.0.0.1:%d/shop?sslmode=disable", secret, closed),
			[]string{fmt.Sprintf("127.0.0.1:%d", closed), `"shop"`, `"ann"`, "refused"},
		},
		"nobody listens on any of several hosts": {
			fmt.Sprintf("postgres://ann:%s@127.0.0.1:%d,127.0.0.2:%d/shop", secret, closed, closed),
			[]string{fmt.Sprintf("127.0.0.1:%d, 127.0.0.2:%d", closed, closed), "refused"},
		},
		"wrong password": {
			fmt.Sprintf("postgres://%s:%s@%s:%d/postgres?sslmode=disable", good.User, secret, good.Host, good.Port),
			[]string{"28P01"},
		},
		"no such database": {
			fmt.Sprintf("postgres://%s@%s:%d/no_such_place?sslmode=disable", url.UserPassword(good.User, good.Password), good.Host, good.Port),
			[]string{"no_such_place", "3D000"},
		},
		"a port that is no number": {
			"postgres://ann:" + secret + "@db:54x32/shop", []string{"the database URL cannot be read"},
		},
		"a password with a bad escape": {
			"postgres://ann:" + secret + "%zz@db/shop", []string{"the database URL cannot be read", "%25"},
		},
		"a password with a slash": {
			"postgres://ann:pre/" + secret + "@db/shop", []string{"the database URL cannot be read", "%2F"},
		},
		"a password with a slash after digits": {
			"postgres://localhost:12/" + secret + "@db/shop", []string{"the database URL cannot be read", "%2F"},
		},
		"a password with a question mark": {
			"postgres://localhost:?" + secret + "@db/shop", []string{"the database URL cannot be read", "%3F"},
		},
		"a password with a hash": {
			"postgres://localhost:12#" + secret + "@db/shop", []string{"the database URL cannot be read", "%23"},
		},
		"a space in the host": {
			"postgres://ann:" + secret + "@d b/shop", []string{"the database URL cannot be read"},
		},
		"an unknown sslmode": {
			"postgres://ann:" + secret + "@db/shop?sslmode=maybe", []string{"the database URL cannot be read", "sslmode"},
		},
		"a pool size that is no number": {
			"postgres://ann:" + secret + "@db/shop?pool_max_conns=many", []string{"the database URL cannot be read", "pool_max_conns"},
		},
		"key and value without the equals sign": {
			"host=db user=ann password=" + secret + " nonsense", []string{"the database URL cannot be read"},
		},
		"a quote that does not end": {
			"host=db user=ann password='" + secret, []string{"the database URL cannot be read"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			pool, err := postgres.Open(ctx, postgres.Config{URL: test.url})
			if err == nil {
				pool.Close()
				t.Fatal("Open succeeded")
			}
			got := err.Error()
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("err = %q, want %q in it", got, want)
				}
			}
			for _, password := range []string{secret, good.Password} {
				if strings.Contains(got, password) {
					t.Errorf("err = %q: the password is in it", got)
				}
			}
			if strings.Contains(got, "\n") {
				t.Errorf("err = %q: more than one line", got)
			}
		})
	}
}

// What is not secret may have an @.
func TestAnAtSignWhereItBelongsIsTaken(t *testing.T) {
	t.Parallel()
	for _, databaseURL := range []string{
		"postgres://ann%40shop:a%2Fb%3F@db/shop?application_name=a@b", "postgres:///shop?host=db&user=ann&password=a@b",
		"postgresql://ann:a@b@db-1:5432,db-2:5432/shop", "host=db user=ann password=a/b@c#d",
	} {
		if err := postgres.CheckURL(databaseURL); err != nil {
			t.Errorf("%s: %v", databaseURL, err)
		}
	}
}

// The driver reads PGPASSFILE and its like too, so a URL without a password is
// as good as one with.
func TestOpenTakesThePasswordFromAFile(t *testing.T) {
	t.Parallel()
	conn := postgrestest.New(t).Config().ConnConfig
	passfile := filepath.Join(t.TempDir(), "pgpass")
	line := fmt.Sprintf("%s:%d:%s:%s:%s\n", conn.Host, conn.Port, conn.Database, conn.User, conn.Password)
	if err := os.WriteFile(passfile, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), postgres.Config{
		URL: fmt.Sprintf("host=%s port=%d dbname=%s user=%s passfile=%s sslmode=disable", conn.Host, conn.Port, conn.Database, conn.User, passfile),
	})
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
}

func TestOpenRefusesAServerThatIsTooOld(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		"150000": "", "180004": "",
		"140022": "it is version 14, and version 15 or newer is needed",
		"90624":  "it is version 9, and version 15 or newer is needed",
	} {
		got := ""
		if err := postgres.CheckVersion(number); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("CheckVersion(%s) = %q, want %q", number, got, want)
		}
	}
	if err := postgres.CheckVersion("eighteen"); err == nil {
		t.Error("a version that is no number is accepted")
	}
}

func withQuery(t *testing.T, databaseURL, query string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	added, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	all := u.Query()
	for name, values := range added {
		all[name] = values
	}
	u.RawQuery = all.Encode()
	return u.String()
}

// closedPort is one that nobody listens on.
func closedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal(errors.New("no TCP address"))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return addr.Port
}
