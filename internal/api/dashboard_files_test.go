package api

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestWithoutABuildTheDashboardSaysHowToMakeOne(t *testing.T) {
	t.Parallel()
	for _, path := range []string{dashboardPath, dashboardPath + "/settings/policy", assetsPath + "index.js"} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
		w := httptest.NewRecorder()
		serveAssets(nil, nil).ServeHTTP(newExchange(&API{nowFunc: time.Now}, w, r), r)
		body := w.Body.String()
		if w.Code != 503 || !strings.Contains(body, "<code>make build</code>") || !strings.Contains(body, `href="/docs"`) {
			t.Errorf("%s: %d, which does not say how to make one: %s", path, w.Code, body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); policy != contentSecurityPolicy {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
}
