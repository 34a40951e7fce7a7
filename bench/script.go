//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/onceward/onceward/bench/load"
)

// The requests that are sent, made once; a script overwrites the places that
// differ from one to the next.

const (
	counterDigits = 16
	idLength      = 22
	tokenLength   = 32
	batchSize     = 50

	// places in templates that are overwritten; as long as what goes there
	counterMark = "0000000000000000"
	idMark      = "IIIIIIIIIIIIIIIIIIIIII"
	tokenMark   = "TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"

	kindBegin, kindComplete = 0, 1
)

// template is a request and where its counter, id and token stand.
type template struct {
	raw       []byte
	counters  []int
	id, token int // -1: none
}

func newTemplate(raw string) template {
	t := template{raw: []byte(raw), id: bytes.Index([]byte(raw), []byte(idMark)), token: bytes.Index([]byte(raw), []byte(tokenMark))}
	for at := 0; ; {
		found := bytes.Index(t.raw[at:], []byte(counterMark))
		if found < 0 {
			return t
		}
		t.counters = append(t.counters, at+found)
		at += found + counterDigits
	}
}

// count writes n into the counter's place at.
func (t template) count(at int, n int64) {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	place := t.raw[at : at+counterDigits]
	copy(place, counterMark)
	copy(place[counterDigits-len(text):], text)
}

// maker makes the requests of one API key.
type maker struct {
	key  string // the credential
	body string // of a completion and, from the store, of a replay
}

func (m maker) request(method, path, contentType, more, body string) template {
	return newTemplate(method + " " + path + " HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer " + m.key +
		"\r\nContent-Type: " + contentType + "\r\n" + more + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// beginByDigest is a begin whose fingerprint the caller computed. prefix tells
// runs apart.
func (m maker) beginByDigest(prefix, owner string) string {
	return `{"key":"` + prefix + `-` + counterMark + `","operation":"POST /v1/charges","fingerprint":"` +
		counterMark + `9ab1c2d3e4f5061728394a5b6c7d8e9f00112233aabbccdd","owner":"` + owner + `"}`
}

// beginByRequest is a begin that sends a body of 300 bytes to be fingerprinted.
func (m maker) beginByRequest(prefix, owner string) string {
	payload := `{"customer":"cus_9f1c2d3e4a","amount":4999,"currency":"eur","capture":true,"reference":"` + counterMark + `","description":"`
	const tail = `","metadata":{"order":"42","channel":"web"}}`
	for i := 0; len(payload)+len(tail) < 300; i++ {
		payload += string("two weeks of something useful for people who like "[i%50])
	}
	text, _ := json.Marshal(payload + tail) // a string is always written
	return `{"key":"` + prefix + `-` + counterMark + `","request":{"method":"POST","path":"/v1/charges","query":"","content_type":"application/json","body":` +
		string(text) + `},"owner":"` + owner + `"}`
}

// ownerOf is the owner of a connection's attempts. No two share one: a begin
// with the owner of the attempt that runs would be a repeat of it.
func ownerOf(conn int) string { return fmt.Sprintf("0d9f4c1e8a7b4d0c9e55%04d", conn) }

func (m maker) begin(body string) template {
	return m.request("POST", "/v1/keys", "application/json", "", body)
}

// replay asks for a replay; asMessage as application/http.
func (m maker) replay(prefix string, asMessage bool) template {
	more := ""
	if asMessage {
		more = "Accept: application/http\r\n"
	}
	return m.request("POST", "/v1/keys", "application/json", more, m.beginByDigest(prefix, ownerOf(0)))
}

func (m maker) completeJSON() template {
	text, _ := json.Marshal(m.body) // a string is always written
	return m.request("PUT", "/v1/keys/"+idMark+"/response", "application/json", "Onceward-Lease: "+tokenMark+"\r\n",
		`{"status":201,"headers":[["Content-Type","application/json"]],"body":`+string(text)+`}`)
}

func (m maker) completeMessage() template {
	return m.request("PUT", "/v1/keys/"+idMark+"/response", "application/http", "Onceward-Lease: "+tokenMark+"\r\n",
		"HTTP/1.1 201 \r\nContent-Type: application/json\r\n\r\n"+m.body)
}

func (m maker) batch(prefix, owner string) template {
	body := `{"operations":[`
	for i := range batchSize {
		if i > 0 {
			body += ","
		}
		body += m.beginByDigest(prefix, owner)
	}
	return m.request("POST", "/v1/keys/batch", "application/json", "", body+"]}")
}

// run is what the scripts of one run share; they are called from one goroutine.
type run struct {
	next      int64 // the next counter
	limit     int64 // no counter reaches it; zero: no limit
	acquired  int64 // begins that were answered acquired
	completed int64 // completions that were answered 200
	refused   int64 // 409 in_progress, where a script expects some
}

// take is the next counter; ok is false at the limit.
func (r *run) take() (n int64, ok bool) {
	if r.limit > 0 && r.next >= r.limit {
		return 0, false
	}
	r.next++
	return r.next, true
}

// wrong describes an answer that is not the one expected.
func wrong(what string, a load.Answer) error {
	const enough = 600
	return fmt.Errorf("%s was answered %d: %.*s", what, a.Status, enough, a.Body)
}

//nolint:gochecknoglobals // constants
var (
	acquiredFirst = []byte(`"outcome":"acquired","attempt":1,"resumed":false,"taken_over":false`)
	idMember      = []byte(`"id":"`)
	tokenMember   = []byte(`"token":"`)
	entryCreated  = []byte(`{"status":201,"id":`)
)

func isAcquired(a load.Answer) bool { return a.Status == 201 && bytes.Contains(a.Body, acquiredFirst) }

// beginScript sends begins of new keys.
type beginScript struct {
	run     *run
	request template
}

func (s *beginScript) Next() []byte {
	n, ok := s.run.take()
	if !ok {
		return nil
	}
	for _, at := range s.request.counters {
		s.request.count(at, n)
	}
	return s.request.raw
}

func (s *beginScript) Answer(a load.Answer) (load.Done, error) {
	if !isAcquired(a) {
		return load.Done{}, wrong("a begin of a new key", a)
	}
	s.run.acquired++
	return load.Done{Kind: kindBegin, Operations: 1}, nil
}

// contestedScript begins keys that other connections begin as well: each key
// is to be acquired by one of them.
type contestedScript struct {
	beginScript
	own int64 // the last counter
}

func (s *contestedScript) Next() []byte {
	if s.own++; s.own > s.run.limit {
		return nil
	}
	for _, at := range s.request.counters {
		s.request.count(at, s.own)
	}
	return s.request.raw
}

func (s *contestedScript) Answer(a load.Answer) (load.Done, error) {
	switch {
	case isAcquired(a):
		s.run.acquired++
	case a.Status == 409 && bytes.Contains(a.Body, []byte(`"code":"in_progress"`)):
		s.run.refused++
	default:
		return load.Done{}, wrong("a begin that others make as well", a)
	}
	return load.Done{Kind: kindBegin, Operations: 1}, nil
}

// pairScript begins a new key and completes it.
type pairScript struct {
	run      *run
	begin    template
	complete template
	holds    bool // the begin was answered; the completion is next
}

func (s *pairScript) Next() []byte {
	if s.holds {
		return s.complete.raw
	}
	n, ok := s.run.take()
	if !ok {
		return nil
	}
	for _, at := range s.begin.counters {
		s.begin.count(at, n)
	}
	return s.begin.raw
}

func (s *pairScript) Answer(a load.Answer) (load.Done, error) {
	if s.holds {
		if s.holds = false; a.Status != 200 || !bytes.Contains(a.Body, []byte(`"state":"completed"`)) {
			return load.Done{}, wrong("a completion", a)
		}
		s.run.completed++
		return load.Done{Kind: kindComplete, Operations: 1}, nil
	}
	if !isAcquired(a) {
		return load.Done{}, wrong("a begin of a new key", a)
	}
	if !memberInto(s.complete.raw[s.complete.id:s.complete.id+idLength], a.Body, idMember) ||
		!memberInto(s.complete.raw[s.complete.token:s.complete.token+tokenLength], a.Body, tokenMember) {
		return load.Done{}, errors.New("an acquired begin has no id or token of the length that was expected")
	}
	s.holds = true
	s.run.acquired++
	return load.Done{Kind: kindBegin}, nil
}

// memberInto copies the text of a member, which must fill into.
func memberInto(into, body, member []byte) bool {
	at := bytes.Index(body, member)
	if at < 0 || len(body) <= at+len(member)+len(into) || body[at+len(member)+len(into)] != '"' {
		return false
	}
	copy(into, body[at+len(member):])
	return true
}

// batchScript sends batches of begins of new keys.
type batchScript struct {
	run     *run
	request template
}

func (s *batchScript) Next() []byte {
	// Each entry has two counters, of its key and of its fingerprint.
	for i := 0; i < len(s.request.counters); i += 2 {
		n, ok := s.run.take()
		if !ok {
			return nil
		}
		s.request.count(s.request.counters[i], n)
		s.request.count(s.request.counters[i+1], n)
	}
	return s.request.raw
}

func (s *batchScript) Answer(a load.Answer) (load.Done, error) {
	if a.Status != 200 || bytes.Count(a.Body, entryCreated) != batchSize || bytes.Count(a.Body, acquiredFirst) != batchSize {
		return load.Done{}, wrong("a batch of new keys", a)
	}
	s.run.acquired += batchSize
	return load.Done{Kind: kindBegin, Operations: batchSize}, nil
}

// replayScript begins keys that are completed, in turn.
type replayScript struct {
	run     *run
	request template
	want    []byte // the end of the answer's body: the stored body, or what JSON says of it
	records int64
}

func (s *replayScript) Next() []byte {
	s.run.next++
	n := s.run.next%s.records + 1
	for _, at := range s.request.counters {
		s.request.count(at, n)
	}
	return s.request.raw
}

func (s *replayScript) Answer(a load.Answer) (load.Done, error) {
	if a.Status != 200 || !bytes.Contains(a.Head, []byte("\r\nIdempotent-Replay: true")) || !bytes.Contains(a.Body, s.want) {
		return load.Done{}, wrong("a begin of a completed key", a)
	}
	return load.Done{Kind: kindBegin, Operations: 1}, nil
}
