package tenants

import (
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/auth"
)

const (
	maxOperationLength = 512 // printable ASCII
	shortestLease      = time.Second
	longestLease       = time.Hour
	maxIgnorePointers  = 32
	maxPointerBytes    = 1024
	maxHeaderNames     = 100
	maxHeaderNameBytes = 256
)

// SetPolicy replaces one policy row of the tenant: its default, an operation's,
// or an operation's in one namespace. A nil member is left to the next wider
// row. It answers with the new policy version, which every change raises; the
// row is in force here at once and on every process within 5 s.
//
// It returns problem.InvalidRequest (a retention outside the tenant's limits,
// a namespace that the tenant does not have) and problem.NotFound where there
// is no such tenant.
func (s *Service) SetPolicy(ctx context.Context, tenant auth.TenantID, row Override) (version int64, err error) {
	row = row.lowered()
	if err := row.validate(); err != nil {
		return 0, err
	}
	version, err = s.rows.PutOverride(ctx, tenant, row, s.entry("policy.set"))
	// After a failure too: whether it took effect may not be known.
	s.snapshots.Forget(tenant)
	return version, err
}

func (o Override) validate() error {
	var v fieldErrors
	if len(o.Operation) > maxOperationLength || !printableASCII(o.Operation) {
		v.add("/operation", "at most %d printable ASCII characters", maxOperationLength)
	}
	if o.Operation == "" && o.Namespace != (auth.NamespaceID{}) {
		v.add("/namespace", "a namespace narrows an operation; name one")
	}
	if o.Retention != nil && (!wholeSeconds(*o.Retention) || *o.Retention < time.Second || *o.Retention > longestRetention) {
		v.add("/retention_seconds", "whole seconds within the tenant's limits")
	}
	if o.Lease != nil && (!wholeSeconds(*o.Lease) || *o.Lease < shortestLease || *o.Lease > longestLease) {
		v.add("/lease_seconds", "whole seconds, from 1 to 3600")
	}
	oneOf(&v, "/on_mismatch", o.OnMismatch, OnMismatchReject, OnMismatchReplay)
	if o.MismatchStatus != nil && *o.MismatchStatus != 409 && *o.MismatchStatus != 422 && *o.MismatchStatus != 400 {
		v.add("/mismatch_status", "409, 422 or 400")
	}
	oneOf(&v, "/on_lease_expiry", o.OnLeaseExpiry, OnLeaseExpiryTakeover, OnLeaseExpiryHold)
	oneOf(&v, "/store_errors", o.StoreErrors, StoreErrorsAll, StoreErrorsClient, StoreErrorsNone)
	oneOf(&v, "/store_body", o.StoreBody, StoreBodyAll, StoreBodyNone)
	v.headerNames("/strip_headers", o.StripHeaders)
	v.headerNames("/keep_headers", o.KeepHeaders)
	v.pointers("/ignore_pointers", o.IgnorePointers)
	return v.err()
}

func lowered(names *[]string) *[]string {
	if names == nil {
		return nil
	}
	low := make([]string, len(*names))
	for i, name := range *names {
		low[i] = strings.ToLower(name)
	}
	return &low
}

func printableASCII(text string) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return true
}

// isToken is the name of a header: RFC 9110, section 5.6.2.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return text != ""
}

// isPointer is RFC 6901 in UTF-8 without NUL, which PostgreSQL's text refuses.
func isPointer(text string) bool {
	return len(text) <= maxPointerBytes && isUTF8WithoutNUL(text) && jsontext.Pointer(text).IsValid()
}
