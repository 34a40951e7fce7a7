package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/onceward/onceward/internal/telemetry"
)

// config is what the environment says. The help of each field, its meaning and
// what zero does, is what `api help` prints; an empty variable counts as one
// that is not set.
type config struct {
	DatabaseURL string `env:"ONCEWARD_DATABASE_URL" secret:"true" help:"PostgreSQL 15 or newer, as postgres://user:password@host:port/database; required"`
	DBMaxConns  count  `env:"ONCEWARD_DB_MAX_CONNS" envDefault:"0" help:"most database connections of this process; 0 leaves it to pool_max_conns in the URL, else to the larger of 4 and the number of CPUs"`

	ReplayCacheMiB count `env:"ONCEWARD_REPLAY_CACHE_MIB" envDefault:"64" help:"most memory for completed records that are replayed without asking the database, in MiB; 0 keeps none"`

	ListenAddr    listenAddr `env:"ONCEWARD_LISTEN_ADDR" envDefault:"127.0.0.1:8080" help:"host:port of the public API; port 0 takes a free one"`
	OpsListenAddr listenAddr `env:"ONCEWARD_OPS_LISTEN_ADDR" envDefault:"127.0.0.1:8081" help:"host:port of the operator's listener (/metrics, /readyz with reasons), which no customer may reach; port 0 takes a free one"`
	PublicURL     publicURL  `env:"ONCEWARD_PUBLIC_URL" help:"address under which callers reach the public API, such as https://api.example.com: the type of every problem begins with it; unset is http:// and the public listener's own address"`
	AddrFile      string     `env:"ONCEWARD_ADDR_FILE" help:"file to which the real addresses are written as {\"url\", \"ops_url\"} once both listeners answer, and which is removed at the end; unset writes none"`

	TLSCertFile    string          `env:"ONCEWARD_TLS_CERT_FILE" help:"file with the certificate chain (PEM) under which the public listener speaks TLS 1.2 or newer; read again when it changes; unset speaks HTTP, for a proxy that ends TLS"`
	TLSKeyFile     string          `env:"ONCEWARD_TLS_KEY_FILE" help:"file with its private key (PEM); set together with ONCEWARD_TLS_CERT_FILE"`
	TrustedProxies proxies         `env:"ONCEWARD_TRUSTED_PROXIES" help:"networks of the reverse proxies before this process, comma separated, such as 10.0.0.0/8: only what they say of a caller's address is believed, for audit and the limit on failed sign-ins; unset believes nobody"`
	ProxyHeader    forwardedHeader `env:"ONCEWARD_TRUSTED_PROXY_HEADER" envDefault:"X-Forwarded-For" help:"the one header to which those proxies append the address, X-Forwarded-For or Forwarded; the other one is never read"`

	OperatorToken     tokens `env:"ONCEWARD_OPERATOR_TOKEN" help:"tokens of the operator, comma separated, 32 to 512 characters each: two are valid while one replaces the other; unset lets no operator in"`
	OperatorTokenFile tokens `env:"ONCEWARD_OPERATOR_TOKEN_FILE,file" help:"file to read them from instead, such as a mounted secret"`

	JWTSecret     jwtSecret `env:"ONCEWARD_JWT_SECRET" secret:"true" help:"32 bytes in base64 under which the keys that sign tokens are sealed in the database; the keys make themselves and rotate every 30 days; unset, with no keys file either, makes no tokens"`
	JWTSecretFile jwtSecret `env:"ONCEWARD_JWT_SECRET_FILE,file" secret:"true" help:"file to read it from instead, such as a mounted secret"`
	JWTKeysFile   string    `env:"ONCEWARD_JWT_KEYS_FILE,file" secret:"true" help:"file with Ed25519 keys (PKCS #8, PEM) that sign tokens, kept by you: the first one signs, all verify; in place of keys in the database"`
	JWTIssuer     string    `env:"ONCEWARD_JWT_ISSUER" help:"issuer that tokens name, the same on every process; unset is ONCEWARD_PUBLIC_URL, else onceward"`

	GOGC       string `env:"GOGC" help:"the Go runtime's own: how far the heap grows between collections, in percent; unset is 400"`
	GOMEMLIMIT string `env:"GOMEMLIMIT" help:"the Go runtime's own: memory near which it collects harder, such as 1GiB; unset is ONCEWARD_REPLAY_CACHE_MIB + 256 MiB"`

	targets telemetry.Targets // of OTEL_*, which docs/telemetry.md lists

	LogLevel        logLevel `env:"ONCEWARD_LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error; the log goes to standard error as JSON lines"`
	ShutdownTimeout duration `env:"ONCEWARD_SHUTDOWN_TIMEOUT" envDefault:"8s" help:"how long running requests are given after SIGTERM or SIGINT before they are cut off; 1s to 5m"`
}

// loadConfig reads the variables of environ (KEY=value). Its error has one
// sentence for each thing wrong, and never a value that may be secret.
func loadConfig(environ []string) (config, error) {
	set := env.ToMap(environ)
	for name, value := range set {
		if strings.TrimSpace(value) == "" {
			delete(set, name)
		}
	}
	var cfg config
	errs := sentences(env.ParseWithOptions(&cfg, env.Options{Environment: set}))
	var targetsErr error
	if cfg.targets, targetsErr = telemetry.ReadTargets(set); targetsErr != nil {
		errs = append(errs, targetsErr)
	}
	if cfg.DatabaseURL == "" {
		errs = append(errs, errors.New("ONCEWARD_DATABASE_URL is not set: name the database, for example postgres://user@host:5432/onceward"))
	}
	if len(cfg.OperatorToken) > 0 && len(cfg.OperatorTokenFile) > 0 {
		errs = append(errs, errors.New("ONCEWARD_OPERATOR_TOKEN and ONCEWARD_OPERATOR_TOKEN_FILE are both set: keep one"))
	}
	if set := []bool{cfg.JWTSecret != "", cfg.JWTSecretFile != "", cfg.JWTKeysFile != ""}; countSet(set) > 1 {
		errs = append(errs, errors.New("more than one of ONCEWARD_JWT_SECRET, ONCEWARD_JWT_SECRET_FILE and ONCEWARD_JWT_KEYS_FILE is set: keep one"))
	}
	if (cfg.TLSCertFile == "") != (cfg.TLSKeyFile == "") {
		errs = append(errs, errors.New("only one of ONCEWARD_TLS_CERT_FILE and ONCEWARD_TLS_KEY_FILE is set: set both, or neither"))
	}
	cfg.JWTSecret += cfg.JWTSecretFile
	cfg.JWTSecretFile = ""
	cfg.OperatorToken = append(cfg.OperatorToken, cfg.OperatorTokenFile...)
	cfg.OperatorTokenFile = nil
	return cfg, errors.Join(errs...)
}

func countSet(set []bool) (n int) {
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}

// sentences says what the library found in terms of variables instead of fields.
func sentences(err error) []error {
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range all.Errors {
		if parse, ok := errors.AsType[env.ParseError](e); ok {
			e = fmt.Errorf("%s %w", variable(parse.Name), parse.Err)
		} else if file, ok := errors.AsType[env.LoadFileContentError](e); ok {
			e = fmt.Errorf("%s names a file that cannot be read: %w", file.Key, file.Err)
		}
		list = append(list, e)
	}
	return list
}

func variable(field string) string {
	f, _ := reflect.TypeFor[config]().FieldByName(field)
	name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
	return name
}

const usage = `Onceward's API: answers begins and completions from one PostgreSQL.

Usage:
  api           serve until SIGTERM or SIGINT
  api migrate   bring the database's schema up to date, and end
  api config    show what the environment makes of every variable, and end
  api probe     ask the process that serves with this environment whether it lives: ends with 0 or 1
  api help      show this

Administration, each with its flags (api tenant create -help); the answer is JSON:
`

func printHelp(w io.Writer) error {
	if _, err := io.WriteString(w, usage); err != nil {
		return err
	}
	list := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		if _, err := fmt.Fprintf(list, "  api %s\t%s\n", c.words, c.does); err != nil {
			return err
		}
	}
	if err := list.Flush(); err != nil {
		return err
	}
	if _, err := io.WriteString(w, "\nEnvironment:\n"); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for field := range reflect.TypeFor[config]().Fields() {
		if !field.IsExported() {
			continue
		}
		byDefault := field.Tag.Get("envDefault")
		if byDefault == "" {
			byDefault = "-"
		}
		if _, err := fmt.Fprintf(table, "  %s\t%s\t%s\n", variable(field.Name), byDefault, field.Tag.Get("help")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// seconds is for what takes a time.Duration.
func (d duration) time() time.Duration { return time.Duration(d) }

// level is for what takes a slog.Level.
func (l logLevel) slog() slog.Level { return slog.Level(l) }
