package api

import (
	"net/http"
	"net/netip"
	"testing"
)

func TestOnlyATrustedProxyNamesTheCaller(t *testing.T) {
	t.Parallel()
	ours := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, tt := range map[string]struct {
		peer      string
		header    ForwardedHeader
		xff       []string
		forwarded []string
		want      string
	}{
		"nobody in between":                {"198.51.100.7:1234", "", nil, nil, "198.51.100.7"},
		"a stranger says who he is":        {"198.51.100.7:1234", "", []string{"203.0.113.9"}, []string{"for=203.0.113.9"}, "198.51.100.7"},
		"a proxy says it":                  {"10.1.1.1:80", "", []string{"203.0.113.9"}, nil, "203.0.113.9"},
		"two proxies":                      {"10.1.1.1:80", "", []string{"203.0.113.9, 10.2.2.2"}, nil, "203.0.113.9"},
		"in two headers":                   {"10.1.1.1:80", "", []string{"203.0.113.9", "10.2.2.2"}, nil, "203.0.113.9"},
		"the caller lied to the proxy":     {"10.1.1.1:80", "", []string{"192.0.2.1, 203.0.113.9"}, nil, "203.0.113.9"},
		"the caller is a proxy of ours":    {"10.1.1.1:80", "", []string{"10.3.3.3"}, nil, "10.3.3.3"},
		"the other header is not read":     {"10.1.1.1:80", "", nil, []string{"for=203.0.113.9"}, "10.1.1.1"},
		"neither the other way round":      {"10.1.1.1:80", Forwarded, []string{"203.0.113.9"}, nil, "10.1.1.1"},
		"nonsense":                         {"10.1.1.1:80", "", []string{"203.0.113.9, unknown"}, nil, "10.1.1.1"},
		"nothing":                          {"10.1.1.1:80", "", []string{""}, nil, "10.1.1.1"},
		"with a port":                      {"10.1.1.1:80", "", []string{"203.0.113.9:4711"}, nil, "203.0.113.9"},
		"IPv6":                             {"[fd00::1]:80", "", []string{"2001:db8::7"}, nil, "2001:db8::7"},
		"IPv6 with a port":                 {"[fd00::1]:80", "", []string{"[2001:db8::7]:4711"}, nil, "2001:db8::7"},
		"an IPv4 peer as IPv6 writes it":   {"[::ffff:10.1.1.1]:80", "", []string{"203.0.113.9"}, nil, "203.0.113.9"},
		"Forwarded":                        {"10.1.1.1:80", Forwarded, nil, []string{`proto=https;For="203.0.113.9:1"`}, "203.0.113.9"},
		"Forwarded with IPv6":              {"10.1.1.1:80", Forwarded, nil, []string{`for="[2001:db8::7]:4711";by=10.1.1.1`}, "2001:db8::7"},
		"Forwarded by two":                 {"10.1.1.1:80", Forwarded, nil, []string{"for=192.0.2.1, for=203.0.113.9", "for=10.2.2.2"}, "203.0.113.9"},
		"Forwarded of somebody obfuscated": {"10.1.1.1:80", Forwarded, nil, []string{"for=_hidden"}, "10.1.1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.xff, "Forwarded": tt.forwarded}}
			if got := (Proxies{Trusted: ours, Header: tt.header}).client(r); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	r := &http.Request{RemoteAddr: "10.1.1.1:80", Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
	if got := (Proxies{}).client(r); got != "10.1.1.1" {
		t.Errorf("without trusted proxies: %s", got)
	}
}
