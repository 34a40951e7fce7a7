package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/keys"
)

// storedText is a response of 2 KB as JSON APIs give them.
func storedText() string {
	return strings.Repeat(`{"id":"ch_1","amount":4999,"currency":"eur","note":"two \"quotes\""},`, 30)
}

// BenchmarkDecode is the reading of what callers send.
func BenchmarkDecode(b *testing.B) {
	digest := `{"key":"8b3f4c19-1e6e-4c2c-9c1b-4a5c9c9b3f1e","operation":"POST /v1/charges","fingerprint":"` + strings.Repeat("0f", 32) + `","owner":"0d9f4c1e8a7b4d0c9e55aa01"}`
	request := fmt.Sprintf(`{"key":"8b3f4c19-1e6e-4c2c-9c1b-4a5c9c9b3f1e","request":{"method":"POST","path":"/v1/charges","query":"","content_type":"application/json","body":%q},"owner":"0d9f4c1e8a7b4d0c9e55aa01"}`, storedText()[:300])
	completion := fmt.Sprintf(`{"status":201,"headers":[["Content-Type","application/json"]],"body":%q}`, storedText())
	message := "HTTP/1.1 201 \r\nContent-Type: application/json\r\n\r\n" + storedText()
	for _, bm := range []struct {
		name   string
		sent   string
		decode func(sent []byte) error
	}{
		{"begin by digest", digest, func(sent []byte) error { _, err := decodeBegin(sent); return err }},
		{"begin by request", request, func(sent []byte) error { _, err := decodeBegin(sent); return err }},
		{"completion as JSON", completion, func(sent []byte) error {
			var body responseBody
			if err := decodeJSON(sent, &body); err != nil {
				return err
			}
			_, _ = body.response()
			return nil
		}},
		{"completion as a message", message, func(sent []byte) error { _, _, err := decodeMessage(sent, http.Header{}); return err }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			sent := []byte(bm.sent)
			b.SetBytes(int64(len(sent)))
			b.ReportAllocs()
			for b.Loop() {
				if err := bm.decode(sent); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRender is the writing of what they are answered.
func BenchmarkRender(b *testing.B) {
	now := time.Now()
	acquired := keys.Acquired{
		Attempt: 1, CreatedAt: now, ExpiresAt: now,
		Lease: keys.Lease{Token: "AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE", Fence: 1795971562123456, ExpiresAt: now, OnLeaseExpiry: "takeover"},
	}
	replay := keys.Replay{Attempt: 1, CreatedAt: now, CompletedAt: now, ExpiresAt: now, Age: 3214 * time.Millisecond, Response: keys.Response{
		Status: 201, Headers: []keys.Header{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(storedText()),
	}}
	completion := keys.Completion{CompletedAt: now, ExpiresAt: now}
	for name, members := range map[string]func(*object){
		"acquired":   func(o *object) { acquiredMembers(o, acquired) },
		"replay":     func(o *object) { replayMembers(o, replay) },
		"completion": func(o *object) { completionMembers(o, completion) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 8<<10)
			for b.Loop() {
				o := openObject(buf[:0])
				members(&o)
				buf = o.close()
			}
		})
	}
}
