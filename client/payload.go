package client

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// payload is a request as it came, before any handler could change it.
type payload struct {
	method, path, query, contentType, contentEncoding string
	body                                              []byte
}

// maxPathBytes is the longest path that the service takes.
const maxPathBytes = 8192

// readPayload reads the body, once and up to the limit. Nothing has been
// answered where it fails; its error is a refusalError.
func readPayload(r *http.Request, limit int64) (*payload, error) {
	p := &payload{
		method: r.Method, contentType: strings.Join(r.Header.Values("Content-Type"), ", "),
		contentEncoding: strings.Join(r.Header.Values("Content-Encoding"), ", "),
	}
	p.path, p.query = targetOf(r)
	tooLarge := refusalError{code: ErrBodyTooLarge, status: http.StatusRequestEntityTooLarge, detail: fmt.Sprintf("The body of this request may have %d bytes at the most.", limit)}
	switch {
	case len(p.path) > maxPathBytes:
		return nil, refusalError{code: ErrInvalidRequest, status: http.StatusRequestURITooLong, detail: fmt.Sprintf("The path may have %d bytes at the most.", maxPathBytes)}
	case r.ContentLength > limit:
		return nil, tooLarge
	case r.Body == nil:
		return p, nil
	}
	var err error
	p.body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch _, limited := errors.AsType[*http.MaxBytesError](err); {
	case limited || int64(len(p.body)) > limit:
		return nil, tooLarge
	case err != nil:
		return nil, refusalError{code: ErrInvalidRequest, status: http.StatusBadRequest, detail: "The body did not arrive whole.", cause: err}
	case r.ContentLength >= 0 && int64(len(p.body)) != r.ContentLength,
		len(p.body) == 0 && (len(r.PostForm) > 0 || r.MultipartForm != nil):
		// Two payloads of which nothing is left would count as the same.
		return nil, refusalError{code: ErrInternal, status: http.StatusInternalServerError, detail: "This endpoint cannot see the whole request.", cause: errors.New("something before the middleware has read the body; put the middleware before it")}
	}
	return p, nil
}

// targetOf is path and query as they were sent, before anything was decoded,
// stripped or rewritten.
func targetOf(r *http.Request) (path, query string) {
	path, query, _ = strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "#") { // absolute form, or not from a server
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
	}
	if path == "" {
		path = "/"
	}
	return path, query
}

// restore gives a handler the body to read as if it were the first. Length,
// transfer coding and header are as they came.
func (p *payload) restore(r *http.Request) *http.Request {
	restored := r.WithContext(r.Context())
	restored.Body = http.NoBody
	if len(p.body) > 0 {
		restored.Body = io.NopCloser(bytes.NewReader(p.body))
	}
	return restored
}

// request is what the key is bound to: the payload with a gzip coding removed,
// since the same payload compressed again may be other bytes. One that cannot
// be decoded, or within the limit, is taken as it came.
func (p *payload) request(limit int64) *Request {
	r := &Request{Method: p.method, Path: p.path, Query: p.query, ContentType: p.contentType, Body: p.body}
	if !strings.EqualFold(strings.TrimSpace(p.contentEncoding), "gzip") {
		return r
	}
	reader, err := gzip.NewReader(bytes.NewReader(p.body))
	if err != nil {
		return r
	}
	decoded, err := io.ReadAll(io.LimitReader(reader, limit+1))
	if err == nil && int64(len(decoded)) <= limit {
		r.Body = decoded
	}
	return r
}
