//go:build unix

package fault_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// proxy stands between the processes and PostgreSQL, and can be told to be a
// bad network.
type proxy struct {
	toxi *toxiproxy.Proxy
	url  string // of the database, through the proxy
}

// newProxy is a proxy in front of the server of the URL.
func newProxy(t *testing.T, databaseURL string) *proxy {
	t.Helper()
	at, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &proxy{toxi: toxiproxy.NewProxy(server, "postgres", "127.0.0.1:0", at.Host)}
	if err := p.toxi.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.toxi.Stop)
	at.Host = p.toxi.Listen
	p.url = at.String()
	return p
}

// cut ends every connection, and refuses new ones until mend.
func (p *proxy) cut() { p.toxi.Stop() }

// mend lets connections through again, to the server of the URL from now on.
func (p *proxy) mend(t *testing.T, databaseURL string) {
	t.Helper()
	at, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.toxi.Update(&toxiproxy.Proxy{Listen: p.toxi.Listen, Upstream: at.Host, Enabled: true}); err != nil {
		t.Fatal(err)
	}
}

// add makes the network bad in one way, as toxiproxy's JSON describes it.
func (p *proxy) add(t *testing.T, toxic string) {
	t.Helper()
	if _, err := p.toxi.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(err)
	}
}

// heal makes it good again. Connections that a toxic held are closed by it.
func (p *proxy) heal() { p.toxi.Toxics.ResetToxics(context.Background()) }

// swallowAnswers lets requests through to the server and nothing back.
const swallowAnswers = `{"name": "swallow", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`
