//go:build unix

package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// printer writes to the terminal, a whole line at a time.
type printer struct {
	nowFunc func() time.Time

	mu  sync.Mutex
	out io.Writer // under mu
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A terminal that is gone is no reason to stop.
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// progress is for a step that is under way.
func (p *printer) progress(line string) { p.printf("  … %s", line) }

// note is for what somebody should know, though all goes on.
func (p *printer) note(format string, args ...any) { p.printf("! "+format, args...) }

// step begins to measure one; the function it returns says that it is done.
func (p *printer) step() (done func(format string, args ...any)) {
	start := p.nowFunc()
	return func(format string, args ...any) {
		p.printf("✓ %s in %.1f s", fmt.Sprintf(format, args...), p.nowFunc().Sub(start).Seconds())
	}
}

// greet says what to do next. The commands are tried by a test, as printed.
func (p *printer) greet(s state) {
	p.printf(`
Onceward answers at %s
  reference %s/docs, operator %s/metrics, logs .onceward/log

The dashboard, signed in as the demo admin (this link works once):

  %s

In another terminal, in this folder:

  eval "$(make -s env)"
  KEY="key-$(date +%%s%%N)"
  curl -i "$ONCEWARD_URL/v1/keys" \
    -H "Authorization: Bearer $ONCEWARD_KEY" -H "Content-Type: application/json" \
    -d '{"key": "'"$KEY"'", "request": {"method": "POST", "path": "/v1/charges", "body": "{\"amount\": 4999}"}}'

201: run the operation, then complete it, as README.md goes on to show.
The same curl again: 409, since the first attempt holds the key.
`+"`make demo`"+` sends half a minute of traffic, with clients that misbehave: look at the dashboard.
Ctrl-C stops everything; the data stays for the next run.
`, s.URL, s.URL, s.OpsURL, s.DashboardURL)
}
