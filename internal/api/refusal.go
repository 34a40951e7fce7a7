package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
)

const (
	// refusalEvery is how often one credential's refusals of one kind at one
	// call are written to the audit trail: whoever is refused all the time
	// fills no table. Those between are counted in the next entry.
	refusalEvery    = time.Minute
	maxRefusalKinds = 10_000
)

// refusals are those that this process has written down.
type refusals struct {
	every   time.Duration
	nowFunc func() time.Time

	mu   sync.Mutex // guards what seen holds
	seen *otter.Cache[refusalKey, *refused]
}

type refusalKey struct {
	tenant     auth.TenantID
	credential auth.CredentialID
	call, code string
}

// refused is when the last entry was written, and how many came after it.
type refused struct {
	at    time.Time
	since int
}

func newRefusals(nowFunc func() time.Time) *refusals {
	return &refusals{every: refusalEvery, nowFunc: nowFunc, seen: otter.Must(&otter.Options[refusalKey, *refused]{MaximumSize: maxRefusalKinds})}
}

// take says how many refusals an entry now would tell of; zero: none is to be
// written yet.
func (r *refusals) take(k refusalKey) (times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.nowFunc()
	last, known := r.seen.GetIfPresent(k)
	if known && now.Sub(last.at) < r.every {
		last.since++
		return 0
	}
	times = 1
	if known {
		times += last.since
	}
	r.seen.Set(k, &refused{at: now})
	return times
}

// refusedCall is what the trail keeps of refused calls.
type refusedCall struct {
	Code  string `json:"code"`
	Times int    `json:"times"` // that were refused since the last entry of the kind, this one included
}

// refusedToken is what the trail keeps of tokens that were signed by us and say
// what is not so.
type refusedToken struct {
	Claim string `json:"claim"`
	Times int    `json:"times"`
}

// noteRefusal writes a refused administrative call to the tenant's audit trail.
func (x *exchange) noteRefusal(err error) {
	if x.route == nil || !x.route.admin || x.caller.Tenant == (auth.TenantID{}) {
		return
	}
	kind := asProblem(err).Kind
	if status := kind.Status(); status != http.StatusForbidden && status != http.StatusConflict {
		return
	}
	times := x.api.refusals.take(refusalKey{x.caller.Tenant, x.caller.Credential, x.routeName(), string(kind)})
	x.writeRefusal(times, audit.Entry{
		Tenant: uuid.UUID(x.caller.Tenant), Actor: x.caller.Actor(), Action: "call.refuse",
		Object: audit.Object{Kind: "call", ID: x.routeName()}, After: refusedCall{string(kind), times},
	})
}

// noteMisfit writes to the trail of the credential's tenant that a token of our
// own signature says something of it that is not so (of a role that was changed,
// or of another tenant). Whoever sent it is told no more than of any bad token.
func (x *exchange) noteMisfit(m *auth.MisfitError) {
	caller := m.Caller
	caller.RequestID, caller.Address = x.requestID, x.api.proxies.client(x.request)
	times := x.api.refusals.take(refusalKey{caller.Tenant, caller.Credential, "token", m.Claim})
	x.writeRefusal(times, audit.Entry{
		Tenant: uuid.UUID(caller.Tenant), Actor: caller.Actor(), Action: "token.refuse",
		Object: audit.Object{Kind: "credential", ID: string(caller.Credential)}, After: refusedToken{m.Claim, times},
	})
}

// writeRefusal writes the entry unless it tells of nothing. Where it cannot be
// written the log has it.
func (x *exchange) writeRefusal(times int, entry audit.Entry) {
	if times == 0 || x.api.admin.Audit == nil {
		return
	}
	if err := x.api.admin.Audit.Add(context.WithoutCancel(x.request.Context()), entry); err != nil {
		x.api.logger.Warn("a refusal is not in the audit trail",
			slog.String("action", entry.Action), slog.String("request_id", x.requestID), slog.Any("error", err))
	}
}
