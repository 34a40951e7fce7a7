package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/settings"
	"github.com/onceward/onceward/internal/telemetry"
)

// config is what the environment says. The help of each field, its meaning and
// what zero does, is what `api help` prints; an empty variable counts as one
// that is not set.
type config struct {
	settings.Database
	DBMaxConns count `env:"ONCEWARD_DB_MAX_CONNS" envDefault:"0" unit:"connections" help:"most database connections of this process; 0 leaves it to pool_max_conns in the URL, else to the larger of 4 and the number of CPUs"`

	ReplayCacheMiB count `env:"ONCEWARD_REPLAY_CACHE_MIB" envDefault:"64" unit:"MiB" help:"most memory for completed records that are replayed without asking the database, in MiB; 0 keeps none"`

	ListenAddr    settings.ListenAddr `env:"ONCEWARD_LISTEN_ADDR" envDefault:"127.0.0.1:8080" unit:"host:port" help:"host:port of the public API; port 0 takes a free one"`
	OpsListenAddr settings.ListenAddr `env:"ONCEWARD_OPS_LISTEN_ADDR" envDefault:"127.0.0.1:8081" unit:"host:port" help:"host:port of the operator's listener (/metrics, /readyz with reasons), which no customer may reach; port 0 takes a free one"`
	PublicURL     publicURL           `env:"ONCEWARD_PUBLIC_URL" unit:"URL" help:"address under which callers reach the public API, such as https://api.example.com: the type of every problem begins with it; unset is http:// and the public listener's own address"`
	AddrFile      string              `env:"ONCEWARD_ADDR_FILE" unit:"path" help:"file to which the real addresses are written as {\"url\", \"ops_url\"} once both listeners answer, and which is removed at the end; unset writes none"`

	TLSCertFile    string          `env:"ONCEWARD_TLS_CERT_FILE" unit:"path" help:"file with the certificate chain (PEM) under which the public listener speaks TLS 1.2 or newer; read again when it changes; unset speaks HTTP, for a proxy that ends TLS"`
	TLSKeyFile     string          `env:"ONCEWARD_TLS_KEY_FILE" unit:"path" help:"file with its private key (PEM); set together with ONCEWARD_TLS_CERT_FILE"`
	TrustedProxies proxies         `env:"ONCEWARD_TRUSTED_PROXIES" unit:"list" help:"networks of the reverse proxies before this process, comma separated, such as 10.0.0.0/8: only what they say of a caller's address is believed, for audit and the limit on failed sign-ins; unset believes nobody"`
	ProxyHeader    forwardedHeader `env:"ONCEWARD_TRUSTED_PROXY_HEADER" envDefault:"X-Forwarded-For" unit:"word" help:"the one header to which those proxies append the address, X-Forwarded-For or Forwarded; the other one is never read"`

	OperatorToken     tokens `env:"ONCEWARD_OPERATOR_TOKEN" secret:"true" unit:"list" help:"tokens of the operator, comma separated, 32 to 512 characters each: two are valid while one replaces the other; unset lets no operator in"`
	OperatorTokenFile tokens `env:"ONCEWARD_OPERATOR_TOKEN_FILE,file" secret:"true" unit:"path" help:"file to read them from instead, such as a mounted secret"`

	JWTSecret     jwtSecret `env:"ONCEWARD_JWT_SECRET" secret:"true" unit:"base64" help:"32 bytes in base64 under which the keys that sign tokens are sealed in the database; the keys make themselves and rotate every 30 days; unset, with no keys file either, makes no tokens"`
	JWTSecretFile jwtSecret `env:"ONCEWARD_JWT_SECRET_FILE,file" secret:"true" unit:"path" help:"file to read it from instead, such as a mounted secret"`
	JWTKeysFile   string    `env:"ONCEWARD_JWT_KEYS_FILE,file" secret:"true" unit:"path" help:"file with Ed25519 keys (PKCS #8, PEM) that sign tokens, kept by you: the first one signs, all verify; in place of keys in the database"`
	JWTIssuer     string    `env:"ONCEWARD_JWT_ISSUER" unit:"text" help:"issuer that tokens name, the same on every process; unset is ONCEWARD_PUBLIC_URL, else onceward"`

	GOGC       gcPercent `env:"GOGC" unit:"%" help:"the Go runtime's own: how far the heap grows between collections, in percent; unset is 400"`
	GOMEMLIMIT string    `env:"GOMEMLIMIT" unit:"bytes" help:"the Go runtime's own: memory near which it collects harder, such as 1GiB; unset is ONCEWARD_REPLAY_CACHE_MIB + 256 MiB"`

	MetricsTenants settings.Switch `env:"ONCEWARD_METRICS_TENANTS" envDefault:"false" unit:"true or false" help:"true adds begins and 409s by tenant to the metrics, of the first 1000 tenants that a process sees, and of all others together; false has no tenant in any label"`

	LogLevel        settings.LogLevel `env:"ONCEWARD_LOG_LEVEL" envDefault:"info" unit:"word" help:"debug, info, warn or error; the log goes to standard error as JSON lines"`
	ShutdownTimeout shutdownTimeout   `env:"ONCEWARD_SHUTDOWN_TIMEOUT" envDefault:"8s" unit:"duration" help:"how long running requests are given after SIGTERM or SIGINT before they are cut off; 1s to 5m"`

	telemetry.Environment
	targets telemetry.Targets // that it names
}

// loadConfig reads the variables of environ (KEY=value). Its error has one
// sentence for each thing wrong, and never a value that may be secret.
func loadConfig(environ []string) (config, error) {
	var cfg config
	errs := settings.Read(environ, &cfg)
	errs = cfg.Database.Check(errs, postgres.CheckURL)
	var err error
	if cfg.targets, err = cfg.Environment.Targets(); err != nil {
		errs = append(errs, err)
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
	return cfg, errors.Join(errs...)
}

// loadServing is loadConfig for the process itself, and for who wants to know
// how it would start: it looks into the files that nobody else needs.
func loadServing(environ []string) (config, error) {
	cfg, err := loadConfig(environ)
	return cfg, errors.Join(err, cfg.checkFiles())
}

func (c config) checkFiles() error {
	var errs []error
	if c.TLSCertFile != "" && c.TLSKeyFile != "" {
		certificate, certErr := readNamed("ONCEWARD_TLS_CERT_FILE", c.TLSCertFile)
		key, keyErr := readNamed("ONCEWARD_TLS_KEY_FILE", c.TLSKeyFile)
		errs = append(errs, certErr, keyErr)
		if certErr == nil && keyErr == nil {
			if _, err := tls.X509KeyPair(certificate, key); err != nil {
				errs = append(errs, fmt.Errorf("ONCEWARD_TLS_CERT_FILE and ONCEWARD_TLS_KEY_FILE hold no certificate with its key: %w", err))
			}
		}
	}
	if c.JWTKeysFile != "" {
		if _, err := auth.KeysFromPEM([]byte(c.JWTKeysFile)); err != nil {
			errs = append(errs, fmt.Errorf("ONCEWARD_JWT_KEYS_FILE %w", err))
		}
	}
	return errors.Join(errs...)
}

func readNamed(variable, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s names a file that cannot be read: %w", variable, settings.WithoutPath(err))
	}
	return content, nil
}

func countSet(set []bool) (n int) {
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}

// operatorTokens are those of either variable.
func (c config) operatorTokens() []string { return slices.Concat(c.OperatorToken, c.OperatorTokenFile) }

// sealingSecret is what either variable says; empty where none is set.
func (c config) sealingSecret() jwtSecret { return c.JWTSecret + c.JWTSecretFile }

const usage = `Onceward's API: answers begins and completions from one PostgreSQL.

Usage:
  api           serve until SIGTERM or SIGINT
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
	return settings.Help(w, config{})
}
