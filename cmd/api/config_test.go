package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/api/certificatetest"
	"github.com/onceward/onceward/internal/settings"
	"github.com/onceward/onceward/internal/settings/settingstest"
)

const databaseURL = "ONCEWARD_DATABASE_URL=postgres://u:hunter2@db/onceward"

func TestWithTheDatabaseAloneAllElseHasItsDefault(t *testing.T) {
	t.Parallel()
	got, err := loadConfig([]string{databaseURL, "ONCEWARD_LISTEN_ADDR=", "ONCEWARD_LOG_LEVEL= ", "PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Database:        settings.Database{DatabaseURL: "postgres://u:hunter2@db/onceward"},
		ReplayCacheMiB:  64,
		ListenAddr:      "127.0.0.1:8080",
		OpsListenAddr:   "127.0.0.1:8081",
		ProxyHeader:     "X-Forwarded-For",
		LogLevel:        settings.LogLevel(slog.LevelInfo),
		ShutdownTimeout: shutdownTimeout(8 * time.Second),
	}
	if diff := cmp.Diff(got, want, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestEveryVariableIsRead(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", shortestToken)
	got, err := loadConfig([]string{
		databaseURL,
		"ONCEWARD_DB_MAX_CONNS=10000",
		"ONCEWARD_REPLAY_CACHE_MIB=0",
		"ONCEWARD_LISTEN_ADDR=:0",
		"ONCEWARD_OPS_LISTEN_ADDR=[::1]:65535",
		"ONCEWARD_PUBLIC_URL=https://api.example.com/onceward/",
		"ONCEWARD_ADDR_FILE=/run/addr.json",
		"ONCEWARD_TLS_CERT_FILE=/tls/tls.crt",
		"ONCEWARD_TLS_KEY_FILE=/tls/tls.key",
		"ONCEWARD_TRUSTED_PROXIES=10.1.2.3/8, 192.0.2.1,fd00::/8",
		"ONCEWARD_TRUSTED_PROXY_HEADER=forwarded",
		"ONCEWARD_OPERATOR_TOKEN=" + token + ", " + strings.Repeat("~", longestToken),
		"ONCEWARD_METRICS_TENANTS=true",
		"ONCEWARD_LOG_LEVEL=WARN",
		"ONCEWARD_SHUTDOWN_TIMEOUT=5m",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Database:        settings.Database{DatabaseURL: "postgres://u:hunter2@db/onceward"},
		DBMaxConns:      10000,
		ListenAddr:      ":0",
		OpsListenAddr:   "[::1]:65535",
		PublicURL:       "https://api.example.com/onceward",
		AddrFile:        "/run/addr.json",
		TLSCertFile:     "/tls/tls.crt",
		TLSKeyFile:      "/tls/tls.key",
		TrustedProxies:  proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("fd00::/8")},
		ProxyHeader:     "Forwarded",
		OperatorToken:   tokens{token, strings.Repeat("~", longestToken)},
		MetricsTenants:  true,
		LogLevel:        settings.LogLevel(slog.LevelWarn),
		ShutdownTimeout: shutdownTimeout(5 * time.Minute),
	}
	if diff := cmp.Diff(got, want, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestTheOperatorsTokensMayComeFromAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	first, second := strings.Repeat("a", shortestToken), strings.Repeat("b", shortestToken)
	if err := os.WriteFile(path, []byte(first+",\n"+second+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := loadConfig([]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN_FILE=" + path})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got.operatorTokens(), []string{first, second}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestABadValueIsOneSentenceThatNamesTheVariable(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("t", shortestToken)
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		environ []string
		want    string // how the sentence begins
	}{
		{nil, "ONCEWARD_DATABASE_URL is not set: "},
		{[]string{"ONCEWARD_DATABASE_URL= "}, "ONCEWARD_DATABASE_URL is not set: "},
		{[]string{"ONCEWARD_DATABASE_URL=postgres://u:hunter2@db:x/d"}, "ONCEWARD_DATABASE_URL cannot be read: "},
		{[]string{databaseURL, "ONCEWARD_DATABASE_URL_FILE=config.go"}, "ONCEWARD_DATABASE_URL and ONCEWARD_DATABASE_URL_FILE are both set: "},
		{[]string{"ONCEWARD_DATABASE_URL_FILE=" + missing}, "ONCEWARD_DATABASE_URL_FILE names a file that cannot be read: "},
		{[]string{databaseURL, "GOGC=much"}, `GOGC is "much": `},
		{[]string{databaseURL, "OTEL_EXPORTER_OTLP_HEADERS=hunter2"}, "OTEL_EXPORTER_OTLP_HEADERS is no list of headers: "},
		{[]string{databaseURL, "ONCEWARD_DB_MAX_CONNS=-1"}, `ONCEWARD_DB_MAX_CONNS is "-1": `},
		{[]string{databaseURL, "ONCEWARD_DB_MAX_CONNS=10001"}, `ONCEWARD_DB_MAX_CONNS is "10001": `},
		{[]string{databaseURL, "ONCEWARD_DB_MAX_CONNS=many"}, `ONCEWARD_DB_MAX_CONNS is "many": `},
		{[]string{databaseURL, "ONCEWARD_LISTEN_ADDR=8080"}, `ONCEWARD_LISTEN_ADDR is "8080": `},
		{[]string{databaseURL, "ONCEWARD_LISTEN_ADDR=:65536"}, `ONCEWARD_LISTEN_ADDR is ":65536": `},
		{[]string{databaseURL, "ONCEWARD_LISTEN_ADDR=:http"}, `ONCEWARD_LISTEN_ADDR is ":http": `},
		{[]string{databaseURL, "ONCEWARD_OPS_LISTEN_ADDR=::1:80"}, `ONCEWARD_OPS_LISTEN_ADDR is "::1:80": `},
		{[]string{databaseURL, "ONCEWARD_PUBLIC_URL=api.example.com"}, "ONCEWARD_PUBLIC_URL is no address: "},
		{[]string{databaseURL, "ONCEWARD_PUBLIC_URL=ftp://example.com"}, "ONCEWARD_PUBLIC_URL is no address: "},
		{[]string{databaseURL, "ONCEWARD_PUBLIC_URL=https://u:hunter2@example.com"}, "ONCEWARD_PUBLIC_URL is no address: "},
		{[]string{databaseURL, "ONCEWARD_PUBLIC_URL=https://example.com?"}, "ONCEWARD_PUBLIC_URL is no address: "},
		{[]string{databaseURL, "ONCEWARD_PUBLIC_URL=https://example.com#top"}, "ONCEWARD_PUBLIC_URL is no address: "},
		{[]string{databaseURL, "ONCEWARD_TLS_CERT_FILE=/tls.crt"}, "only one of ONCEWARD_TLS_CERT_FILE and ONCEWARD_TLS_KEY_FILE is set: "},
		{[]string{databaseURL, "ONCEWARD_TRUSTED_PROXIES=10.0.0.0/8,proxy"}, `ONCEWARD_TRUSTED_PROXIES holds "proxy": `},
		{[]string{databaseURL, "ONCEWARD_TRUSTED_PROXY_HEADER=Via"}, `ONCEWARD_TRUSTED_PROXY_HEADER is "Via": `},
		{[]string{databaseURL, "ONCEWARD_METRICS_TENANTS=some"}, `ONCEWARD_METRICS_TENANTS is "some": give true or false`},
		{[]string{databaseURL, "ONCEWARD_LOG_LEVEL=loud"}, `ONCEWARD_LOG_LEVEL is "loud": `},
		{[]string{databaseURL, "ONCEWARD_SHUTDOWN_TIMEOUT=8"}, `ONCEWARD_SHUTDOWN_TIMEOUT is "8": `},
		{[]string{databaseURL, "ONCEWARD_SHUTDOWN_TIMEOUT=999ms"}, `ONCEWARD_SHUTDOWN_TIMEOUT is "999ms": `},
		{[]string{databaseURL, "ONCEWARD_SHUTDOWN_TIMEOUT=5m1s"}, `ONCEWARD_SHUTDOWN_TIMEOUT is "5m1s": `},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN=hunter2"}, "ONCEWARD_OPERATOR_TOKEN holds a token that cannot be one: "},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN=" + token + ",hunter2"}, "ONCEWARD_OPERATOR_TOKEN holds a token that cannot be one: "},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN=hunter2 " + token}, "ONCEWARD_OPERATOR_TOKEN holds a token that cannot be one: "},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN=" + strings.Repeat("t", longestToken+1)}, "ONCEWARD_OPERATOR_TOKEN holds a token that cannot be one: "},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN=" + strings.Repeat(token+",", mostOperatorTokens) + token}, "ONCEWARD_OPERATOR_TOKEN holds 9 tokens: "},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN_FILE=" + missing}, "ONCEWARD_OPERATOR_TOKEN_FILE names a file that cannot be read: "},
		{[]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN_FILE=hunter2"}, "ONCEWARD_OPERATOR_TOKEN_FILE names a file that cannot be read: "},
		{[]string{databaseURL, "OTEL_EXPORTER_OTLP_CERTIFICATE=hunter2"}, "OTEL_EXPORTER_OTLP_CERTIFICATE names a file that cannot be read: "},
	} {
		_, err := loadConfig(tt.environ)
		settingstest.AssertSentence(t, tt.environ, err, tt.want)
	}
}

// A process that would not start with a file says so where its configuration is
// shown, and whoever needs no such file goes on without.
func TestTheFilesOfTheProcessAreLookedInto(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificatetest.Write(t, dir, 1, time.Now())
	cert, key, junk := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	const certFile, keyFile = "ONCEWARD_TLS_CERT_FILE=", "ONCEWARD_TLS_KEY_FILE="
	for _, tt := range []struct {
		environ []string
		want    []string // how the sentences begin
	}{
		{[]string{certFile + cert, keyFile + key}, nil},
		{[]string{certFile + cert, keyFile + junk}, []string{"ONCEWARD_TLS_CERT_FILE and ONCEWARD_TLS_KEY_FILE hold no certificate with its key: "}},
		{[]string{certFile + cert + "x", keyFile + "hunter2"}, []string{
			"ONCEWARD_TLS_CERT_FILE names a file that cannot be read: ", "ONCEWARD_TLS_KEY_FILE names a file that cannot be read: ",
		}},
		{[]string{"ONCEWARD_JWT_KEYS_FILE=" + junk}, []string{"ONCEWARD_JWT_KEYS_FILE holds 0 keys: "}},
	} {
		environ := append([]string{databaseURL}, tt.environ...)
		var out bytes.Buffer
		err := run(t.Context(), []string{"config"}, environ, &out, &out)
		if len(tt.want) == 0 {
			if err != nil {
				t.Errorf("%v: %v", tt.environ, err)
			}
			continue
		}
		said := strings.Split(fmt.Sprint(err), "\n")
		if len(said) != len(tt.want) || strings.Contains(fmt.Sprint(err, out.String()), "hunter2") {
			t.Errorf("%v: %q, want %q", tt.environ, said, tt.want)
			continue
		}
		for i, sentence := range said {
			if !strings.HasPrefix(sentence, tt.want[i]) {
				t.Errorf("%v: %q, want %q", tt.environ, sentence, tt.want[i])
			}
		}
		if _, err := loadConfig(environ); err != nil {
			t.Errorf("%v: a command needs it too: %v", tt.environ, err)
		}
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	_, err := loadConfig([]string{"ONCEWARD_DB_MAX_CONNS=x", "ONCEWARD_LOG_LEVEL=y"})
	if got := strings.Split(fmt.Sprint(err), "\n"); len(got) != 3 {
		t.Errorf("%d sentences, want 3: %q", len(got), got)
	}
}

func TestTheOperatorsTokensHaveOneSource(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	token := strings.Repeat("t", shortestToken)
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := loadConfig([]string{databaseURL, "ONCEWARD_OPERATOR_TOKEN=" + token, "ONCEWARD_OPERATOR_TOKEN_FILE=" + path})
	if err == nil || !strings.Contains(err.Error(), "both set") {
		t.Errorf("got %v", err)
	}
}

func TestTokensAreNotShown(t *testing.T) {
	t.Parallel()
	cfg := config{OperatorToken: tokens{"hunter2"}}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("m", "tokens", cfg.OperatorToken)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", cfg, cfg, cfg, cfg.OperatorToken), logged.String()} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("shown: %s", text)
		}
	}
}

func TestHelpAndTheDocumentSayWhatIsRead(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"help", "-h", "--help", "tenant --help", "credential help", "migrate -h", "config --help"} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(command), nil, &out, &out); err != nil {
			t.Fatal(err)
		}
		settingstest.AssertSaid(t, "api", config{}, out.String())
	}
}

func TestConfigShowsValuesAsTheyAreWrittenAndNoSecret(t *testing.T) {
	t.Parallel()
	chosen := map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://u:hunter2@c:4318/x?key=hunter2",
		"ONCEWARD_DATABASE_URL": "postgres://u:hunter2@h/d", "ONCEWARD_LOG_LEVEL": "warn", "ONCEWARD_SHUTDOWN_TIMEOUT": "90s",
		"ONCEWARD_OPERATOR_TOKEN": strings.Repeat("hunter2", shortestToken),
	}
	want := map[string]string{
		"OTEL_EXPORTER_OTLP_HEADERS": "[set]", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/x",
		"ONCEWARD_DATABASE_URL": "[set]", "ONCEWARD_LOG_LEVEL": "warn", "ONCEWARD_SHUTDOWN_TIMEOUT": "1m30s", "ONCEWARD_OPERATOR_TOKEN": "[set]",
	}
	var environ []string
	for name, value := range chosen {
		environ = append(environ, name+"="+value)
	}
	for _, v := range settings.Variables(config{}) {
		if want[v.Name] == "" {
			want[v.Name] = "not set"
			if v.Default != "-" {
				want[v.Name] = v.Default
			}
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), []string{"config"}, environ, &out, &out); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[name] = strings.TrimSpace(value)
	}
	if diff := cmp.Diff(got, want, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestACommandThatIsNotThereIsOneSentence(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"migrat"}, {"migrate", "now"}, {"migrate", "now", "help"}, {"tenant"}, {"tenant", "help", "me"}, {"--verbose"}, {"", " "}} {
		err := run(t.Context(), args, nil, &bytes.Buffer{}, &bytes.Buffer{})
		if err == nil || !strings.Contains(err.Error(), "api help") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
