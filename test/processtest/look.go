//go:build unix

package processtest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Metric is one figure of /metrics, by its name and labels as they stand there.
func (p *API) Metric(tb testing.TB, name string) float64 {
	tb.Helper()
	operator := p.OperatorClient()
	defer operator.Close()
	for line := range strings.Lines(string(operator.Do(tb, http.MethodGet, "/metrics", nil).Expect(tb, http.StatusOK).Body)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			figure, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				tb.Fatalf("/metrics: %v", err)
			}
			return figure
		}
	}
	tb.Fatalf("/metrics has no %s", name)
	return 0
}

// Connections is how many connections the processes of the world have to its
// database at this moment.
func (w *World) Connections(tb testing.TB) (count int) {
	tb.Helper()
	const statement = `select count(*) from pg_stat_activity where datname = current_database() and application_name = 'onceward-api'`
	if err := w.Pool.QueryRow(tb.Context(), statement).Scan(&count); err != nil {
		tb.Fatalf("count the connections: %v", err)
	}
	return count
}
