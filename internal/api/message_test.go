package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/keys"
)

func TestAMessageIsReadToTheByte(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		raw  string
		want keys.Response
	}{
		"headers in order and a body": {
			"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nLink: <a>\r\nlink: <b>\r\n\r\nhello\n",
			keys.Response{Status: 201, Headers: []keys.Header{{Name: "Content-Type", Value: "text/plain"}, {Name: "Link", Value: "<a>"}, {Name: "link", Value: "<b>"}}, Body: []byte("hello\n")},
		},
		"an empty reason": {"HTTP/1.1 204 \r\n\r\n", keys.Response{Status: 204}},
		"no header at all": {
			"HTTP/1.1 200 OK\r\n\r\nx", keys.Response{Status: 200, Body: []byte("x")},
		},
		"a reason beyond ASCII": {"HTTP/1.1 200 Tr\u00e8s\tbien\r\n\r\n", keys.Response{Status: 200}},
		"the first status":      {"HTTP/1.1 200 \r\n\r\n", keys.Response{Status: 200}},
		"the last status":       {"HTTP/1.1 599 \r\n\r\n", keys.Response{Status: 599}},
		"a body with blank lines, bare line feeds and zero bytes": {
			"HTTP/1.1 200 \r\n\r\n\r\n\r\n\x00\n\xff",
			keys.Response{Status: 200, Body: []byte("\r\n\r\n\x00\n\xff")},
		},
		"the length that the body has": {
			"HTTP/1.1 200 \r\ncontent-length: 003\r\n\r\nabc",
			keys.Response{Status: 200, Headers: []keys.Header{{Name: "content-length", Value: "003"}}, Body: []byte("abc")},
		},
		"a length where nothing follows, as in the answer to HEAD": {
			"HTTP/1.1 200 \r\nContent-Length: 1234\r\n\r\n",
			keys.Response{Status: 200, Headers: []keys.Header{{Name: "Content-Length", Value: "1234"}}},
		},
		"blanks around a value are no part of it": {
			"HTTP/1.1 200 \r\nA: \t b c \t\r\nB:\r\n\r\n",
			keys.Response{Status: 200, Headers: []keys.Header{{Name: "A", Value: "b c"}, {Name: "B", Value: ""}}},
		},
		"a header that will not be stored is no fault of the message": {
			"HTTP/1.1 200 \r\nBad Name: x\r\n: y\r\nCR: a\rb\r\nNUL: a\x00b\r\nBytes: \xff\r\n\r\n",
			keys.Response{Status: 200, Headers: []keys.Header{{Name: "Bad Name", Value: "x"}, {Name: "", Value: "y"}, {Name: "CR", Value: "a\rb"}, {Name: "NUL", Value: "a\x00b"}, {Name: "Bytes", Value: "\xff"}}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMessage([]byte(tt.raw))
			if err != nil {
				t.Fatalf("parseMessage: %v", err)
			}
			if diff := cmp.Diff(got, tt.want, equateEmpty()); diff != "" {
				t.Errorf("response (-got +want):\n%s", diff)
			}
		})
	}
}

func TestAMessageThatTwoReadersCouldReadAsTwoIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ raw, want string }{
		"nothing at all":                      {"", "no blank line"},
		"no blank line":                       {"HTTP/1.1 200 OK\r\nA: b\r\n", "no blank line"},
		"no blank line after the status line": {"HTTP/1.1 200 OK\r\n", "no blank line"},
		"line feeds alone":                    {"HTTP/1.1 200 OK\nA: b\n\nbody", "no blank line"},
		"one bare line feed in the header":    {"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", "line 2 has a line feed"},
		"a bare line feed in the status line": {"HTTP/1.1 200 OK\nA: b\r\n\r\n", "line 1 has a line feed"},
		"a blank line of a bare line feed":    {"HTTP/1.1 200 OK\r\nA: b\r\n\n\r\n\r\n", "line 3 has a line feed"},
		"a folded line":                       {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "line 3 is folded"},
		"a line folded with a tab":            {"HTTP/1.1 200 OK\r\nA: b\r\n\tc\r\n\r\n", "line 3 is folded"},
		"a blank before the first header":     {"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", "line 2 is folded"},
		"an informational status":             {"HTTP/1.1 103 Early Hints\r\n\r\n", "from 200 to 599"},
		"a switch of protocols":               {"HTTP/1.1 101 \r\n\r\n", "from 200 to 599"},
		"one below the first status":          {"HTTP/1.1 199 \r\n\r\n", "from 200 to 599"},
		"one past the last status":            {"HTTP/1.1 600 \r\n\r\n", "from 200 to 599"},
		"a transfer coding":                   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "line 2 is Transfer-Encoding"},
		"a transfer coding in other letters":  {"HTTP/1.1 200 OK\r\nA: b\r\ntransfer-ENCODING: identity\r\n\r\n", "line 3 is Transfer-Encoding"},
		"a transfer coding before a blank":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding : chunked\r\n\r\n", "line 2 is Transfer-Encoding"},
		"a length one too small":              {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", "line 2 is a Content-Length"},
		"a length one too large":              {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", "line 2 is a Content-Length"},
		"a length that is no number":          {"HTTP/1.1 200 OK\r\nContent-Length: 3a\r\n\r\nabc", "line 2 is a Content-Length"},
		"a length with a sign":                {"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc", "line 2 is a Content-Length"},
		"a length beyond 64 bits":             {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc", "line 2 is a Content-Length"},
		"two lengths, one of them right":      {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nabc", "line 3 is a Content-Length"},
		"a list of lengths":                   {"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc", "line 2 is a Content-Length"},
		"a header without a colon":            {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "line 2 has no colon"},
		"HTTP/1.0":                            {"HTTP/1.0 200 OK\r\n\r\n", "line 1 must be HTTP/1.1"},
		"HTTP/2":                              {"HTTP/2 200 OK\r\n\r\n", "line 1 must be HTTP/1.1"},
		"lower case":                          {"http/1.1 200 OK\r\n\r\n", "line 1 must be HTTP/1.1"},
		"no space after the status":           {"HTTP/1.1 200\r\n\r\n", "line 1 must be HTTP/1.1"},
		"two spaces":                          {"HTTP/1.1  200 OK\r\n\r\n", "line 1 must"},
		"two digits":                          {"HTTP/1.1 20 OK\r\n\r\n", "line 1 must"},
		"four digits":                         {"HTTP/1.1 2000 OK\r\n\r\n", "line 1 must"},
		"letters for a status":                {"HTTP/1.1 2x0 OK\r\n\r\n", "three digits"},
		"a status with a sign":                {"HTTP/1.1 +20 OK\r\n\r\n", "three digits"},
		"a control in the reason":             {"HTTP/1.1 200 O\x01K\r\n\r\n", "control character"},
		"a carriage return in the reason":     {"HTTP/1.1 200 O\rK\r\n\r\n", "control character"},
		"a request":                           {"POST /v1/charges HTTP/1.1\r\nHost: a\r\n\r\n", "line 1 must be HTTP/1.1"},
		"a line before the status line":       {"\r\nHTTP/1.1 200 OK\r\n\r\n", "line 1 must be HTTP/1.1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMessage([]byte(tt.raw))
			if err == nil {
				t.Fatalf("parseMessage took it: %+v", got)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

// What is stored is written again as a message that says the same: nothing in
// a stored header can end a line, add one, or move the start of the body.
func FuzzAMessageIsWrittenAsItWasRead(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: a\r\n\r\nbody",
		"HTTP/1.1 204 \r\n\r\n",
		"HTTP/1.1 200 \r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 \r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 \r\nA: b\n\r\n\r\n\r\n",
		"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 103 \r\n\r\nHTTP/1.1 200 \r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		read, err := parseMessage(raw)
		if err != nil {
			return
		}
		if read.Status < keys.MinStatus || read.Status > keys.MaxStatus {
			t.Fatalf("status %d was taken", read.Status)
		}
		for _, h := range read.Headers {
			if strings.EqualFold(h.Name, "Transfer-Encoding") {
				t.Fatal("a transfer coding was taken")
			}
		}
		again, err := parseMessage(append(appendMessageHead(nil, read), read.Body...))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if diff := cmp.Diff(again, read, equateEmpty()); diff != "" {
			t.Fatalf("written and read again (-again +first):\n%s", diff)
		}
	})
}

func TestWhatJSONSaysOfABodyStandsInHeadersOfAMessage(t *testing.T) {
	t.Parallel()
	const empty = "HTTP/1.1 200 \r\n\r\n"
	tests := map[string]struct {
		header    http.Header
		want      keys.Response
		parameter string // of the refusal
	}{
		"neither":                {nil, keys.Response{Status: 200}, ""},
		"omitted":                {http.Header{"Onceward-Body-Omitted": {"true"}}, keys.Response{Status: 200, BodyOmitted: true}, ""},
		"not omitted":            {http.Header{"Onceward-Body-Omitted": {"false"}}, keys.Response{Status: 200}, ""},
		"omitted, and where":     {http.Header{"Onceward-Body-Omitted": {"true"}, "Onceward-Body-Ref": {"s3://b/1"}}, keys.Response{Status: 200, BodyOmitted: true, BodyRef: "s3://b/1"}, ""},
		"neither true nor false": {http.Header{"Onceward-Body-Omitted": {"yes"}}, keys.Response{Status: 200}, "Onceward-Body-Omitted"},
		"said twice":             {http.Header{"Onceward-Body-Omitted": {"true", "true"}}, keys.Response{Status: 200}, "Onceward-Body-Omitted"},
		"an empty reference":     {http.Header{"Onceward-Body-Ref": {""}}, keys.Response{Status: 200}, "Onceward-Body-Ref"},
		"two references":         {http.Header{"Onceward-Body-Ref": {"a", "b"}}, keys.Response{Status: 200}, "Onceward-Body-Ref"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, faults, err := decodeMessage([]byte(empty), tt.header)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, tt.want, equateEmpty()); diff != "" {
				t.Errorf("response (-got +want):\n%s", diff)
			}
			var parameter string
			if len(faults) > 0 {
				parameter = faults[0].Parameter
			}
			if parameter != tt.parameter {
				t.Errorf("refused %q, want %q", parameter, tt.parameter)
			}
		})
	}
}
