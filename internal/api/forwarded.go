package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ForwardedHeader is the one header in which the trusted proxies name who asked.
type ForwardedHeader string

// The headers (RFC 7239, and its forerunner).
const (
	XForwardedFor ForwardedHeader = "X-Forwarded-For"
	Forwarded     ForwardedHeader = "Forwarded"
)

// Proxies are the reverse proxies before this process. What they say of the
// address of a caller is believed, and of nobody else; the zero value believes
// nobody.
type Proxies struct {
	// Trusted are the addresses from which they connect.
	Trusted []netip.Prefix
	// Header is what they append to; empty is X-Forwarded-For. The other one
	// is never read: a proxy passes it on as its client wrote it.
	Header ForwardedHeader
}

// client is the address of whoever sent the request, without a port: the last
// hop that is no trusted proxy. It is for audit and for the limit on failed
// sign-ins.
func (p Proxies) client(r *http.Request) string {
	at := peer(r)
	if len(p.Trusted) == 0 {
		return at
	}
	addr, err := netip.ParseAddr(at)
	if err != nil || !p.trusts(addr) {
		return at
	}
	hops := p.hops(r.Header)
	for _, hop := range slices.Backward(hops) {
		addr, err := netip.ParseAddr(hop)
		if err != nil {
			return at // an obfuscated or broken hop: the proxy that says so is the last that is known
		}
		at = addr.Unmap().WithZone("").String()
		if !p.trusts(addr) {
			return at
		}
	}
	return at
}

func (p Proxies) trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(p.Trusted, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// hops lists the addresses of the header in the order in which they were added.
func (p Proxies) hops(h http.Header) (hops []string) {
	if p.Header != Forwarded {
		for _, line := range h.Values(string(XForwardedFor)) {
			for hop := range strings.SplitSeq(line, ",") {
				hops = append(hops, withoutPort(hop))
			}
		}
		return hops
	}
	for _, line := range h.Values(string(Forwarded)) {
		for element := range strings.SplitSeq(line, ",") {
			hops = append(hops, withoutPort(forwardedFor(element)))
		}
	}
	return hops
}

// forwardedFor is the node of an element's parameter for (RFC 7239, section
// 5.2), or "".
func forwardedFor(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// withoutPort takes the port and the brackets of IPv6 from a node.
func withoutPort(node string) string {
	node = strings.TrimSpace(node)
	if host, _, err := net.SplitHostPort(node); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(node, "["), "]")
}

// peer is the address at the other end of the connection, without its port.
func peer(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
