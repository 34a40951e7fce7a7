package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// answer is what a call was answered with; it sends itself once. An error it
// returns before anything is sent becomes a problem.
type answer interface {
	send(x *exchange) error
}

// noContent is 204.
type noContent struct{}

func (noContent) send(x *exchange) error {
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// jsonAnswer is 200 with a value for package json: for calls that are not made
// once per operation.
type jsonAnswer struct{ value any }

func (a jsonAnswer) send(x *exchange) error {
	body, err := json.Marshal(a.value)
	if err != nil {
		return err
	}
	x.write(http.StatusOK, mediaJSON, body)
	return nil
}

// timeLayout is RFC 3339 with six digits of fraction; used in UTC only.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func timeText(t time.Time) string { return t.UTC().Format(timeLayout) }

// object writes one JSON object member by member, without reflection: the
// answers to begin and complete are written once per operation of a customer.
// Member names are literals of this package that need no escape.
type object struct{ buf []byte }

func openObject(buf []byte) object { return object{append(buf, '{')} }

func (o *object) close() []byte { return append(o.buf, '}') }

// member begins a member; the caller appends its value to o.buf.
func (o *object) member(name string) {
	if o.buf[len(o.buf)-1] != '{' {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(o.buf, '"')
	o.buf = append(o.buf, name...)
	o.buf = append(o.buf, '"', ':')
}

func (o *object) text(name, value string) {
	o.member(name)
	o.buf = appendString(o.buf, value)
}

func (o *object) number(name string, value int64) {
	o.member(name)
	o.buf = strconv.AppendInt(o.buf, value, 10)
}

func (o *object) boolean(name string, value bool) {
	o.member(name)
	o.buf = strconv.AppendBool(o.buf, value)
}

// time writes null for the zero time: what has not happened, or never will.
func (o *object) time(name string, value time.Time) {
	o.member(name)
	if value.IsZero() {
		o.buf = append(o.buf, "null"...)
		return
	}
	o.buf = append(o.buf, '"')
	o.buf = value.UTC().AppendFormat(o.buf, timeLayout)
	o.buf = append(o.buf, '"')
}

// object writes a nested object.
func (o *object) object(name string, members func(*object)) {
	o.member(name)
	inner := openObject(o.buf)
	members(&inner)
	o.buf = inner.close()
}

// null writes null.
func (o *object) null(name string) {
	o.member(name)
	o.buf = append(o.buf, "null"...)
}

// appendString quotes s. What is no UTF-8 (the name of a header that was
// dropped for it) is shown with replacement characters.
func appendString[T ~string | ~[]byte](buf []byte, s T) []byte {
	buf, _ = jsontext.AppendQuote(buf, s)
	return buf
}

// appendSeconds writes a duration as a number of seconds to the microsecond.
func appendSeconds(buf []byte, d time.Duration) []byte {
	return strconv.AppendFloat(buf, float64(d.Microseconds())/1e6, 'f', -1, 64)
}

// maxPooledBytes is the largest buffer that is kept for the next answer.
const maxPooledBytes = 64 << 10

//nolint:gochecknoglobals // a pool has no owner smaller than the process
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// writeObject answers with one JSON object, written into a pooled buffer.
func (x *exchange) writeObject(status int, members func(*object)) error {
	pooled, _ := buffers.Get().(*[]byte)
	out := openObject((*pooled)[:0])
	members(&out)
	body := out.close()
	x.write(status, mediaJSON, body)
	if cap(body) <= maxPooledBytes {
		*pooled = body
		buffers.Put(pooled)
	}
	return nil
}
