package keys

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// historyLength is how many attempts a record shows.
const historyLength = 20

// Inspect shows a record. A service credential sees its own namespace, the
// other roles the whole tenant; what only some roles may see is left out or, if
// asked for, refused. Kinds: forbidden, not_found, unavailable, internal.
func (s *Service) Inspect(ctx context.Context, caller auth.Caller, id string, include Include) (Record, error) {
	mayRead := caller.Role == auth.RoleService || caller.Role == auth.RoleAdmin
	if include.Response && !mayRead {
		return Record{}, problem.New(problem.Forbidden, "include=response needs the role service or admin; this credential has the role %s.", caller.Role)
	}
	if include.Late && caller.Role != auth.RoleAdmin {
		return Record{}, problem.New(problem.Forbidden, "include=late needs the role admin; this credential has the role %s.", caller.Role)
	}
	recordID, ok := ParseID(id)
	if !ok {
		return Record{}, errNotFound()
	}
	at := ref{tenant: caller.Tenant, namespace: caller.Namespace, id: recordID}
	r, err := s.look(ctx, at)
	if err != nil {
		return Record{}, err
	}
	record, err := s.show(ctx, at, r, mayRead)
	if err != nil {
		return Record{}, err
	}
	if include.Response && r.state == storedCompleted {
		replay := r.replay(recordID, true)
		complete, err := s.loadReplays(ctx, []loading{{ref{at.tenant, r.namespace, recordID}, &replay}})
		if err != nil {
			return Record{}, err
		}
		if !complete[0] {
			return Record{}, errNotFound() // it ended between the two reads
		}
		record.Response = &replay.Response
	}
	if include.Late {
		if record.Late, err = s.store.readLate(ctx, at, r.createdAt); err != nil {
			return Record{}, translate(err)
		}
	}
	return record, nil
}

func (s *Service) show(ctx context.Context, at ref, r *row, recovery bool) (Record, error) {
	record := Record{
		ID: at.id, Namespace: r.namespace, Caller: r.caller, Operation: r.operation, Key: r.key,
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
	ended, err := s.store.readHistory(ctx, at, r.createdAt)
	if err != nil {
		return Record{}, translate(err)
	}
	record.History = withPresent(ended, r)
	return record, nil
}

// withPresent adds the last attempt, which is in the record's own row, to
// those that ended before it. An attempt that was released stands in both.
func withPresent(ended []Attempt, r *row) []Attempt {
	if n := len(ended); n > 0 && ended[n-1].Attempt == r.attempt {
		return ended
	}
	present := Attempt{Attempt: r.attempt, BegunAt: r.acquiredAt, Credential: r.credential, TraceID: r.traceID}
	if r.state == storedCompleted {
		present.EndedAt, present.How = r.completedAt, "completed"
	}
	all := append(ended, present)
	return all[max(0, len(all)-historyLength):]
}
