package analytics

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"log/slog"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
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
	secrets := make(map[auth.TenantID]*tenants.Snapshot) // nil: cannot be read
	for _, e := range events {
		message := logReplay
		switch {
		case e.Outcome.conflict():
			message = logConflict
		case e.Outcome != Replay:
			continue
		}
		record := slog.NewRecord(e.at, slog.LevelInfo, message, 0)
		record.AddAttrs(
			slog.String("tenant", e.Tenant.String()),
			slog.String("credential", string(e.Credential)),
			slog.String("operation", e.Operation),
			slog.String("id", base64.RawURLEncoding.EncodeToString(e.Record[:])),
			slog.String("key_prefix", keyPrefix(e.Key)),
		)
		if tenant := r.tenantOf(ctx, e.Tenant, secrets); tenant != nil {
			record.AddAttrs(slog.String("key_digest", keyDigest(tenant.Secret, e.Key)))
		}
		if e.Outcome != Replay {
			record.AddAttrs(slog.String("kind", e.Outcome.String()))
		}
		if e.Status != 0 {
			record.AddAttrs(slog.Int("original_status", e.Status))
		}
		record.AddAttrs(slog.Float64("age_seconds", e.Age.Seconds()))
		if e.TraceID != "" {
			record.AddAttrs(slog.String("trace_id", e.TraceID))
		}
		_ = handler.Handle(ctx, record) // a log that cannot be written is nobody's failure
	}
}

// tenantOf reads the tenant once for each flush; nil where it cannot be read.
func (r *Recorder) tenantOf(ctx context.Context, id auth.TenantID, known map[auth.TenantID]*tenants.Snapshot) *tenants.Snapshot {
	tenant, seen := known[id]
	if seen || r.tenants == nil {
		return tenant
	}
	tenant, err := r.tenants.Snapshot(ctx, id, auth.NamespaceID{})
	if err != nil {
		tenant = nil
	}
	known[id] = tenant
	return tenant
}

// keyPrefix is enough of a key to recognise its kind: keys have at least 8
// characters.
func keyPrefix(key string) string { return key[:min(len(key), keyPrefixBytes)] }

// keyDigest recognises a key in other lines of the same tenant: the first 16 hex
// digits of its HMAC-SHA-256 under the tenant's secret, in a domain of its own.
// It is the same in every process; a guess at a key cannot be tried on it by
// whoever reads the log alone.
func keyDigest(secret [32]byte, key string) string {
	mac := hmac.New(sha256.New, secret[:])
	_, _ = mac.Write([]byte(keyDigestDomain)) // a hash never returns an error (package hash)
	_, _ = mac.Write([]byte(key))
	return hex.EncodeToString(mac.Sum(nil)[:keyDigestBytes])
}
