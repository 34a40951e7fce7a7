package apitest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// Object is a JSON object to be sent: raw enough for every mistake.
type Object map[string]any

// Exchange is one request as it was sent and the answer as it came.
type Exchange struct {
	Method        string
	URL           string
	RequestHeader http.Header
	RequestBody   []byte
	Status        int
	Header        http.Header
	Body          []byte
}

// Client speaks HTTP to one instance with one credential.
type Client struct {
	instance *Instance
	base     string
	token    string
	http     *http.Client
}

// Client makes a client of the public listener with an API key; an empty key
// sends none. Its connections are its own.
func (i *Instance) Client(token string) *Client {
	transport := &http.Transport{DisableCompression: true}
	return &Client{instance: i, base: i.URL, token: token, http: &http.Client{Transport: transport}}
}

// OperatorClient makes a client of the operator's listener.
func (i *Instance) OperatorClient() *Client {
	c := i.Client("")
	c.base = i.OperatorURL
	return c
}

// Do makes one request, and ends the test where no answer comes. body is nil
// for none, []byte or string as they are, and anything else as JSON. Every
// header is "Name: value"; a body is application/json unless one says
// otherwise.
func (c *Client) Do(tb testing.TB, method, path string, body any, headers ...string) *Answer {
	tb.Helper()
	a, err := c.Try(tb.Context(), method, path, body, headers...)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Try is Do for a goroutine beside the test's own, and for a request that may
// get no answer.
func (c *Client) Try(ctx context.Context, method, path string, body any, headers ...string) (*Answer, error) {
	content, err := contentOf(body)
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range headerOf(headers) {
		req.Header[name] = values
	}
	return c.Send(req, content)
}

// Send makes the request as it is, and records it; content is its body for the
// record.
func (c *Client) Send(req *http.Request, content []byte) (*Answer, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // the body was read to its end
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	c.instance.world.record(Exchange{
		Method: req.Method, URL: req.URL.String(), RequestHeader: req.Header, RequestBody: content,
		Status: resp.StatusCode, Header: resp.Header, Body: got,
	})
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: got}, nil
}

func contentOf(body any) ([]byte, error) {
	switch b := body.(type) {
	case nil:
		return nil, nil
	case []byte:
		return b, nil
	case string:
		return []byte(b), nil
	default:
		return json.Marshal(body)
	}
}

// headerOf reads "Name: value" lines; the same name twice is two lines, and
// "Name:" alone takes the default away.
func headerOf(lines []string) http.Header {
	h := make(http.Header)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		name = http.CanonicalHeaderKey(name)
		if value = strings.TrimSpace(value); value == "" {
			h[name] = nil
			continue
		}
		h[name] = append(h[name], value)
	}
	return h
}

// Charge is a begin that is right in every member, for a key.
func Charge(key string) Object {
	return Object{
		"key": key, "operation": "POST /v1/charges",
		"request": Object{"method": "POST", "path": "/v1/charges", "content_type": "application/json", "body": `{"amount":4999}`},
	}
}

// With is a copy of o with other members; a nil value takes one away.
func (o Object) With(members Object) Object {
	changed := make(Object, len(o)+len(members))
	for name, value := range o {
		changed[name] = value
	}
	for name, value := range members {
		if value == nil {
			delete(changed, name)
			continue
		}
		changed[name] = value
	}
	return changed
}

// Begin is POST /v1/keys.
func (c *Client) Begin(tb testing.TB, body any, headers ...string) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodPost, "/v1/keys", body, headers...)
}

// Complete is PUT /v1/keys/{id}/response under the lease of a.
func (c *Client) Complete(tb testing.TB, a Acquired, body any, headers ...string) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodPut, "/v1/keys/"+a.ID+"/response", body, append([]string{a.header()}, headers...)...)
}

// Renew is PATCH /v1/keys/{id}/lease.
func (c *Client) Renew(tb testing.TB, a Acquired, body any, headers ...string) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodPatch, "/v1/keys/"+a.ID+"/lease", body, append([]string{a.header()}, headers...)...)
}

// Release is DELETE /v1/keys/{id}/lease.
func (c *Client) Release(tb testing.TB, a Acquired) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodDelete, "/v1/keys/"+a.ID+"/lease", nil, a.header())
}

// DeclareUnknown is POST /v1/keys/{id}/unknown.
func (c *Client) DeclareUnknown(tb testing.TB, a Acquired) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodPost, "/v1/keys/"+a.ID+"/unknown", nil, a.header())
}

// SetRecoveryPoint is PUT /v1/keys/{id}/recovery-point.
func (c *Client) SetRecoveryPoint(tb testing.TB, a Acquired, body any) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodPut, "/v1/keys/"+a.ID+"/recovery-point", body, a.header())
}

// Inspect is GET /v1/keys/{id}; query is such as "?include=response", or empty.
func (c *Client) Inspect(tb testing.TB, id, query string) *Answer {
	tb.Helper()
	return c.Do(tb, http.MethodGet, "/v1/keys/"+id+query, nil)
}
