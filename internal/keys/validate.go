package keys

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// The limits of the wire contract, sections 1, 3 and 4.
const (
	MinKeyBytes          = 8
	MaxKeyBytes          = 255
	MaxCallerBytes       = 255
	MaxOperationBytes    = 512
	MaxMethodBytes       = 32
	MaxPathBytes         = 8192
	MinOwnerBytes        = 22
	MaxOwnerBytes        = 128
	MaxLeaseSeconds      = 3600
	MaxMetadataPairs     = 16
	MaxMetadataNameBytes = 40
	MaxMetadataRunes     = 200
	MaxRecoveryNameBytes = 64
	MaxRecoveryDataBytes = 16 << 10
	MaxBodyRefBytes      = 2048
	MaxHeaders           = 100
	MaxHeaderBytes       = 32 << 10
	MinStatus            = 200
	MaxStatus            = 599
	MaxBatchEntries      = 500
)

// made says whether s has least to most bytes, all of which are allowed.
func made(s string, least, most int, allowed func(c byte) bool) bool {
	if len(s) < least || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isOwnerByte(c byte) bool { return isAlphanumeric(c) || c == '-' || c == '_' }

func isMetadataNameByte(c byte) bool { return isOwnerByte(c) || c == '.' }

func isLowerHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// isTokenByte is tchar of RFC 9110, section 5.6.2.
func isTokenByte(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isPrintable(c byte) bool { return c >= 0x20 && c <= 0x7e }

// printableASCII says whether every byte of s is 0x20 to 0x7E.
func printableASCII(s string) bool { return made(s, 0, len(s), isPrintable) }

// validateKey checks the idempotency key: the first of the values to be looked
// at, with kinds of its own.
func validateKey(key *string) error {
	switch {
	case key == nil:
		return problem.New(problem.MissingKey, "Send the idempotency key of the operation in the member key: %d to %d printable ASCII characters that stay the same over all retries.", MinKeyBytes, MaxKeyBytes)
	case len(*key) < MinKeyBytes || len(*key) > MaxKeyBytes:
		return problem.New(problem.InvalidKey, "The key has %d bytes; a key has %d to %d printable ASCII characters.", len(*key), MinKeyBytes, MaxKeyBytes)
	case !printableASCII(*key):
		return problem.New(problem.InvalidKey, "The key has a character outside printable ASCII (0x20 to 0x7E). Encode it, for example as base64url or hex.")
	case strings.HasPrefix(*key, " ") || strings.HasSuffix(*key, " "):
		return problem.New(problem.InvalidKey, "The key begins or ends with a space. Keys are compared byte for byte and never trimmed; remove the space where the key is made.")
	}
	return nil
}

// validation gathers everything that is wrong with a request, so that one
// answer names it all.
type validation struct{ fields []problem.Field }

// newValidation begins with what is known to be wrong already.
func newValidation(known ...problem.Field) *validation {
	return &validation{fields: slices.Clone(known)}
}

func (v *validation) fail(pointer, format string, args ...any) {
	v.fields = append(v.fields, problem.Field{Pointer: pointer, Reason: fmt.Sprintf(format, args...)})
}

func (v *validation) problem() error {
	if len(v.fields) == 0 {
		return nil
	}
	return problem.Invalid(v.fields...)
}

// operation returns the operation named, or else the method in upper case, a
// space and the path.
func (v *validation) operation(req BeginRequest) string {
	if req.Operation != nil {
		if !made(*req.Operation, 1, MaxOperationBytes, isPrintable) {
			v.fail("/operation", "must be 1 to %d printable ASCII characters: the route, such as POST /v1/charges/{id}/refund", MaxOperationBytes)
		}
		return *req.Operation
	}
	if req.Request == nil || req.Request.Method == nil || req.Request.Path == nil {
		v.fail("/operation", "is required unless request gives method and path")
		return ""
	}
	operation := strings.ToUpper(*req.Request.Method) + " " + *req.Request.Path
	if !made(operation, 0, MaxOperationBytes, isPrintable) {
		v.fail("/operation", "name one: method and path together are over %d characters or not printable ASCII", MaxOperationBytes)
	}
	return operation
}

func (v *validation) caller(caller *string) string {
	if caller == nil {
		return ""
	}
	if !made(*caller, 1, MaxCallerBytes, isPrintable) {
		v.fail("/caller", "must be 1 to %d printable ASCII characters; leave it out where every key comes from your own code", MaxCallerBytes)
	}
	return *caller
}

// payload checks that the request can be fingerprinted: from its parts, or by
// the caller's own digest.
func (v *validation) payload(req BeginRequest) {
	switch {
	case req.Request == nil && req.Fingerprint == nil:
		v.fail("", "send either request, from which the service computes the fingerprint, or fingerprint")
	case req.Request != nil && req.Fingerprint != nil:
		v.fail("/fingerprint", "send either request or fingerprint, not both")
	case req.Fingerprint != nil:
		if !made(*req.Fingerprint, 64, 64, isLowerHex) {
			v.fail("/fingerprint", "must be 64 lower-case hexadecimal digits")
		}
		return
	}
	if req.Request == nil {
		return
	}
	r := req.Request
	if r.Method != nil && !made(*r.Method, 1, MaxMethodBytes, isTokenByte) {
		v.fail("/request/method", "must be a token of 1 to %d ASCII characters", MaxMethodBytes)
	}
	if r.Path != nil && (len(*r.Path) < 1 || len(*r.Path) > MaxPathBytes || strings.ContainsAny(*r.Path, "?#")) {
		v.fail("/request/path", "must be 1 to %d bytes without ? and #; the query goes into request.query", MaxPathBytes)
	}
	if r.Query != nil && strings.HasPrefix(*r.Query, "?") {
		v.fail("/request/query", "goes without the ? before it")
	}
}

func (v *validation) owner(owner *string, hold bool) {
	switch {
	case owner == nil && hold:
		v.fail("/owner", "is required where hold applies: without it a lost answer could only end in outcome_unknown; send a random value of %d to %d characters made for this attempt", MinOwnerBytes, MaxOwnerBytes)
	case owner != nil && !made(*owner, MinOwnerBytes, MaxOwnerBytes, isOwnerByte):
		v.fail("/owner", "must be %d to %d characters of A-Z a-z 0-9 - _, random, made for this attempt", MinOwnerBytes, MaxOwnerBytes)
	}
}

// seconds returns the value given, or what the policy says where none is.
func (v *validation) seconds(pointer string, given *int64, least, most int64, policy int) int {
	if given == nil {
		return policy
	}
	if *given < least || *given > most {
		v.fail(pointer, "must be a whole number of seconds from %d to %d", least, most)
		return policy
	}
	return int(*given)
}

func (v *validation) retention(given *int64, snapshot *tenants.Snapshot, policy tenants.Policy) int {
	least, most := snapshot.MinRetention.Seconds(), snapshot.MaxRetention.Seconds()
	return v.seconds("/retention_seconds", given, int64(least), int64(most), clampSeconds(policy.Retention.Seconds(), least, most))
}

// hold says whether the attempt is under hold: by the policy, or because the
// begin asks for more than the policy.
func (v *validation) hold(given *string, policy tenants.Policy) bool {
	if given != nil && *given != string(tenants.OnLeaseExpiryHold) {
		v.fail("/on_lease_expiry", `must be "hold"; a begin can ask for hold, never for less than the policy`)
	}
	return given != nil && *given == string(tenants.OnLeaseExpiryHold) || policy.OnLeaseExpiry == tenants.OnLeaseExpiryHold
}

func (v *validation) metadata(metadata map[string]string) {
	if len(metadata) > MaxMetadataPairs {
		v.fail("/metadata", "has %d pairs; at most %d", len(metadata), MaxMetadataPairs)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[name]
		if !made(name, 1, MaxMetadataNameBytes, isMetadataNameByte) {
			v.fail("/metadata", "every name must be 1 to 40 characters of A-Z a-z 0-9 _ . -")
			continue
		}
		if utf8.RuneCountInString(value) > MaxMetadataRunes || strings.ContainsFunc(value, unicode.IsControl) {
			v.fail("/metadata/"+name, "must have at most %d characters and no controls", MaxMetadataRunes)
		}
	}
}
