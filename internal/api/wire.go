package api

import (
	"bytes"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/client/fingerprint"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// The types of members that are more than their JSON type. Each refuses what
// it cannot be with a reason; none holds what was sent.

// wholeNumber is a JSON number with a whole value, however written: 30, 30.0
// and 3e1 are one. It never passes through floating point.
type wholeNumber int64

// UnmarshalJSONFrom reads the number.
func (n *wholeNumber) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	whole, ok := fingerprint.WholeNumber(string(value))
	if value.Kind() != '0' || !ok {
		return reason("must be a whole number, as a JSON number and not as a string")
	}
	*n = wholeNumber(whole)
	return nil
}

// text is the exact text of a body. It is never nil once read.
type text []byte

// UnmarshalJSONFrom reads the string.
func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		return reason("must be the exact text of the body as a JSON string; send it as text, not as JSON inside JSON, since what is compared and replayed are its bytes")
	}
	*t, err = jsontext.AppendUnquote(make([]byte, 0, len(value)), value)
	return err
}

// binary is a body in base64 (RFC 4648, section 4). It is never nil once read.
type binary []byte

// UnmarshalJSONFrom reads the string.
func (b *binary) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	const shape = reason("must be base64 with padding and without line breaks (RFC 4648, section 4), as a JSON string")
	value, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		return shape
	}
	encoded, err := jsontext.AppendUnquote(make([]byte, 0, len(value)), value)
	if err != nil {
		return err
	}
	if bytes.ContainsAny(encoded, "\r\n") { // which package base64 would skip
		return shape
	}
	decoded, err := base64.StdEncoding.Strict().AppendDecode(make([]byte, 0, len(encoded)), encoded)
	if err != nil {
		return shape
	}
	*b = decoded
	return nil
}

// body chooses between the two ways of sending one. Where both were used it
// returns the longer: its size is looked at before the fault.
func body(asText text, asBinary binary, pointer string) (kept []byte, faults []problem.Field) {
	if asText != nil && asBinary != nil {
		faults = []problem.Field{{Pointer: pointer + "/body_base64", Reason: "send either body or body_base64, not both"}}
	}
	if asText != nil && len(asText) >= len(asBinary) {
		return asText, faults
	}
	return asBinary, faults
}

// headerPair is one header line; package json refuses any other length.
type headerPair [2]string

func headers(pairs []headerPair) []keys.Header {
	list := make([]keys.Header, len(pairs))
	for i, pair := range pairs {
		list[i] = keys.Header{Name: pair[0], Value: pair[1]}
	}
	return list
}
