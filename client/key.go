package client

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"reflect"
	"strconv"
)

// Key derives an idempotency key from what names an operation for good: the
// same parts in the same order give the same key in every process, today and
// after a restart; any other parts give another.
//
//	key, err := client.Key("order", order.ID, "charge", order.AmountCents, attempt)
//
// Parts are strings, whole numbers and booleans, also of named types: things
// that a database keeps. A time, a float, a pointer and a random value have no
// place in a key, since the retry would carry another; the types among them
// are refused. So is an empty string, since it is most likely an id that is
// missing, and all operations with a missing id would count as one. Give a new
// attempt that is meant to run again (after a card was declined) a part of its
// own, and keep it with the order.
//
// The key has the form of a UUID (version 8, RFC 9562): 36 characters, which
// every provider takes.
func Key(parts ...any) (string, error) {
	if len(parts) == 0 {
		return "", errors.New("onceward: a key needs at least one part that names the operation")
	}
	h := newKeyHash("onceward-key-1")
	for i, part := range parts {
		tag, text, err := keyPart(part)
		if err != nil {
			return "", fmt.Errorf("onceward: part %d of a key: %w", i+1, err)
		}
		writeField(h, tag)
		writeField(h, text)
	}
	return keyText(h), nil
}

// DownstreamKey derives the idempotency key for one step of an operation at
// one provider, such as ("stripe", "charge"), from the id of its record. It is
// the same in every attempt, so that a provider that keeps keys does the step
// once, whoever takes over.
//
// It is also the same after the record's retention has ended and its key is
// used again. Where that is meant to be a new operation, it needs a new key.
func DownstreamKey(record RecordID, provider, step string) string {
	h := newKeyHash("onceward-downstream-1")
	writeField(h, string(record))
	writeField(h, provider)
	writeField(h, step)
	return keyText(h)
}

// keyPart is the kind of a part and its one text: 42 is the same whatever Go's
// type of it, and never the same as "42".
func keyPart(part any) (tag, text string, err error) {
	v := reflect.ValueOf(part)
	switch v.Kind() {
	case reflect.String:
		if v.Len() == 0 {
			return "", "", errors.New("it is an empty string; is the id missing?")
		}
		return "s", v.String(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, isDuration := part.(interface{ Seconds() float64 }); isDuration {
			return "", "", errors.New("it is a duration; give what names the operation, not when it runs")
		}
		return "i", strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "i", strconv.FormatUint(v.Uint(), 10), nil
	case reflect.Bool:
		return "b", strconv.FormatBool(v.Bool()), nil
	default:
		return "", "", fmt.Errorf("it is a %T; parts are strings, whole numbers and booleans", part)
	}
}

func newKeyHash(domain string) hash.Hash {
	h := sha256.New()
	writeField(h, domain)
	return h
}

// writeField writes a field after its length, so that no two lists of fields
// are the same bytes. A hash never fails.
func writeField(h hash.Hash, field string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(field)))
	h.Write(length[:])
	h.Write([]byte(field))
}

// keyText is the first 122 bits of the digest, as a UUID of version 8.
func keyText(h hash.Hash) string {
	var u [16]byte
	copy(u[:], h.Sum(nil))
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
}
