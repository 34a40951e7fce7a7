package api

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/keys"
)

// The members of what begin, complete and the lease answer, alone and in a
// batch (wire contract, sections 3 and 4).

func acquiredMembers(o *object, a keys.Acquired) {
	o.text("id", a.ID.String())
	o.text("outcome", "acquired")
	o.number("attempt", int64(a.Attempt))
	o.boolean("resumed", a.Resumed)
	o.boolean("taken_over", a.TakenOver)
	o.object("lease", func(o *object) { leaseMembers(o, a.Lease) })
	recoveryPoint(o, a.RecoveryPoint)
	o.time("created_at", a.CreatedAt)
	o.time("expires_at", a.ExpiresAt)
}

func leaseMembers(o *object, l keys.Lease) {
	o.text("token", string(l.Token))
	o.number("fence", l.Fence)
	o.time("expires_at", l.ExpiresAt)
	o.text("on_lease_expiry", string(l.OnLeaseExpiry))
}

func recoveryPoint(o *object, p *keys.RecoveryPoint) {
	if p == nil {
		o.null("recovery_point")
		return
	}
	o.object("recovery_point", func(o *object) {
		o.text("name", p.Name)
		o.member("data")
		o.buf = append(o.buf, p.Data...) // as sent, to the byte
	})
}

func replayMembers(o *object, r keys.Replay) {
	o.text("id", r.ID.String())
	o.text("outcome", "replay")
	o.number("attempt", int64(r.Attempt))
	o.boolean("fingerprint_matched", r.FingerprintMatched)
	o.object("response", func(o *object) { responseMembers(o, r.Response) })
	o.time("created_at", r.CreatedAt)
	o.time("completed_at", r.CompletedAt)
	o.time("expires_at", r.ExpiresAt)
	o.member("age_seconds")
	o.buf = appendSeconds(o.buf, r.Age)
}

// responseMembers shows a stored response: the body as text where it is text,
// in base64 where it is not, and not at all where it was not kept.
func responseMembers(o *object, r keys.Response) {
	o.number("status", int64(r.Status))
	o.member("headers")
	o.buf = appendHeaders(o.buf, r.Headers)
	switch {
	case r.BodyOmitted:
		o.boolean("body_omitted", true)
		if r.BodyRef != "" {
			o.text("body_ref", r.BodyRef)
		}
	case utf8.Valid(r.Body):
		o.member("body")
		o.buf = appendString(o.buf, r.Body)
	default:
		base64Member(o, "body_base64", r.Body)
	}
}

func base64Member(o *object, name string, value []byte) {
	o.member(name)
	o.buf = append(o.buf, '"')
	o.buf = base64.StdEncoding.AppendEncode(o.buf, value)
	o.buf = append(o.buf, '"')
}

// appendHeaders writes [name, value] pairs in their order.
func appendHeaders(buf []byte, headers []keys.Header) []byte {
	buf = append(buf, '[')
	for i, h := range headers {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = append(buf, '[')
		buf = appendString(buf, h.Name)
		buf = append(buf, ',')
		buf = appendString(buf, h.Value)
		buf = append(buf, ']')
	}
	return append(buf, ']')
}

func completionMembers(o *object, c keys.Completion) {
	state := keys.StateCompleted
	if c.Released {
		state = keys.StateOpen
	}
	o.text("id", c.ID.String())
	o.text("state", string(state))
	o.number("stored_headers", int64(c.StoredHeaders))
	o.member("dropped_headers")
	o.buf = appendStrings(o.buf, c.DroppedHeaders)
	o.time("completed_at", c.CompletedAt)
	o.time("expires_at", c.ExpiresAt)
}

func appendStrings(buf []byte, list []string) []byte {
	buf = append(buf, '[')
	for i, s := range list {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendString(buf, s)
	}
	return append(buf, ']')
}
