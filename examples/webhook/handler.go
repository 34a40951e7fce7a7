package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"github.com/onceward/onceward/client"
)

// maxBodyBytes is the largest delivery: GitHub sends up to 25 MB.
const maxBodyBytes = 25 << 20

// event is one delivery whose signature is right.
type event struct {
	sender string
	id     string // the sender's own, the same every time it is delivered
	body   []byte
}

// handleFunc does what an event is for. client.NotDone around its error says
// that nothing happened, so that the next delivery tries again.
type handleFunc func(ctx context.Context, e event) error

// verifyFunc reads the delivery's id after its signature was found right.
type verifyFunc func(h http.Header, body []byte) (id string, err error)

func newHandler(onceward *client.Client, c config, handle handleFunc) http.Handler {
	mux := http.NewServeMux()
	for sender, verify := range map[string]verifyFunc{
		"github":   githubVerifier(c.secrets["github"]),
		"stripe":   stripeVerifier(c.secrets["stripe"], c.nowFunc),
		"standard": standardVerifier(c.secrets["standard"], c.nowFunc),
	} {
		mux.Handle("POST /webhooks/"+sender, receive(onceward, sender, verify, handle))
	}
	return mux
}

// receive answers one delivery: 2xx once it is handled, now or before, so that
// the sender stops; anything else makes it come again.
func receive(onceward *client.Client, sender string, verify verifyFunc, handle handleFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if err != nil {
			http.Error(w, "the delivery is not whole", http.StatusBadRequest)
			return
		}
		// First the signature: whoever could make up deliveries could also use up
		// the ids of real ones.
		id, err := verify(r.Header, body)
		if err != nil {
			http.Error(w, "the signature is not right", http.StatusUnauthorized)
			return
		}
		op := client.Operation{
			Key: id, Name: "webhook:" + sender,
			// The id alone is what the key is bound to: senders may change the rest
			// from delivery to delivery (Stripe counts those still pending in it).
			Request: &client.Request{Body: []byte(id)},
		}
		result, err := onceward.Do(r.Context(), op, func(ctx context.Context, _ *client.Lease) (client.Response, error) {
			if err := handle(ctx, event{sender, id, body}); err != nil {
				return client.Response{}, err
			}
			return client.Response{Status: http.StatusNoContent}, nil
		})
		switch {
		case err == nil:
			if result.Replay {
				w.Header().Set("Idempotent-Replay", "true")
			}
			w.WriteHeader(result.Response.Status)
		case errors.Is(err, client.ErrMissingKey), errors.Is(err, client.ErrInvalidKey):
			http.Error(w, "the delivery has no id", http.StatusBadRequest)
		case errors.Is(err, client.ErrOutcomeUnknown):
			// For a person. To have it delivered again would change nothing.
			slog.ErrorContext(r.Context(), "nobody knows whether a delivery was handled", slog.String("sender", sender), slog.Any("error", err))
			w.WriteHeader(http.StatusAccepted)
		default:
			http.Error(w, "not now; deliver it again", http.StatusServiceUnavailable)
		}
	}
}
