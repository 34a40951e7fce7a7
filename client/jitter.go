package client

import (
	"math/rand/v2" //nolint:depguard // jitter: it spreads retries and is no secret
	"time"
)

// jitter is from 0 to 1.
func jitter() float64 { return rand.Float64() } //nolint:gosec // it spreads retries and is no secret

// backoff is the pause before try number n+1 (n from 1): doubling from 100 ms
// to 3 s, the half of it spread by jitter.
func backoff(n int, jitterFunc func() float64) time.Duration {
	const first, most = 100 * time.Millisecond, 3 * time.Second
	d := most
	if n < 6 {
		d = min(first<<(n-1), most)
	}
	return time.Duration(float64(d) * (0.5 + 0.5*jitterFunc()))
}
