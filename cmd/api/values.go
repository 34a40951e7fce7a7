package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/settings"
)

// The types of the variables that no other process has, as internal/settings
// wants them.

const (
	maxDBConns         = 10_000
	shortestShutdown   = time.Second
	longestShutdown    = 5 * time.Minute
	shortestToken      = 32
	longestToken       = 512
	mostOperatorTokens = 8
)

type count int32

// UnmarshalText reads a whole number from 0 to maxDBConns.
func (c *count) UnmarshalText(text []byte) error {
	n, err := settings.Whole(text, 0, maxDBConns)
	*c = count(n) //nolint:gosec // within the range
	return err
}

type gcPercent string

// UnmarshalText reads what the Go runtime takes, which goes on without a value
// that it cannot read.
func (g *gcPercent) UnmarshalText(text []byte) error {
	*g = gcPercent(text)
	if n, err := strconv.ParseInt(string(text), 10, 32); string(text) != "off" && (err != nil || n < 0) {
		return fmt.Errorf("is %q: give a whole number, or off", text)
	}
	return nil
}

type publicURL string

// UnmarshalText reads an http or https address without query and fragment. A
// slash at its end is left out.
func (u *publicURL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" ||
		parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		// Not repeated: what should not be in it may be a password.
		return errors.New("is no address: give one such as https://api.example.com, without user, query and fragment")
	}
	*u = publicURL(strings.TrimRight(parsed.String(), "/"))
	return nil
}

type shutdownTimeout time.Duration

// UnmarshalText reads a duration from shortestShutdown to longestShutdown.
func (s *shutdownTimeout) UnmarshalText(text []byte) error {
	d, err := settings.Duration(text, shortestShutdown, longestShutdown, "8s")
	*s = shutdownTimeout(d)
	return err
}

// String is how it is written in a variable.
func (s shutdownTimeout) String() string { return s.time().String() }

func (s shutdownTimeout) time() time.Duration { return time.Duration(s) }

// tokens are secrets: they are compared, never shown.
type tokens []string

// UnmarshalText reads a comma separated list. Blanks and line ends around a
// token do not count, as in a file that an editor wrote.
func (t *tokens) UnmarshalText(text []byte) error {
	var list tokens
	for token := range strings.SplitSeq(string(text), ",") {
		token = strings.TrimSpace(token)
		if len(token) < shortestToken || len(token) > longestToken || strings.ContainsFunc(token, notTokenByte) {
			return fmt.Errorf("holds a token that cannot be one: give %d to %d letters, digits and - . _ ~ + / = each, separated by commas", shortestToken, longestToken)
		}
		list = append(list, token)
	}
	if len(list) > mostOperatorTokens {
		return fmt.Errorf("holds %d tokens: give at most %d", len(list), mostOperatorTokens)
	}
	*t = list
	return nil
}

// notTokenByte finds what a bearer token cannot hold (RFC 6750, section 2.1).
func notTokenByte(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/=", r))
}

// String keeps tokens out of logs.
func (t tokens) String() string { return "[redacted]" }

// GoString keeps them out of %#v.
func (t tokens) GoString() string { return "[redacted]" }

// LogValue keeps them out of slog.
func (t tokens) LogValue() slog.Value { return slog.StringValue(t.String()) }

// jwtSecret is 32 bytes, or empty.
type jwtSecret string

// UnmarshalText reads base64 (RFC 4648, section 4), with or without padding.
func (j *jwtSecret) UnmarshalText(text []byte) error {
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(string(text)), "="))
	if err != nil || len(raw) != 32 {
		return errors.New("is not 32 bytes in base64: make one with openssl rand -base64 32")
	}
	*j = jwtSecret(raw)
	return nil
}

// bytes are the 32; zero where it is empty.
func (j jwtSecret) bytes() (secret [32]byte) {
	copy(secret[:], j)
	return secret
}

// String keeps it out of logs.
func (j jwtSecret) String() string { return "[redacted]" }

// GoString keeps it out of %#v.
func (j jwtSecret) GoString() string { return "[redacted]" }

// LogValue keeps it out of slog.
func (j jwtSecret) LogValue() slog.Value { return slog.StringValue(j.String()) }

// proxies are networks of addresses.
type proxies []netip.Prefix

// UnmarshalText reads a comma separated list of networks and addresses.
func (p *proxies) UnmarshalText(text []byte) error {
	var list proxies
	for part := range strings.SplitSeq(string(text), ",") {
		part = strings.TrimSpace(part)
		prefix, err := netip.ParsePrefix(part)
		if addr, addrErr := netip.ParseAddr(part); addrErr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("holds %q: give networks such as 10.0.0.0/8 or addresses, separated by commas", part)
		}
		list = append(list, prefix.Masked())
	}
	*p = list
	return nil
}

// String is how they are written in a variable.
func (p proxies) String() string {
	parts := make([]string, len(p))
	for i, prefix := range p {
		parts[i] = prefix.String()
	}
	return strings.Join(parts, ",")
}

type forwardedHeader string

// UnmarshalText reads the name of one of the two headers.
func (f *forwardedHeader) UnmarshalText(text []byte) error {
	word, err := settings.OneOf(text, string(api.XForwardedFor), string(api.Forwarded))
	*f = forwardedHeader(word)
	return err
}
