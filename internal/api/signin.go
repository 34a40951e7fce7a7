package api

import (
	"errors"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"github.com/onceward/onceward/internal/problem"
)

const (
	// DefaultSignInsPerSecond is how many failed sign-ins of one address are
	// answered as such.
	DefaultSignInsPerSecond = 20
	maxSignInAddresses      = 10_000
)

// signIns limits how often an address may present what is no credential. A good
// credential never meets it, whoever else sits behind the same address.
type signIns struct {
	perSecond float64
	failed    *otter.Cache[string, *rate.Limiter]
}

func newSignIns(perSecond float64) *signIns {
	if perSecond == 0 {
		perSecond = DefaultSignInsPerSecond
	}
	return &signIns{perSecond, otter.Must(&otter.Options[string, *rate.Limiter]{MaximumSize: maxSignInAddresses})}
}

// answer is err, or 429 where it says that a sign-in failed and the address has
// had its share of that.
func (s *signIns) answer(err error, address string) error {
	if !errors.Is(err, problem.Unauthenticated) {
		return err
	}
	limiter, _ := s.failed.ComputeIfAbsent(address, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Limit(s.perSecond), int(math.Ceil(s.perSecond))), false
	})
	if limiter.Allow() {
		return err
	}
	refusal := problem.New(problem.RateLimited, "Too many sign-ins have failed from this address. Wait a second, and send a valid API key.")
	refusal.RetryAfter = time.Second
	return refusal
}
