package analytics

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
)

const (
	logReplay   = "idempotency.replay"
	logConflict = "idempotency.conflict"

	keyPrefixBytes = 4
	keyDigestBytes = 8
)

// logEvents writes a line for each replay and 409, with the time at which it
// was answered. It runs with the flush, not with the request.
func (r *Recorder) logEvents(ctx context.Context, events []noted) {
	handler := r.logger.Handler()
	if !handler.Enabled(ctx, slog.LevelInfo) {
		return
	}
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
			slog.String("key_digest", keyDigest(e.Key)),
		)
		if e.Outcome == Replay {
			record.AddAttrs(slog.Int("original_status", e.Status), slog.Float64("age_seconds", e.Age.Seconds()))
		} else {
			record.AddAttrs(slog.String("kind", e.Outcome.String()))
		}
		if e.TraceID != "" {
			record.AddAttrs(slog.String("trace_id", e.TraceID))
		}
		_ = handler.Handle(ctx, record) // a log that cannot be written is nobody's failure
	}
}

// keyPrefix is enough of a key to recognise its kind: keys have at least 8
// characters.
func keyPrefix(key string) string { return key[:min(len(key), keyPrefixBytes)] }

// keyDigest finds a key that somebody has in the log: the first 16 hex digits
// of its SHA-256.
func keyDigest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:keyDigestBytes])
}
