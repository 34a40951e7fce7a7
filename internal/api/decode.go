package api

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/problem"
)

const (
	maxNamedFaults   = 20   // more would help nobody
	maxPointerBytes  = 1024 // a pointer is the caller's own text: it must not make the answer large
	maxParameterSize = 100
)

// reason is what an unmarshaler of ours says is wrong with a value. It never
// holds the value.
type reason string

func (r reason) Error() string { return string(r) }

const errNull = reason("must not be null; leave the member out instead")

// decodeOptions are those of every JSON body: repeated members and text that
// is not UTF-8 are refused by the package's own defaults.
//
//nolint:gochecknoglobals // compiled once; constants that Go cannot declare
var (
	decodeOptions  = json.RejectUnknownMembers(true)
	refusingOfNull = json.WithUnmarshalers(json.UnmarshalFromFunc(refuseNull))
)

// refuseNull runs before the unmarshaler of every type. null is no value of
// any member of ours; within a jsontext.Value it is the caller's own.
func refuseNull(dec *jsontext.Decoder, into any) error {
	if _, callers := into.(*jsontext.Value); !callers && dec.PeekKind() == 'n' {
		return errNull
	}
	return errors.ErrUnsupported // the type's own unmarshaler goes on
}

// decodeJSON reads one JSON document into a wire type. Its problem names the
// first culprit by its pointer.
func decodeJSON(data []byte, into any) error { return decodeWith(decodeOptions, data, into) }

func decodeWith(options json.Options, data []byte, into any) error {
	if isBlank(data) {
		return problem.Invalid(fault("", "the body is empty; send one JSON object"))
	}
	if bytes.Contains(data, []byte("null")) { // else there is none, and looking at every value costs a tenth of a begin
		options = json.JoinOptions(options, refusingOfNull)
	}
	if err := json.Unmarshal(data, into, options); err != nil {
		return problem.Invalid(faultOf(err))
	}
	return nil
}

// isBlank says whether there is nothing but the white space of JSON (RFC 8259,
// section 2).
func isBlank(data []byte) bool { return len(bytes.Trim(data, " \t\r\n")) == 0 }

// faultOf says what json's error means to whoever wrote the document. The
// package's own texts are not sent: they quote values.
func faultOf(err error) problem.Field {
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	var own reason
	switch {
	case errors.As(err, &syntactic) && errors.Is(syntactic.Err, jsontext.ErrDuplicateName):
		return fault(syntactic.JSONPointer, "this member is given more than once")
	case errors.As(err, &syntactic):
		return fault(syntactic.JSONPointer, fmt.Sprintf("the body is not JSON (RFC 8259) in UTF-8, or is nested too deeply; the fault is near byte %d", syntactic.ByteOffset))
	case !errors.As(err, &semantic): // the package makes no third kind
		return fault("", "the body cannot be read as JSON")
	case errors.As(err, &own):
		return fault(semantic.JSONPointer, string(own))
	case errors.Is(semantic.Err, json.ErrUnknownName):
		return fault(semantic.JSONPointer, "there is no such member")
	default:
		return fault(semantic.JSONPointer, "must be "+expected(semantic.GoType))
	}
}

func fault(pointer jsontext.Pointer, text string) problem.Field {
	if len(pointer) > maxPointerBytes {
		text += "; its name is too long to be shown, this is what it lies in"
	}
	for len(pointer) > maxPointerBytes {
		pointer = pointer.Parent()
	}
	return problem.Field{Pointer: string(pointer), Reason: text}
}

// expected names the JSON that a Go type is read from.
func expected(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return "of another type"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Array: // headerPair
		return "a [name, value] pair of two strings"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "of another type"
	}
}

func shortened(name string) string {
	if len(name) > maxParameterSize {
		return name[:maxParameterSize]
	}
	return name
}
