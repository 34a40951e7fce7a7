package auth

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/onceward/onceward/internal/problem"
)

// Operators lets in whoever presents one of the operator's tokens. Two or more
// may be valid while one replaces the other.
type Operators struct{ digests [][sha256.Size]byte }

// NewOperators takes the tokens that are valid; with none nobody is let in.
func NewOperators(tokens ...string) *Operators {
	o := &Operators{}
	for _, token := range tokens {
		o.digests = append(o.digests, sha256.Sum256([]byte(token)))
	}
	return o
}

// Authenticate returns the operator, who belongs to no tenant, or
// problem.Unauthenticated. It compares with every token, in constant time.
func (o *Operators) Authenticate(token string) (Caller, error) {
	digest := sha256.Sum256([]byte(token))
	matched := 0
	for _, valid := range o.digests {
		matched |= subtle.ConstantTimeCompare(digest[:], valid[:])
	}
	if matched != 1 {
		return Caller{}, problem.New(problem.Unauthenticated, "Send the header Authorization: Bearer with an operator token of this service.")
	}
	return Caller{Role: RoleOperator, Credential: CredentialID(RoleOperator), KeyPresented: true}, nil
}
