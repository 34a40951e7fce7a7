package api

import (
	"context"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// contractRequest is GET /v1/contract: what holds for the caller's namespace,
// for machines.
type contractRequest struct{}

func (*contractRequest) decode(*exchange) error { return nil }

type contractBody struct {
	Namespace     contractNamespace   `json:"namespace"`
	PolicyVersion int64               `json:"policy_version"`
	KeyPattern    string              `json:"key_pattern"`
	Defaults      contractPolicy      `json:"defaults"`
	Operations    []contractOperation `json:"operations"` // those with a policy of their own, by name
	Limits        contractLimits      `json:"limits"`
}

type contractNamespace struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	KeyScope tenants.KeyScope `json:"key_scope"`
}

type contractPolicy struct {
	RetentionSeconds int64                 `json:"retention_seconds"`
	LeaseSeconds     int64                 `json:"lease_seconds"`
	OnLeaseExpiry    tenants.OnLeaseExpiry `json:"on_lease_expiry"`
	IgnorePointers   []string              `json:"ignore_pointers"`
}

type contractOperation struct {
	Operation string `json:"operation"`
	contractPolicy
}

// contractLimits are sizes in bytes, durations in seconds, and counts.
type contractLimits struct {
	BodyBytes           int   `json:"body_bytes"`
	JSONRequestBytes    int64 `json:"json_request_bytes"`
	HTTPMessageBytes    int64 `json:"http_message_bytes"`
	BatchRequestBytes   int64 `json:"batch_request_bytes"`
	BatchEntries        int   `json:"batch_entries"`
	MinRetentionSeconds int64 `json:"min_retention_seconds"`
	MaxRetentionSeconds int64 `json:"max_retention_seconds"`
	MinLeaseSeconds     int   `json:"min_lease_seconds"`
	MaxLeaseSeconds     int   `json:"max_lease_seconds"`
	MaxWaitSeconds      int64 `json:"max_wait_seconds"`
	MetadataPairs       int   `json:"metadata_pairs"`
	MetadataValueLength int   `json:"metadata_value_length"`
}

// keyPattern is the form of a key as an ECMA-262 regular expression: 8 to 255
// printable ASCII characters with no space first or last.
const keyPattern = `^[\x21-\x7E][\x20-\x7E]{6,253}[\x21-\x7E]$`

func (a *API) contract(ctx context.Context, caller auth.Caller, _ contractRequest) (jsonAnswer, error) {
	s, err := a.tenants.Snapshot(ctx, caller.Tenant, caller.Namespace)
	if err != nil {
		return jsonAnswer{}, err
	}
	namespace, ok := s.Namespace(caller.Namespace)
	if !ok {
		return jsonAnswer{}, problem.New(problem.Forbidden, "This credential has no namespace; only a credential with the role service has a contract.")
	}
	return jsonAnswer{contractBody{
		Namespace:     contractNamespace{ID: namespace.ID.String(), Name: namespace.Name, KeyScope: namespace.KeyScope},
		PolicyVersion: s.PolicyVersion,
		KeyPattern:    keyPattern,
		Defaults:      contractPolicyOf(s, namespace.ID, ""),
		Operations:    contractOperations(s, namespace.ID),
		Limits: contractLimits{
			BodyBytes:           s.BodyLimit,
			JSONRequestBytes:    jsonCallBytes(s),
			HTTPMessageBytes:    messageCallBytes(s),
			BatchRequestBytes:   maxBatchBytes,
			BatchEntries:        keys.MaxBatchEntries,
			MinRetentionSeconds: wholeSeconds(s.MinRetention),
			MaxRetentionSeconds: wholeSeconds(s.MaxRetention),
			MinLeaseSeconds:     1,
			MaxLeaseSeconds:     keys.MaxLeaseSeconds,
			MaxWaitSeconds:      wholeSeconds(keys.MaxWait),
			MetadataPairs:       keys.MaxMetadataPairs,
			MetadataValueLength: keys.MaxMetadataRunes,
		},
	}}, nil
}

// contractPolicyOf is what a begin of the operation gets that asks for
// nothing. A policy outside limits that were narrowed after it was set counts
// as the nearer limit.
func contractPolicyOf(s *tenants.Snapshot, namespace auth.NamespaceID, operation string) contractPolicy {
	p := s.Policy(namespace, operation)
	return contractPolicy{
		RetentionSeconds: wholeSeconds(min(max(p.Retention, s.MinRetention), s.MaxRetention)),
		LeaseSeconds:     wholeSeconds(p.Lease),
		OnLeaseExpiry:    p.OnLeaseExpiry,
		IgnorePointers:   p.IgnorePointers,
	}
}

func contractOperations(s *tenants.Snapshot, namespace auth.NamespaceID) []contractOperation {
	var names []string
	for _, row := range s.Overrides(namespace) {
		if row.Operation != "" {
			names = append(names, row.Operation)
		}
	}
	slices.Sort(names)
	operations := []contractOperation{}
	for _, name := range slices.Compact(names) { // once, with a policy for the namespace and one for all
		operations = append(operations, contractOperation{name, contractPolicyOf(s, namespace, name)})
	}
	return operations
}

func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }
