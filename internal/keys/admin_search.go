package keys

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

const (
	// MaxSearchLimit is the most records of one search.
	MaxSearchLimit     = 200
	defaultSearchLimit = 50
	// maxSearchRounds bounds how often a search goes on to find a full page
	// where what it found is gone by now.
	maxSearchRounds = 4

	cursorDomain = "onceward-cursor-1"
	cursorSize   = 8 + 16
	cursorMAC    = 16
)

// SearchRequest narrows a search; nil members do not. Texts are compared
// whole.
type SearchRequest struct {
	Key       *string            `json:"key"`
	Caller    *string            `json:"caller"`
	Operation *string            `json:"operation"`
	Namespace *auth.NamespaceID  `json:"namespace"`
	State     *State             `json:"state"`
	Metadata  *map[string]string `json:"metadata"` // pairs that a record has
	Since     *time.Time         `json:"since"`    // of created_at, inclusive
	Until     *time.Time         `json:"until"`    // exclusive
	Limit     *int64             `json:"-"`        // 1 to MaxSearchLimit; nil: 50
	Cursor    string             `json:"-"`        // empty: from the newest
}

// SearchResult is one page of a search, the newest first.
type SearchResult struct {
	Records    []Record
	NextCursor string // empty at the end
	// Lag is how far the search may be behind what has happened.
	Lag time.Duration
}

// searchPosition is the record at which a page ended.
type searchPosition struct {
	createdAt time.Time
	id        ID
}

// Search finds records of the caller's tenant. It looks in a table that runs
// behind by Lag; what it shows is each record as it is now, without its
// history. Kinds: invalid_request, unavailable, internal.
func (s *Service) Search(ctx context.Context, caller auth.Caller, req SearchRequest) (SearchResult, error) {
	snapshot, err := s.tenants.Snapshot(ctx, caller.Tenant, auth.NamespaceID{})
	if err != nil {
		return SearchResult{}, err
	}
	limit, err := req.validate()
	if err != nil {
		return SearchResult{}, err
	}
	filter, err := json.Marshal(req, json.Deterministic(true))
	if err != nil {
		return SearchResult{}, problem.Internal(err)
	}
	var from *searchPosition
	if req.Cursor != "" {
		if from, err = readCursor(snapshot, filter, req.Cursor); err != nil {
			return SearchResult{}, err
		}
	}
	var result SearchResult
	if result.Lag, err = s.admin().SearchLag(ctx, caller.Tenant); err != nil {
		return SearchResult{}, translate(err)
	}
	for range maxSearchRounds {
		found, last, more, err := s.admin().Search(ctx, caller.Tenant, req, from, limit-len(result.Records))
		if err != nil {
			return SearchResult{}, translate(err)
		}
		for _, f := range found {
			if req.State != nil && f.row.shownState() != *req.State {
				continue
			}
			record, err := present(f.id, f.row, caller.Role == auth.RoleAdmin)
			if err != nil {
				return SearchResult{}, err
			}
			result.Records = append(result.Records, record)
		}
		result.NextCursor = ""
		if !more {
			return result, nil
		}
		from = last
		result.NextCursor = writeCursor(snapshot, filter, *last)
		if len(result.Records) >= limit {
			return result, nil
		}
	}
	return result, nil
}

func (r SearchRequest) validate() (limit int, err error) {
	v := newValidation()
	limit = v.seconds("/limit", r.Limit, 1, MaxSearchLimit, defaultSearchLimit)
	for pointer, text := range map[string]*string{"/key": r.Key, "/caller": r.Caller, "/operation": r.Operation} {
		if text != nil && !printableASCII(*text) {
			v.fail(pointer, "must be printable ASCII characters")
		}
	}
	if r.State != nil {
		switch *r.State {
		case StateInProgress, StateLapsed, StateUnknown, StateOpen, StateCompleted:
		default:
			v.fail("/state", "must be in_progress, lapsed, unknown, open or completed")
		}
	}
	if r.Metadata != nil {
		v.metadata(*r.Metadata)
	}
	return limit, v.problem()
}

// present is the record without what would need another read.
func present(id ID, r *row, recovery bool) (Record, error) {
	record := Record{
		ID: id, Namespace: r.namespace, Caller: r.caller, Operation: r.operation, Key: r.key,
		State: r.shownState(), Attempt: r.attempt, Fence: r.fence, OnLeaseExpiry: r.onLeaseExpiry(),
		Status: r.response.status, BodyBytes: r.response.bodyBytes,
		CreatedAt: r.createdAt, CompletedAt: r.completedAt, ExpiresAt: r.expiresAt,
	}
	if record.State == StateInProgress || record.State == StateLapsed {
		record.LeaseExpiresAt = r.leaseExpiresAt
	}
	if recovery {
		record.RecoveryPoint = r.recoveryPoint()
	}
	if len(r.metadata) > 0 {
		if err := json.Unmarshal(r.metadata, &record.Metadata); err != nil {
			return Record{}, translate(err)
		}
	}
	return record, nil
}

// A cursor is where a page ended, with a MAC under the tenant's secret over it
// and the filter: it is good for this search of this tenant and no other.

func writeCursor(under *tenants.Snapshot, filter []byte, at searchPosition) string {
	position := binary.BigEndian.AppendUint64(make([]byte, 0, cursorSize+cursorMAC), uint64(at.createdAt.UnixMicro()))
	position = append(position, at.id[:]...)
	mac := cursorMACOf(under, filter, position)
	return base64.RawURLEncoding.EncodeToString(append(position, mac[:cursorMAC]...))
}

func readCursor(under *tenants.Snapshot, filter []byte, text string) (*searchPosition, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != cursorSize+cursorMAC {
		return nil, errCursor()
	}
	position := raw[:cursorSize]
	mac := cursorMACOf(under, filter, position)
	if !hmac.Equal(raw[cursorSize:], mac[:cursorMAC]) {
		return nil, errCursor()
	}
	at := &searchPosition{createdAt: time.UnixMicro(int64(binary.BigEndian.Uint64(position)))} //nolint:gosec // written the same way
	copy(at.id[:], position[8:])
	return at, nil
}

func cursorMACOf(under *tenants.Snapshot, filter, position []byte) [sha256.Size]byte {
	k := borrow(under)
	defer k.giveBack()
	return k.start(cursorDomain).bytes(filter).bytes(position).sum()
}

func errCursor() error {
	return problem.Invalid(problem.Field{Pointer: "/cursor", Reason: "is not the next_cursor of this search: send the same filter as before, or leave the cursor out"})
}
