package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/onceward/onceward/client"
)

// newHandler is the whole service: two routes, of which one is protected.
func newHandler(onceward *client.Client, b *bank) (http.Handler, error) {
	protect, err := onceward.Protect(client.Middleware{
		Caller: accountOf,
		Default: client.Route{
			// A charge whose outcome nobody knows waits for a person. One that
			// broke off can be taken up, since the bank does a key once.
			Hold: true, Resumable: true, Lease: 30 * time.Second,
		},
	})
	if err != nil {
		return nil, err
	}
	router := chi.NewRouter()
	router.With(protect).Post("/v1/charges", charge(b))
	router.Get("/v1/charges", list(b))
	return router, nil
}

// accountOf tells whose request it is, from the credential that proves it.
func accountOf(r *http.Request) (string, error) {
	accounts := map[string]string{"tok_alice": "acct_alice", "tok_bob": "acct_bob"}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	account, ok := accounts[token]
	if !ok {
		return "", errors.New("nobody has this token")
	}
	return account, nil
}

// charge charges. It knows nothing of retries but the key that it hands on: the
// bank's charge is the same one in every attempt.
func charge(b *bank) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			Amount int `json:"amount"`
		}
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			answer(w, http.StatusUnprocessableEntity, map[string]any{"error": "amount must be a positive number of cents"})
			return
		}
		account, err := accountOf(r)
		if err != nil { // the middleware has asked before
			answer(w, http.StatusForbidden, map[string]any{"error": "unknown account"})
			return
		}
		made, err := b.charge(r.Context(), bankKey(r.Context()), account, order.Amount)
		if err != nil {
			client.NotDoneHere(r.Context()) // this bank refuses before it does anything
			answer(w, http.StatusServiceUnavailable, map[string]any{"error": "the bank is closed"})
			return
		}
		answer(w, http.StatusCreated, made)
	}
}

// bankKey is the idempotency key for the bank: derived from the record of this
// request, and so the same whichever attempt asks.
func bankKey(ctx context.Context) string {
	lease, ok := client.LeaseFrom(ctx)
	if !ok { // only where a route may run unprotected
		return ""
	}
	return lease.DownstreamKey("bank", "charge")
}

func list(b *bank) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, b.charges()) }
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the middleware keeps it, whether or not it arrives
}
