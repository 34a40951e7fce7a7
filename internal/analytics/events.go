package analytics

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

const (
	defaultEvents = 50
	maxListed     = 200
)

// EventQuery says which single events are asked for. Zero fields do not narrow
// it down.
type EventQuery struct {
	Kind      string // one of Kinds
	Namespace auth.NamespaceID
	Operation string
	Caller    *string
	Since     time.Time // inclusive
	Limit     int       // zero means 50; at most 200
	Cursor    string    // NextCursor of the page before, under the same filter
}

// Events is a page of single events, newest first.
type Events struct {
	Items      []ListedEvent
	NextCursor string // empty on the last page
}

// ListedEvent is one single event as it was kept.
type ListedEvent struct {
	At         time.Time
	ID         uuid.UUID
	Kind       Outcome
	Namespace  auth.NamespaceID
	Record     [16]byte
	Operation  string
	Caller     string
	Key        string
	Credential auth.CredentialID
	TraceID    string         // or empty
	Status     int            // 0 where there is none
	Attempt    int            // 0 where it was not said
	Age        *time.Duration // of a replay or a 409
}

// Events lists single events of the last seven days. Kinds: invalid_request,
// unavailable, internal.
func (s *Service) Events(ctx context.Context, caller auth.Caller, q EventQuery) (Events, error) {
	if q.Limit == 0 {
		q.Limit = defaultEvents
	}
	if q.Limit < 1 || q.Limit > maxListed {
		return Events{}, problem.Invalid(problem.Field{Parameter: "limit", Reason: fmt.Sprintf("must be 1 to %d", maxListed)})
	}
	var kind Outcome
	if q.Kind != "" {
		var ok bool
		if kind, ok = ParseKind(q.Kind); !ok {
			return Events{}, problem.Invalid(problem.Field{Parameter: "kind", Reason: fmt.Sprintf("must be one of %v", Kinds())})
		}
	}
	filter := q.digest(caller.Tenant)
	var after *position
	if q.Cursor != "" {
		var ok bool
		if after, ok = parseCursor(q.Cursor, filter); !ok {
			return Events{}, problem.Invalid(problem.Field{Parameter: "cursor", Reason: "is not the next_cursor of a page with this same filter; begin again without it"})
		}
	}
	items, err := s.store.events(ctx, caller.Tenant, q, kind, after)
	if err != nil {
		return Events{}, translate(err)
	}
	page := Events{Items: items}
	if len(items) > q.Limit {
		page.Items = items[:q.Limit]
		last := page.Items[q.Limit-1]
		page.NextCursor = position{last.At, last.ID}.cursor(filter)
	}
	return page, nil
}

// position is where a page ended.
type position struct {
	at time.Time
	id uuid.UUID
}

const filterDigestBytes = 8

// digest binds a cursor to its tenant and filter. It keeps nobody out: the
// statement names the tenant.
func (q EventQuery) digest(tenant auth.TenantID) [filterDigestBytes]byte {
	caller := "-"
	if q.Caller != nil {
		caller = "=" + *q.Caller
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %q %q %d", tenant, q.Kind, q.Namespace, q.Operation, caller, q.Since.UnixMicro()))
	return [filterDigestBytes]byte(sum[:filterDigestBytes])
}

func (p position) cursor(filter [filterDigestBytes]byte) string {
	raw := append(filter[:], p.id[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(p.at.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseCursor(text string, filter [filterDigestBytes]byte) (*position, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != filterDigestBytes+16+8 || [filterDigestBytes]byte(raw) != filter {
		return nil, false
	}
	raw = raw[filterDigestBytes:]
	micros := int64(binary.BigEndian.Uint64(raw[16:])) //nolint:gosec // written by cursor
	return &position{at: time.UnixMicro(micros), id: uuid.UUID(raw[:16])}, true
}
