package telemetry

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/settings"
)

func TestTheStandardVariablesSayWhatIsSentWhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		environ map[string]string
		want    Targets
		fault   string
	}{
		"nothing":             {nil, Targets{}, ""},
		"one endpoint":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, Targets{"http://c:4318/v1/traces", "http://c:4318/v1/metrics", "http://c:4318/v1/logs"}, ""},
		"one signal's":        {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://t/x"}, Targets{TracesURL: "https://t/x"}, ""},
		"all but one":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_LOGS_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}, Targets{TracesURL: "http://c/v1/traces"}, ""},
		"the default address": {map[string]string{"OTEL_LOGS_EXPORTER": "otlp"}, Targets{LogsURL: "http://localhost:4318/v1/logs"}, ""},
		"off":                 {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, Targets{}, ""},
		"another exporter":    {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, Targets{}, "OTEL_TRACES_EXPORTER is"},
		"another protocol":    {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, Targets{}, "OTEL_EXPORTER_OTLP_PROTOCOL is"},
		"no address":          {map[string]string{"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "s3cret@host:4318"}, Targets{}, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT is no address"},
	} {
		var environment Environment
		faults := settings.Read(environ(test.environ), &environment)
		got, err := environment.Targets()
		if err = errors.Join(append(faults, err)...); err != nil {
			got = Targets{}
		}
		if diff := cmp.Diff(got, test.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
		if (err != nil) != (test.fault != "") || err != nil && (!strings.HasPrefix(err.Error(), test.fault) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %v, want %q", name, err, test.fault)
		}
	}
}

func environ(set map[string]string) (list []string) {
	for name, value := range set {
		list = append(list, name+"="+value)
	}
	return list
}

func TestNothingIsMadeWhereNothingIsSent(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	e, err := NewMetrics().Export(t.Context(), Targets{}, "onceward-test", logger)
	if e != nil || err != nil || e.Tracer() != nil || e.Provider() != nil || e.Statements() != nil || e.Logger(logger) != logger || e.Shutdown(t.Context()) != nil {
		t.Errorf("%v, %v: want nothing at all", e, err)
	}
}
