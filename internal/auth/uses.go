package auth

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// useInterval is how far last_used_at is behind at most, and flushTimeout how
// long one recording may take.
const (
	useInterval  = 10 * time.Second
	flushTimeout = 5 * time.Second
)

// use is one credential that was used, so long ago.
type use struct {
	tenant TenantID
	id     CredentialID
	age    time.Duration
}

// uses remembers when each credential was last used until it is recorded: one
// statement every useInterval instead of a write per request. It is bounded by
// the number of credentials that are known.
type uses struct {
	mu   sync.Mutex // guards last
	last map[CredentialID]usedAt
}

type usedAt struct {
	tenant TenantID
	at     time.Time
}

func (u *uses) note(caller Caller, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		u.last = make(map[CredentialID]usedAt)
	}
	if len(u.last) < maxKnownCredentials {
		u.last[caller.Credential] = usedAt{caller.Tenant, at}
	}
}

func (u *uses) take(now time.Time) []use {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]use, 0, len(u.last))
	for id, used := range u.last {
		list = append(list, use{used.tenant, id, max(now.Sub(used.at), 0)})
	}
	u.last = nil
	// Two processes update in the same order: neither waits for the other in a
	// circle.
	slices.SortFunc(list, func(a, b use) int { return compareText(a.id, b.id) })
	return list
}

func compareText[T ~string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// FlushUses records what has been used since it was last called.
func (a *Authenticator) FlushUses(ctx context.Context) error {
	list := a.uses.take(a.nowFunc())
	if len(list) == 0 {
		return nil
	}
	return a.rows.RecordUses(ctx, list)
}

// RecordUses records uses every 10 s until ctx ends, and once more then. A
// recording that fails is logged and lost: last use is a hint to people.
func (a *Authenticator) RecordUses(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(useInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ended = true
		}
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		if err := a.FlushUses(flush); err != nil {
			logger.Warn("record when credentials were last used", slog.Any("error", err))
		}
		cancel()
	}
}
