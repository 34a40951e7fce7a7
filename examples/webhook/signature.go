package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// tolerance is how old a signature may be: an old one may be somebody's copy.
const tolerance = 5 * time.Minute

var errSignature = errors.New("the signature is not right")

func mac(secret []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, secret)
	for _, part := range parts {
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// githubVerifier checks X-Hub-Signature-256; the id is X-GitHub-Delivery, which
// a redelivery keeps.
func githubVerifier(secret string) verifyFunc {
	return func(h http.Header, body []byte) (string, error) {
		signature, err := hex.DecodeString(strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="))
		if secret == "" || err != nil || !hmac.Equal(signature, mac([]byte(secret), string(body))) {
			return "", errSignature
		}
		return h.Get("X-GitHub-Delivery"), nil
	}
}

// stripeVerifier checks Stripe-Signature, "t=<seconds>,v1=<hex>,…" over time and
// body; the id is the event's own. (A Connect account that is told of the same
// event in two places would add the account to the key.)
func stripeVerifier(secret string, nowFunc func() time.Time) verifyFunc {
	return func(h http.Header, body []byte) (string, error) {
		var at string
		var signatures []string
		for part := range strings.SplitSeq(h.Get("Stripe-Signature"), ",") {
			switch name, value, _ := strings.Cut(part, "="); name {
			case "t":
				at = value
			case "v1":
				signatures = append(signatures, value)
			}
		}
		if secret == "" || !recent(at, nowFunc()) || !anyOf(signatures, hex.DecodeString, mac([]byte(secret), at, ".", string(body))) {
			return "", errSignature
		}
		var e struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(body, &e); err != nil {
			return "", err
		}
		return e.ID, nil
	}
}

// standardVerifier checks webhook-signature, "v1,<base64> v1,…" over id, time
// and body (standardwebhooks.com); the id is webhook-id.
func standardVerifier(secret string, nowFunc func() time.Time) verifyFunc {
	return func(h http.Header, body []byte) (string, error) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		id, at := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp")
		var signatures []string
		for signature := range strings.FieldsSeq(h.Get("Webhook-Signature")) {
			if value, ok := strings.CutPrefix(signature, "v1,"); ok {
				signatures = append(signatures, value)
			}
		}
		if err != nil || len(key) == 0 || !recent(at, nowFunc()) || !anyOf(signatures, base64.StdEncoding.DecodeString, mac(key, id, ".", at, ".", string(body))) {
			return "", errSignature
		}
		return id, nil
	}
}

func recent(seconds string, now time.Time) bool {
	at, err := strconv.ParseInt(seconds, 10, 64)
	return err == nil && now.Sub(time.Unix(at, 0)).Abs() <= tolerance
}

func anyOf(signatures []string, decode func(string) ([]byte, error), want []byte) bool {
	for _, signature := range signatures {
		if got, err := decode(signature); err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}
