package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/problem"
)

// limit takes n requests of the tenant and of the credential's namespace, and
// says in the answer what is left (draft-ietf-httpapi-ratelimit-headers). Calls
// that a suspended tenant may make are those of a held lease: no limit ever
// refuses them.
func (x *exchange) limit(n int) error {
	if x.route.whileSuspended || x.api.admin.Limits == nil || x.route.listener == Operator || n == 0 {
		return nil
	}
	snapshot, err := x.api.tenants.Snapshot(x.request.Context(), x.caller.Tenant, x.caller.Namespace)
	if err != nil {
		return err
	}
	x.limits = snapshot.Limits
	d := x.api.admin.Limits.Request(x.caller.Tenant, x.caller.Namespace, snapshot.Limits, n)
	x.showRate(d)
	return rateRefusal(d)
}

// limitCaller takes one begin of a caller. Whose it is stands in the JSON, so
// this comes after that was read, and before the values are looked at. What can
// be no caller is left to those who say so.
func (x *exchange) limitCaller(caller *string) (limits.Decision, error) {
	if x.limits.CallerRequestsPerSecond == nil || caller == nil || *caller == "" || len(*caller) > keys.MaxCallerBytes {
		return limits.Decision{Allowed: true}, nil
	}
	d := x.api.admin.Limits.CallerRequest(x.caller.Tenant, x.caller.Namespace, x.limits, *caller)
	return d, rateRefusal(d)
}

// showRate puts the limit that binds in the answer, unless a nearer one is there.
func (x *exchange) showRate(d limits.Decision) {
	if !d.Limited || x.rate.Limited && !d.Nearer(x.rate) {
		return
	}
	x.rate = d
	h := x.Header()
	h.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=1`, d.Of, d.Limit))
	h.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%d`, d.Of, d.Remaining, seconds(d.Reset)))
}

func rateRefusal(d limits.Decision) error {
	if d.Allowed {
		return nil
	}
	var refusal *problem.Error
	switch d.Of {
	case limits.OfNamespace:
		refusal = problem.New(problem.RateLimited, "The namespace has made as many requests as it may, %d per second over all its callers. Repeat the same call after Retry-After.", d.Limit)
	case limits.OfCaller:
		refusal = problem.New(problem.RateLimited, "This caller has begun as often as it may, %d times per second. Repeat the same begin after Retry-After; other callers are not held up.", d.Limit)
	default:
		refusal = problem.New(problem.RateLimited, "The tenant has made as many requests as it may, %d per second over all its callers. Repeat the same call after Retry-After.", d.Limit)
	}
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

	NamespaceRequestsPerSecond *int64 `json:"namespace_requests_per_second"`
	CallerRequestsPerSecond    *int64 `json:"caller_requests_per_second"`
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
		Limits: usageLimits{limits.RequestsPerSecond, limits.NewKeysPerMinute, limits.LiveRecords, limits.StoredBytes, snapshot.BodyLimit, limits.NamespaceRequestsPerSecond, limits.CallerRequestsPerSecond},
	}), err
}

func usageDayOf(d limits.Day) usageDay {
	return usageDay{d.Day.Format(time.DateOnly), d.Requests, d.NewRecords, d.Limited}
}
