package fingerprint_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/client/fingerprint"
)

// BenchmarkCompute is the cost of a fingerprint on the way of every begin that sends its request.
func BenchmarkCompute(b *testing.B) {
	requests := []struct {
		name    string
		request fingerprint.Request
	}{
		{"JSON 300 B", request("application/json", chargeJSON(b, 300))},
		{"JSON 300 B, ignoring two members", fingerprint.Request{
			Method: "POST", Path: "/v1/charges", ContentType: "application/json", Body: chargeJSON(b, 300),
			IgnorePointers: []string{"/sent_at", "/items/0/sku"},
		}},
		{"JSON 2 KB", request("application/json", chargeJSON(b, 2048))},
		{"JSON 1 MiB", request("application/json", chargeJSON(b, 1<<20))},
		{"form 300 B", request("application/x-www-form-urlencoded", chargeForm(300))},
		{"form 2 KB", request("application/x-www-form-urlencoded", chargeForm(2048))},
		{"multipart 2 KB", request("multipart/form-data; boundary=AaB03x", chargeMultipart(2048))},
		{"raw 300 B", request("application/octet-stream", bytes.Repeat([]byte{0xA5}, 300))},
		{"raw 2 KB", request("application/octet-stream", bytes.Repeat([]byte{0xA5}, 2048))},
		{"raw 1 MiB", request("application/octet-stream", bytes.Repeat([]byte{0xA5}, 1<<20))},
	}
	for _, bm := range requests {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.request.Body)))
			b.ReportAllocs()
			for b.Loop() {
				fingerprint.Compute(bm.request)
			}
		})
	}
}

// BenchmarkComputeHostile is the cost of bodies made to be slow. Each must stay near the cost of an honest body of its
// size (JSON 1 MiB above) or be refused at once.
func BenchmarkComputeHostile(b *testing.B) {
	const size = 1 << 20
	requests := []struct {
		name    string
		request fingerprint.Request
	}{
		{"5 MB of opening brackets", request("application/json", bytes.Repeat([]byte("["), 5_000_000))},
		{"members in reverse order on 128 levels", request("application/json", reversedLevels(128, size))},
		{"one object of many names in reverse order", request("application/json", reversedNames(size))},
		{"one number", request("application/json", bytes.Repeat([]byte("1"), size))},
		{"form of many short pairs", request("application/x-www-form-urlencoded", bytes.Repeat([]byte("b&A&"), size/4))},
		{"form of many names in two cases", request("application/x-www-form-urlencoded", bytes.Repeat([]byte("b&B&"), size/4))},
		{"multipart of many parts", request("multipart/form-data; boundary=x",
			append(bytes.Repeat([]byte("--x\r\na:\r\n\r\n\r\n"), size/14), "--x--"...))},
		{"multipart of many headers", request("multipart/form-data; boundary=x", manyHeaders(size))},
	}
	for _, bm := range requests {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.request.Body)))
			b.ReportAllocs()
			for b.Loop() {
				fingerprint.Compute(bm.request)
			}
		})
	}
}

// request is a POST to /v1/charges.
func request(contentType string, body []byte) fingerprint.Request {
	return fingerprint.Request{Method: "POST", Path: "/v1/charges", ContentType: contentType, Body: body}
}

// chargeJSON is a charge with as many items as make about size bytes, its members not in order.
func chargeJSON(tb testing.TB, size int) []byte {
	tb.Helper()
	var b strings.Builder
	b.WriteString(`{"customer_id": "cus_9sXk2Pq", "amount": 4999.00, "currency": "eur", "capture": true, ` +
		`"description": "Caf\u00e9 \"Nord\", table 7", "sent_at": "2026-01-01T00:00:00Z", "items": [`)
	for i := 0; ; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"sku": "sku_%06d", "quantity": %d, "price": %d.50}`, i, i%7+1, i*13)
		if b.Len() >= size-2 {
			break
		}
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func chargeForm(size int) []byte {
	var b strings.Builder
	b.WriteString("amount=4999&currency=eur&description=Caf%C3%A9+Nord")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "&field_%d=value+%d", i*7%10, i)
	}
	return []byte(b.String())
}

func chargeMultipart(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "--AaB03x\r\nContent-Disposition: form-data; name=\"field_%d\"\r\n"+
			"Content-Type: text/plain\r\n\r\nvalue %d\r\n", i, i)
	}
	b.WriteString("--AaB03x--\r\n")
	return []byte(b.String())
}

// reversedLevels nests objects that each have to be put in order, around a string that fills up to size.
func reversedLevels(levels, size int) []byte {
	text := strings.Repeat(`{"b":1,"a":`, levels)
	filler := strings.Repeat("x", size-len(text)-levels-len(`""`))
	return []byte(text + `"` + filler + `"` + strings.Repeat("}", levels))
}

func reversedNames(size int) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i := 999_999; ; i-- {
		fmt.Fprintf(&b, `"%06d":1`, i)
		if b.Len() >= size-1 {
			break
		}
		b.WriteByte(',')
	}
	b.WriteByte('}')
	return []byte(b.String())
}

func manyHeaders(size int) []byte {
	var b strings.Builder
	b.WriteString("--x\r\n")
	for i := 999_999; b.Len() < size; i-- {
		fmt.Fprintf(&b, "%06d:\r\n", i)
	}
	b.WriteString("\r\n\r\n--x--")
	return []byte(b.String())
}
