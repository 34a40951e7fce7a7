package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/settings"
)

// What the SDK would leave out, or log with the secret in it, ends the process
// with a sentence.
func TestWhatTheSDKCouldNotReadIsAFault(t *testing.T) {
	t.Parallel()
	certificate := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(certificate, []byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{ // how the sentence goes on from the variable; empty: it is taken
		"OTEL_SDK_DISABLED=yes":                                     ` is "yes": give true or false`,
		"OTEL_RESOURCE_ATTRIBUTES=team=a,zone=b%20c":                "",
		"OTEL_RESOURCE_ATTRIBUTES=team":                             ` is "team": give name=value`,
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20s3cret":   "",
		"OTEL_EXPORTER_OTLP_HEADERS=authorization: s3cret":          " is no list of headers: ",
		"OTEL_EXPORTER_OTLP_LOGS_HEADERS=a b=s3cret":                " is no list of headers: ",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=a=%s3cret":               " is no list of headers: ",
		"OTEL_EXPORTER_OTLP_TIMEOUT=10s":                            ` is "10s": give a whole number from 1 to 3600000`,
		"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT=0":                      ` is "0": give a whole number from 1 to 3600000`,
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip":                       "",
		"OTEL_EXPORTER_OTLP_LOGS_COMPRESSION=zip":                   ` is "zip": give gzip or none`,
		"OTEL_EXPORTER_OTLP_CERTIFICATE=" + certificate:             "",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=" + certificate + "x":       " names a file that cannot be read: ",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=environment_test.go":        " names a file that holds no PEM block",
		"OTEL_TRACES_SAMPLER=parentbased_traceidratio":              "",
		"OTEL_TRACES_SAMPLER=sometimes":                             ` is "sometimes": give always_on, `,
		"OTEL_TRACES_SAMPLER_ARG=0.01":                              "",
		"OTEL_TRACES_SAMPLER_ARG=1.01":                              ` is "1.01": give a number from 0 to 1`,
		"OTEL_TRACES_SAMPLER_ARG=NaN":                               ` is "NaN": give a number from 0 to 1`,
		"OTEL_BSP_MAX_QUEUE_SIZE=-1":                                ` is "-1": give a whole number from 1 to 1000000`,
		"OTEL_METRIC_EXPORT_INTERVAL=often":                         ` is "often": give a whole number`,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=grpc://u:s3cret@c:4317": " is no address: ",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc":                   ` is "grpc": give http/protobuf`,
	} {
		var e Environment
		faults := settings.Read([]string{line}, &e)
		name, _, _ := strings.Cut(line, "=")
		switch {
		case want == "" && len(faults) > 0, want != "" && len(faults) != 1:
			t.Errorf("%s: %v", line, faults)
		case want != "" && (!strings.HasPrefix(faults[0].Error(), name+want) || strings.Contains(faults[0].Error(), "s3cret")):
			t.Errorf("%s: %q, want %q", line, faults[0], name+want)
		}
	}
	var e Environment
	if faults := settings.Read([]string{"OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY=" + certificate}, &e); len(faults) > 0 {
		t.Fatal(faults)
	}
	if _, err := e.Targets(); err == nil || !strings.HasPrefix(err.Error(), "only one of OTEL_EXPORTER_OTLP_LOGS_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_LOGS_CLIENT_KEY is set: ") {
		t.Errorf("a key without its certificate: %v", err)
	}
}
