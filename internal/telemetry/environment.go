package telemetry

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/settings"
)

// Environment are the OpenTelemetry specification's variables that every process
// reads. What is sent where is decided here (Targets); the rest the SDK reads by
// itself and is checked here, because the SDK would go on without a value that it
// cannot read, and may log it.
type Environment struct {
	SDKDisabled              settings.Switch `env:"OTEL_SDK_DISABLED" envDefault:"false" unit:"true or false" help:"true sends nothing, whatever else is set"`
	ServiceName              string          `env:"OTEL_SERVICE_NAME" unit:"text" help:"what the process is called; unset is onceward-api, or onceward-worker"`
	ResourceAttributes       attributes      `env:"OTEL_RESOURCE_ATTRIBUTES" unit:"list" help:"what else is said of the process, as name=value, comma separated"`
	TracesExporter           exporterName    `env:"OTEL_TRACES_EXPORTER" unit:"word" help:"otlp sends traces, none does not; unset sends where an endpoint is set"`
	MetricsExporter          exporterName    `env:"OTEL_METRICS_EXPORTER" unit:"word" help:"otlp sends metrics, none does not; unset sends where an endpoint is set"`
	LogsExporter             exporterName    `env:"OTEL_LOGS_EXPORTER" unit:"word" help:"otlp sends logs, none does not; unset sends where an endpoint is set"`
	Endpoint                 endpoint        `env:"OTEL_EXPORTER_OTLP_ENDPOINT" unit:"URL" help:"the collector, such as http://collector:4318: turns traces, metrics and logs on; /v1/traces, /v1/metrics and /v1/logs are added"`
	TracesEndpoint           endpoint        `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" unit:"URL" help:"the whole address for traces, which turns them on"`
	MetricsEndpoint          endpoint        `env:"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" unit:"URL" help:"the whole address for metrics, which turns them on"`
	LogsEndpoint             endpoint        `env:"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT" unit:"URL" help:"the whole address for logs, which turns them on"`
	Protocol                 protocol        `env:"OTEL_EXPORTER_OTLP_PROTOCOL" unit:"word" help:"http/protobuf, which is what there is"`
	TracesProtocol           protocol        `env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" unit:"word" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_PROTOCOL"`
	MetricsProtocol          protocol        `env:"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL" unit:"word" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_PROTOCOL"`
	LogsProtocol             protocol        `env:"OTEL_EXPORTER_OTLP_LOGS_PROTOCOL" unit:"word" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_PROTOCOL"`
	Headers                  headers         `env:"OTEL_EXPORTER_OTLP_HEADERS" secret:"true" unit:"list" help:"headers of what is sent, as name=value, comma separated, such as an authorization"`
	TracesHeaders            headers         `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS" secret:"true" unit:"list" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_HEADERS"`
	MetricsHeaders           headers         `env:"OTEL_EXPORTER_OTLP_METRICS_HEADERS" secret:"true" unit:"list" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_HEADERS"`
	LogsHeaders              headers         `env:"OTEL_EXPORTER_OTLP_LOGS_HEADERS" secret:"true" unit:"list" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_HEADERS"`
	Timeout                  milliseconds    `env:"OTEL_EXPORTER_OTLP_TIMEOUT" unit:"ms" help:"how long one sending may take; unset is 10000"`
	TracesTimeout            milliseconds    `env:"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT" unit:"ms" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_TIMEOUT"`
	MetricsTimeout           milliseconds    `env:"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT" unit:"ms" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_TIMEOUT"`
	LogsTimeout              milliseconds    `env:"OTEL_EXPORTER_OTLP_LOGS_TIMEOUT" unit:"ms" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_TIMEOUT"`
	Compression              compression     `env:"OTEL_EXPORTER_OTLP_COMPRESSION" unit:"word" help:"gzip or none; unset is none"`
	TracesCompression        compression     `env:"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION" unit:"word" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_COMPRESSION"`
	MetricsCompression       compression     `env:"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION" unit:"word" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_COMPRESSION"`
	LogsCompression          compression     `env:"OTEL_EXPORTER_OTLP_LOGS_COMPRESSION" unit:"word" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_COMPRESSION"`
	Certificate              pemFile         `env:"OTEL_EXPORTER_OTLP_CERTIFICATE" unit:"path" help:"file with the certificates (PEM) that the collector's is checked against; unset takes the system's"`
	TracesCertificate        pemFile         `env:"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE" unit:"path" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_CERTIFICATE"`
	MetricsCertificate       pemFile         `env:"OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE" unit:"path" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_CERTIFICATE"`
	LogsCertificate          pemFile         `env:"OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE" unit:"path" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_CERTIFICATE"`
	ClientCertificate        pemFile         `env:"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE" unit:"path" help:"file with the certificate (PEM) that is shown to the collector; set together with the key"`
	TracesClientCertificate  pemFile         `env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE" unit:"path" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"`
	MetricsClientCertificate pemFile         `env:"OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE" unit:"path" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"`
	LogsClientCertificate    pemFile         `env:"OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE" unit:"path" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"`
	ClientKey                pemFile         `env:"OTEL_EXPORTER_OTLP_CLIENT_KEY" unit:"path" help:"file with its private key (PEM)"`
	TracesClientKey          pemFile         `env:"OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY" unit:"path" help:"the same for traces alone, in place of OTEL_EXPORTER_OTLP_CLIENT_KEY"`
	MetricsClientKey         pemFile         `env:"OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY" unit:"path" help:"the same for metrics alone, in place of OTEL_EXPORTER_OTLP_CLIENT_KEY"`
	LogsClientKey            pemFile         `env:"OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY" unit:"path" help:"the same for logs alone, in place of OTEL_EXPORTER_OTLP_CLIENT_KEY"`
	Sampler                  sampler         `env:"OTEL_TRACES_SAMPLER" unit:"word" help:"what is traced: always_on, always_off, traceidratio, or these with parentbased_ before; unset is parentbased_always_on; parentbased_traceidratio with 0.01 is right for a busy service"`
	SamplerArg               ratio           `env:"OTEL_TRACES_SAMPLER_ARG" unit:"0 to 1" help:"the part that traceidratio takes; unset is 1"`
	BspScheduleDelay         milliseconds    `env:"OTEL_BSP_SCHEDULE_DELAY" unit:"ms" help:"how long spans wait to be sent together; unset is 5000"`
	BspExportTimeout         milliseconds    `env:"OTEL_BSP_EXPORT_TIMEOUT" unit:"ms" help:"how long the sending of spans may take; unset is 30000"`
	BspMaxQueueSize          size            `env:"OTEL_BSP_MAX_QUEUE_SIZE" unit:"spans" help:"most spans that wait; those beyond are dropped; unset is 2048"`
	BspMaxExportBatchSize    size            `env:"OTEL_BSP_MAX_EXPORT_BATCH_SIZE" unit:"spans" help:"most spans that are sent together; unset is 512"`
	BlrpScheduleDelay        milliseconds    `env:"OTEL_BLRP_SCHEDULE_DELAY" unit:"ms" help:"how long log records wait to be sent together; unset is 1000"`
	BlrpExportTimeout        milliseconds    `env:"OTEL_BLRP_EXPORT_TIMEOUT" unit:"ms" help:"how long the sending of log records may take; unset is 30000"`
	BlrpMaxQueueSize         size            `env:"OTEL_BLRP_MAX_QUEUE_SIZE" unit:"log records" help:"most log records that wait; those beyond are dropped; unset is 2048"`
	BlrpMaxExportBatchSize   size            `env:"OTEL_BLRP_MAX_EXPORT_BATCH_SIZE" unit:"log records" help:"most log records that are sent together; unset is 512"`
	MetricExportInterval     milliseconds    `env:"OTEL_METRIC_EXPORT_INTERVAL" unit:"ms" help:"pause between two sendings of metrics; unset is 60000"`
	MetricExportTimeout      milliseconds    `env:"OTEL_METRIC_EXPORT_TIMEOUT" unit:"ms" help:"how long one of them may take; unset is 30000"`
}

// Targets are where it says that traces, metrics and logs go. With none of its
// variables set nothing is sent. Its error has a sentence for each fault.
func (e Environment) Targets() (Targets, error) {
	var t Targets
	if e.SDKDisabled {
		return t, nil
	}
	for _, signal := range []struct {
		name, chosen string
		own          endpoint
		url          *string
	}{
		{"traces", string(e.TracesExporter), e.TracesEndpoint, &t.TracesURL},
		{"metrics", string(e.MetricsExporter), e.MetricsEndpoint, &t.MetricsURL},
		{"logs", string(e.LogsExporter), e.LogsEndpoint, &t.LogsURL},
	} {
		switch {
		case signal.chosen == "none", signal.chosen == "" && e.Endpoint == "" && signal.own == "":
		case signal.own != "":
			*signal.url = string(signal.own)
		case e.Endpoint != "":
			*signal.url = strings.TrimRight(string(e.Endpoint), "/") + "/v1/" + signal.name
		default:
			*signal.url = "http://localhost:4318/v1/" + signal.name // the specification's default
		}
	}
	var errs []error
	for _, pair := range []struct {
		certificate, key pemFile
		prefix           string
	}{
		{e.ClientCertificate, e.ClientKey, ""},
		{e.TracesClientCertificate, e.TracesClientKey, "TRACES_"},
		{e.MetricsClientCertificate, e.MetricsClientKey, "METRICS_"},
		{e.LogsClientCertificate, e.LogsClientKey, "LOGS_"},
	} {
		if (pair.certificate == "") != (pair.key == "") {
			const name = "OTEL_EXPORTER_OTLP_"
			errs = append(errs, fmt.Errorf("only one of %sCLIENT_CERTIFICATE and %sCLIENT_KEY is set: set both, or neither", name+pair.prefix, name+pair.prefix))
		}
	}
	return t, errors.Join(errs...)
}

type exporterName string

// UnmarshalText reads the name of an exporter that is there.
func (n *exporterName) UnmarshalText(text []byte) error {
	if *n = exporterName(text); *n != "otlp" && *n != "none" {
		return fmt.Errorf("is %q: give otlp or none; Prometheus reads /metrics", text)
	}
	return nil
}

type protocol string

// UnmarshalText reads the name of the protocol that is there.
func (p *protocol) UnmarshalText(text []byte) error {
	if *p = protocol(text); *p != "http/protobuf" {
		return fmt.Errorf("is %q: give http/protobuf, which is what there is", text)
	}
	return nil
}

type compression string

// UnmarshalText reads how what is sent is made smaller.
func (c *compression) UnmarshalText(text []byte) error {
	if *c = compression(text); *c != "gzip" && *c != "none" {
		return fmt.Errorf("is %q: give gzip or none", text)
	}
	return nil
}

type endpoint string

// UnmarshalText reads an http or https address.
func (e *endpoint) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return errors.New("is no address: give one such as http://collector:4318") // not repeated: it may hold a password
	}
	*e = endpoint(text)
	return nil
}

// String is the address without what may be a secret in it.
func (e endpoint) String() string {
	parsed, err := url.Parse(string(e))
	if err != nil || e == "" {
		return ""
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

type milliseconds int64

// UnmarshalText reads a whole number of them.
func (m *milliseconds) UnmarshalText(text []byte) error {
	const hour = 3_600_000
	n, err := settings.Whole(text, 1, hour)
	*m = milliseconds(n)
	return err
}

// String is how they are written in a variable.
func (m milliseconds) String() string { return orUnset(int64(m)) }

type size int64

// UnmarshalText reads how many.
func (s *size) UnmarshalText(text []byte) error {
	const most = 1_000_000
	n, err := settings.Whole(text, 1, most)
	*s = size(n)
	return err
}

// String is how it is written in a variable.
func (s size) String() string { return orUnset(int64(s)) }

func orUnset(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

type sampler string

// UnmarshalText reads the name of one.
func (s *sampler) UnmarshalText(text []byte) error {
	word, err := settings.OneOf(text, "always_on", "always_off", "traceidratio",
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio")
	*s = sampler(word)
	return err
}

type ratio string

// UnmarshalText reads a number from 0 to 1.
func (r *ratio) UnmarshalText(text []byte) error {
	*r = ratio(strings.TrimSpace(string(text)))
	if n, err := strconv.ParseFloat(string(*r), 64); err != nil || !(n >= 0 && n <= 1) {
		return fmt.Errorf("is %q: give a number from 0 to 1", text)
	}
	return nil
}

// headers are secrets as a rule: an authorization is one.
type headers string

// UnmarshalText reads name=value, comma separated, values escaped as in a URL.
func (h *headers) UnmarshalText(text []byte) error {
	if !arePairs(string(text), isHeaderName) {
		return errors.New("is no list of headers: give name=value, separated by commas, with what is special in a value escaped as in a URL") // never repeated
	}
	*h = headers(text)
	return nil
}

// isHeaderName says whether the text is a token (RFC 9110, section 5.6.2).
func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// String keeps them out of logs.
func (h headers) String() string { return "[redacted]" }

// GoString keeps them out of %#v.
func (h headers) GoString() string { return "[redacted]" }

type attributes string

// UnmarshalText reads name=value, comma separated, values escaped as in a URL.
func (a *attributes) UnmarshalText(text []byte) error {
	if !arePairs(string(text), func(name string) bool { return name != "" }) {
		return fmt.Errorf("is %q: give name=value, separated by commas", text)
	}
	*a = attributes(text)
	return nil
}

func arePairs(text string, named func(name string) bool) bool {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !found || err != nil || !named(strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

type pemFile string

// UnmarshalText reads the name of a file that is there and holds PEM.
func (f *pemFile) UnmarshalText(text []byte) error {
	*f = pemFile(strings.TrimSpace(string(text)))
	content, err := os.ReadFile(string(*f))
	if err != nil {
		return fmt.Errorf("names a file that cannot be read: %w", settings.WithoutPath(err))
	}
	if block, _ := pem.Decode(content); block == nil {
		return errors.New("names a file that holds no PEM block")
	}
	return nil
}
