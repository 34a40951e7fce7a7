package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/problem"
)

// limit takes n requests of the tenant, and says in the answer what is left
// (draft-ietf-httpapi-ratelimit-headers). Calls that a suspended tenant may
// make are those of a held lease: no limit ever refuses them.
func (x *exchange) limit(n int) error {
	if x.route.whileSuspended || x.api.admin.Limits == nil || x.route.listener == Operator || n == 0 {
		return nil
	}
	snapshot, err := x.api.tenants.Snapshot(x.request.Context(), x.caller.Tenant, x.caller.Namespace)
	if err != nil {
		return err
	}
	d := x.api.admin.Limits.Request(x.caller.Tenant, snapshot.Limits, n)
	if !d.Limited {
		return nil
	}
	h := x.Header()
	h.Set("RateLimit-Policy", fmt.Sprintf(`"tenant";q=%d;w=1`, d.Limit))
	h.Set("RateLimit", fmt.Sprintf(`"tenant";r=%d;t=%d`, d.Remaining, seconds(d.Reset)))
	if d.Allowed {
		return nil
	}
	refusal := problem.New(problem.RateLimited, "The tenant has made as many requests as it may, %d per second over all its callers. Repeat the same call after Retry-After.", d.Limit)
	refusal.RetryAfter = max(d.Reset, time.Second)
	return refusal
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// usageRequest is GET /v1/usage.
type usageRequest struct{ from, to time.Time }

const (
	defaultUsageDays = 30
	maxUsageDays     = 400
)

func (r *usageRequest) decode(x *exchange) error {
	const form = "must be a day such as 2026-11-29"
	const day = 24 * time.Hour
	r.to = x.api.nowFunc().UTC().Truncate(day).Add(day)
	var known error
	if x.query.Has("to") {
		if r.to, known = time.Parse(time.DateOnly, x.query.Get("to")); known != nil {
			return problem.Invalid(problem.Field{Parameter: "to", Reason: form})
		}
	}
	r.from = r.to.AddDate(0, 0, -defaultUsageDays)
	if x.query.Has("from") {
		if r.from, known = time.Parse(time.DateOnly, x.query.Get("from")); known != nil {
			return problem.Invalid(problem.Field{Parameter: "from", Reason: form})
		}
	}
	if !r.from.Before(r.to) || r.to.Sub(r.from) > maxUsageDays*day {
		return problem.Invalid(problem.Field{Parameter: "from", Reason: "must be before to, by at most " + strconv.Itoa(maxUsageDays) + " days"})
	}
	return nil
}

type usageBody struct {
	Days        []usageDay  `json:"days"` // the newest first; a day without any use is left out
	LiveRecords int64       `json:"live_records"`
	StoredBytes int64       `json:"stored_bytes"`
	CountedAt   instant     `json:"counted_at"`
	Limits      usageLimits `json:"limits"`
}

type usageDay struct {
	Day        string `json:"day"`
	Requests   int64  `json:"requests"`
	NewRecords int64  `json:"new_records"`
	Limited    int64  `json:"limited"`
}

type usageLimits struct {
	RequestsPerSecond *int64 `json:"requests_per_second"`
	NewKeysPerMinute  int64  `json:"new_keys_per_minute"`
	MaxLiveRecords    *int64 `json:"max_live_records"`
	MaxStoredBytes    *int64 `json:"max_stored_bytes"`
	BodyLimitBytes    int    `json:"body_limit_bytes"`
}

func (a *API) usage(ctx context.Context, caller auth.Caller, req usageRequest) (adminAnswer, error) {
	snapshot, err := a.tenants.Snapshot(ctx, caller.Tenant, auth.NamespaceID{})
	if err != nil {
		return adminAnswer{}, err
	}
	days, err := a.admin.Usage.Days(ctx, caller.Tenant, req.from, req.to)
	if err != nil {
		return adminAnswer{}, err
	}
	holding, err := a.admin.Usage.Holding(ctx, caller.Tenant)
	limits := snapshot.Limits
	return ok(usageBody{
		Days: pageOf(days, usageDayOf).Items, LiveRecords: holding.LiveRecords, StoredBytes: holding.StoredBytes, CountedAt: instant(holding.CountedAt),
		Limits: usageLimits{limits.RequestsPerSecond, limits.NewKeysPerMinute, limits.LiveRecords, limits.StoredBytes, snapshot.BodyLimit},
	}), err
}

func usageDayOf(d limits.Day) usageDay {
	return usageDay{d.Day.Format(time.DateOnly), d.Requests, d.NewRecords, d.Limited}
}
