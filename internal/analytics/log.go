package analytics

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"log/slog"

	"github.com/onceward/onceward/internal/auth"
)

const (
	logReplay   = "idempotency.replay"
	logConflict = "idempotency.conflict"

	keyPrefixBytes = 4
	keyDigestBytes = 8
	// keyDigestDomain sets the digest apart from every other one under the
	// secret, whose domains are preceded by a length.
	keyDigestDomain = "onceward-log-key-1\x00"
)

// logEvents writes a line for each replay and 409, with the time at which it
// was answered. It runs with the flush, not with the request. A line whose
// tenant cannot be read has no digest of its key.
func (r *Recorder) logEvents(ctx context.Context, events []noted) {
	handler := r.logger.Handler()
	if !handler.Enabled(ctx, slog.LevelInfo) {
		return
	}
	known := make(map[auth.TenantID]loggedTenant)
	for i := range events {
		e := &events[i]
		message := logReplay
		switch {
		case e.Outcome.conflict():
			message = logConflict
		case e.Outcome != Replay:
			continue
		}
		tenant := r.tenantOf(ctx, e.Tenant, known)
		attrs := append(make([]slog.Attr, 0, 10),
			slog.String("tenant", tenant.name),
			slog.String("credential", string(e.Credential)),
			slog.String("operation", e.Operation),
			slog.String("id", base64.RawURLEncoding.EncodeToString(e.Record[:])),
			slog.String("key_prefix", keyPrefix(e.Key)),
		)
		if tenant.mac != nil {
			attrs = append(attrs, slog.String("key_digest", keyDigest(tenant.mac, e.Key)))
		}
		if e.Outcome != Replay {
			attrs = append(attrs, slog.String("kind", e.Outcome.String()))
		}
		if e.Status != 0 {
			attrs = append(attrs, slog.Int("original_status", e.Status))
		}
		attrs = append(attrs, slog.Float64("age_seconds", e.Age.Seconds()))
		if e.TraceID != "" {
			attrs = append(attrs, slog.String("trace_id", e.TraceID))
		}
		record := slog.NewRecord(e.at, slog.LevelInfo, message, 0)
		record.AddAttrs(attrs...)
		_ = handler.Handle(ctx, record) // a log that cannot be written is nobody's failure
	}
}

// loggedTenant is what the lines of one tenant have in common.
type loggedTenant struct {
	name string
	mac  hash.Hash // HMAC-SHA-256 under the tenant's secret; nil where it cannot be read
}

// tenantOf reads the tenant once for each flush.
func (r *Recorder) tenantOf(ctx context.Context, id auth.TenantID, known map[auth.TenantID]loggedTenant) loggedTenant {
	tenant, seen := known[id]
	if seen {
		return tenant
	}
	tenant.name = id.String()
	if r.tenants != nil {
		if snapshot, err := r.tenants.Snapshot(ctx, id, auth.NamespaceID{}); err == nil {
			tenant.mac = hmac.New(sha256.New, snapshot.Secret[:])
		}
	}
	known[id] = tenant
	return tenant
}

// keyPrefix is enough of a key to recognise its kind: keys have at least 8
// characters.
func keyPrefix(key string) string { return key[:min(len(key), keyPrefixBytes)] }

// keyDigest recognises a key in other lines of the same tenant: the first 16 hex
// digits of mac, under the tenant's secret, in a domain of its own.
// It is the same in every process; a guess at a key cannot be tried on it by
// whoever reads the log alone.
func keyDigest(mac hash.Hash, key string) string {
	mac.Reset()
	_, _ = mac.Write([]byte(keyDigestDomain)) // a hash never returns an error (package hash)
	_, _ = mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:keyDigestBytes])
}
