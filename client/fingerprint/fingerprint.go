// Package fingerprint computes the digest by which Onceward tells whether two requests under one idempotency key
// are the same request: the algorithm onceward-fp-1.
//
// It owns the canonical forms of query, JSON, form and multipart bodies, the removal of ignored JSON members, and the
// digests made of them. It is pure: no I/O, no clock, no state between calls, and nothing of the server's, so that the
// server and every client reach the same bytes.
//
// It must never change what it answers: a stored fingerprint outlives the process that made it, so another canonical
// form is another algorithm under another name. It must not normalise text: é composed and é decomposed are two
// strings. And it must never guess: under one media type two payloads that differ in meaning have two fingerprints, so
// a body that is not beyond doubt what its media type says is compared byte for byte ([KindRaw]). The price of that
// doubt is a retry refused; the price of the contrary is somebody else's answer.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Algorithm names the algorithm. It is the first field under the digest, so that no other version can collide with it.
const Algorithm = "onceward-fp-1"

// Request is what is fingerprinted. Zero fields count as empty.
type Request struct {
	// Method in any letter case; ASCII letters are put in upper case.
	Method string
	// Path as it was sent: it is neither decoded nor normalised.
	Path string
	// Query without the leading question mark.
	Query string
	// ContentType is the value of the Content-Type header. It decides how Body is read and is not itself under the
	// digest.
	ContentType string
	// Body is the payload with any content coding removed. It is only read.
	Body []byte
	// IgnorePointers are JSON pointers (RFC 6901) to the members of a JSON body that do not count. A pointer with a
	// syntax error points at nothing; refuse it where it is configured, with [ValidPointer].
	IgnorePointers []string
}

// Kind says how a body was read.
type Kind string

// The kinds of body. The text is under the digest.
const (
	KindNone      Kind = "none"      // no body, or an empty one
	KindJSON      Kind = "json"      // canonical JSON
	KindForm      Kind = "form"      // application/x-www-form-urlencoded, canonical
	KindMultipart Kind = "multipart" // multipart/form-data, its parts without their boundary
	KindRaw       Kind = "raw"       // byte for byte
)

// Result is a fingerprint and the digests of its parts, all SHA-256. Results of the same request are equal (==).
type Result struct {
	// Sum is the fingerprint.
	Sum [sha256.Size]byte
	// Kind says how the body was read.
	Kind Kind
	// MethodSum, PathSum and QuerySum are the digests of the method in upper case, of the path and of the canonical
	// query; BodySum is that of kind and canonical body, each preceded by its length. They say which part of two
	// requests differs. A short part can be guessed from its digest: store them only under a secret.
	MethodSum, PathSum, QuerySum, BodySum [sha256.Size]byte
}

// Hex returns the fingerprint as 64 lower-case hexadecimal digits.
func (r Result) Hex() string { return hex.EncodeToString(r.Sum[:]) }

// lengthBytes is the size of the length that precedes each field: an unsigned 64-bit big-endian number.
const lengthBytes = 8

// Compute returns the fingerprint of r. It accepts any input and may be fed by strangers: it does not recurse, and for n
// bytes takes n log n steps at most, but that every level of a JSON body may copy once more what lies inside it.
func Compute(r Request) Result {
	size := 6*lengthBytes + len(Algorithm) + len(r.Method) + len(r.Path) + len(r.Query) + len(KindMultipart)
	kind, params := kindOf(r.ContentType, len(r.Body))
	if kind != KindRaw {
		size += 2 * len(r.Body) // the canonical form is seldom longer, but is put in order in what room is left
	}
	buf := make([]byte, 0, size)

	buf = appendLength(buf, len(Algorithm))
	buf = append(buf, Algorithm...)

	buf = appendLength(buf, len(r.Method))
	methodAt := len(buf)
	for i := range len(r.Method) {
		buf = append(buf, upperASCII(r.Method[i]))
	}
	methodEnd := len(buf)

	buf = appendLength(buf, len(r.Path))
	pathAt := len(buf)
	buf = append(buf, r.Path...)
	pathEnd := len(buf)

	buf = appendLength(buf, 0)
	queryAt := len(buf)
	buf = appendForm(buf, r.Query)
	queryEnd := len(buf)
	setLength(buf, queryAt)

	bodyAt := len(buf)
	buf = appendKind(buf, kind)
	buf = appendLength(buf, 0)
	canonicalAt := len(buf)
	buf, ok := appendBody(buf, kind, params, r.Body, r.IgnorePointers)
	var rest []byte // what follows buf under the digest: a raw body is not copied
	if ok {
		setLength(buf, canonicalAt)
	} else {
		kind, rest = KindRaw, r.Body
		buf = appendLength(appendKind(buf[:bodyAt], KindRaw), len(rest))
	}

	return Result{
		Sum:       sum(buf, rest),
		Kind:      kind,
		MethodSum: sha256.Sum256(buf[methodAt:methodEnd]),
		PathSum:   sha256.Sum256(buf[pathAt:pathEnd]),
		QuerySum:  sha256.Sum256(buf[queryAt:queryEnd]),
		BodySum:   sum(buf[bodyAt:], rest),
	}
}

// Canonical returns how a body of that content type is read, and its canonical form: what is under the digest. A body
// of [KindRaw] is returned itself, not a copy. Invalid pointers are passed over, as in [Request].
func Canonical(contentType string, body []byte, ignorePointers []string) (Kind, []byte) {
	kind, params := kindOf(contentType, len(body))
	var buf []byte
	if kind != KindRaw {
		buf = make([]byte, 0, 2*len(body))
	}
	buf, ok := appendBody(buf, kind, params, body, ignorePointers)
	if !ok {
		return KindRaw, body
	}
	return kind, buf
}

// CanonicalQuery returns the canonical form of a query, given without its question mark. Any text is a query.
func CanonicalQuery(query string) string {
	return string(appendForm(nil, query))
}

// appendBody appends the canonical form of a body that claims to be of that kind. It reports false where the body is
// to be compared byte for byte; what it appended is then worthless.
func appendBody(dst []byte, kind Kind, params string, body []byte, ignore []string) ([]byte, bool) {
	switch kind {
	case KindNone:
		return dst, true
	case KindJSON:
		return appendJSON(dst, body, ignore)
	case KindForm:
		return appendForm(dst, body), true
	case KindMultipart:
		boundary, ok := boundaryOf(params)
		if !ok {
			return dst, false
		}
		return appendMultipart(dst, body, boundary)
	case KindRaw:
		return dst, false
	}
	return dst, false
}

func appendLength(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(n)) //nolint:gosec // a length is never negative
}

// setLength fills in the length of the field that starts at start and ends where buf ends.
func setLength(buf []byte, start int) {
	binary.BigEndian.PutUint64(buf[start-lengthBytes:], uint64(len(buf)-start)) //nolint:gosec // a field ends after it starts
}

func appendKind(dst []byte, kind Kind) []byte {
	return append(appendLength(dst, len(kind)), kind...)
}

// sum is the digest of head followed by tail.
func sum(head, tail []byte) [sha256.Size]byte {
	if len(tail) == 0 {
		return sha256.Sum256(head)
	}
	h := sha256.New()
	h.Write(head)
	h.Write(tail)
	var digest [sha256.Size]byte
	h.Sum(digest[:0])
	return digest
}
