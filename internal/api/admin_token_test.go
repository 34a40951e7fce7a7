package api_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
)

type tokenAnswer struct {
	Token     string    `json:"token"`
	TokenType string    `json:"token_type"`
	ExpiresIn int       `json:"expires_in"`
	ExpiresAt time.Time `json:"expires_at"`
}

func exchange(t *testing.T, c *apitest.Client) string {
	t.Helper()
	var a tokenAnswer
	c.Do(t, http.MethodPost, "/v1/auth/token", nil).Expect(t, 200).Decode(t, &a)
	if a.TokenType != "Bearer" || a.ExpiresIn != 900 || time.Until(a.ExpiresAt) > 15*time.Minute {
		t.Errorf("answered %+v", a)
	}
	return a.Token
}

// part is one of the two JSON documents of a token.
func part(t *testing.T, token string, i int) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

// with is m with other members; nil takes one away.
func withMembers(m map[string]any, more map[string]any) map[string]any {
	changed := maps.Clone(m)
	for name, value := range more {
		if changed[name] = value; value == nil {
			delete(changed, name)
		}
	}
	return changed
}

// sign makes a token of any header and claims.
func sign(t *testing.T, header, claims map[string]any, do func(input []byte) []byte) string {
	t.Helper()
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	input := encode(header) + "." + encode(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(do([]byte(input)))
}

// serviceKey is the private key that the world's tokens are signed with.
func serviceKey(t *testing.T, w *apitest.World) ed25519.PrivateKey {
	t.Helper()
	var kid string
	var sealed []byte
	if err := w.Pool.QueryRow(t.Context(), "select kid, sealed from jwt_keys").Scan(&kid, &sealed); err != nil {
		t.Fatal(err)
	}
	secret := apitest.TokenSecret()
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := aead.Open(nil, sealed[:12], sealed[12:], []byte(kid))
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.NewKeyFromSeed(seed)
}

func TestATokenIsAcceptedWhereItsKeyIs(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.Start(t)
	token := exchange(t, w.Client(w.Tenant.Service))
	acquire(t, other.Client(token), newKey(t))
	claims := part(t, token, 1)
	for name, want := range map[string]any{
		"iss": apitest.TokenIssuer, "sub": w.Tenant.Service[4:20], "tenant": w.Tenant.ID.String(), "role": "service", "namespace": w.Tenant.Live.String(),
	} {
		if claims[name] != want {
			t.Errorf("%s is %v, want %v", name, claims[name], want)
		}
	}
	if exp, iat := claims["exp"].(float64), claims["iat"].(float64); exp-iat > 900 || claims["nbf"] == nil || claims["jti"] == nil {
		t.Errorf("claims %v", claims)
	}
	admin := exchange(t, w.Client(w.Tenant.Admin))
	w.Client(admin).Do(t, http.MethodGet, "/v1/policy", nil).Expect(t, 200)
	w.Client(admin).Begin(t, apitest.Charge(newKey(t))).Problem(t, 403, "forbidden")
	patchPolicy(t, w.Client(admin), apitest.Object{"lease_seconds": 5})
	if trail := auditOf(t, w.Client(admin), "&action=token.issue"); len(trail) != 2 {
		t.Errorf("%d exchanges in the trail, want 2", len(trail))
	}
	var set struct {
		Keys []auth.JWK `json:"keys"`
	}
	w.Client("").Do(t, http.MethodGet, "/.well-known/jwks.json", nil).Expect(t, 200)
	if err := json.Unmarshal(w.Client("").Do(t, http.MethodGet, "/.well-known/jwks.json", nil).Body, &set); err != nil || len(set.Keys) != 1 || set.Keys[0].KeyID != part(t, token, 0)["kid"] {
		t.Errorf("the key set is %+v, %v", set, err)
	}
}

func TestATokenDoesNotOpenWhatNeedsTheKeyItself(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(exchange(t, w.Client(w.Tenant.Admin)))
	c.Do(t, http.MethodPost, "/v1/auth/token", nil).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": "x", "role": "ops"}).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodDelete, "/v1/credentials/"+w.Tenant.Ops[4:20], nil).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPost, "/v1/credentials/"+w.Tenant.Ops[4:20]+"/rotate", nil).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPost, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/forget", nil).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPost, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/resolution", nil).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPost, "/v1/resolutions/batch", nil).Problem(t, 403, "reauthenticate")
	// Shortening a retention, by whichever call; lengthening it goes.
	putRetention(t, c, apitest.Object{"default_seconds": 3600}).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPatch, "/v1/policy", apitest.Object{"retention_seconds": 3600}, "If-Match: "+policyTag(t, c)).Problem(t, 403, "reauthenticate")
	c.Do(t, http.MethodPut, "/v1/policy/operations", apitest.Object{"operation": "a", "retention_seconds": 3600}, "If-Match: "+policyTag(t, c)).Problem(t, 403, "reauthenticate")
	putRetention(t, c, apitest.Object{"default_seconds": 172800, "operations": apitest.Object{"a": 259200}}).Expect(t, 200)
	c.Do(t, http.MethodDelete, "/v1/policy/operations?operation=a", nil, "If-Match: "+policyTag(t, c)).Problem(t, 403, "reauthenticate")
	p := previewOf(t, c, apitest.Object{"default_seconds": 172800})
	putRetention(t, c, apitest.Object{"default_seconds": 172800, "apply_to_existing": true, "preview_id": p.PreviewID, "reason": "because"}).Problem(t, 403, "reauthenticate")
}

func TestATokenDiesWithItsCredentialAndItsRole(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	ops, service := exchange(t, w.Client(w.Tenant.Ops)), exchange(t, w.Client(w.Tenant.Service))
	other := w.Start(t)
	for _, process := range []*apitest.Instance{w.Instance, other} {
		process.Client(ops).Do(t, http.MethodGet, "/v1/policy", nil).Expect(t, 200)
		process.Client(service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	}
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+w.Tenant.Ops[4:20], nil).Expect(t, 204)
	exec(t, w, "update credentials set role = 'ops', namespace_id = null where credential_id = $1", w.Tenant.Service[4:20])
	changed := time.Now()
	w.Client(ops).Do(t, http.MethodGet, "/v1/policy", nil).Problem(t, 401, "unauthenticated")
	eventually(t, "the other process refuses both", func() bool {
		return other.Client(ops).Do(t, http.MethodGet, "/v1/policy", nil).Status == 401 && other.Client(service).Do(t, http.MethodGet, "/v1/contract", nil).Status == 401
	})
	if took := time.Since(changed); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestASuspensionStopsATokenWhereItStopsTheKey(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	service, admin := exchange(t, w.Client(w.Tenant.Service)), exchange(t, w.Client(w.Tenant.Admin))
	held := acquire(t, w.Client(service), newKey(t))
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"state": "suspended", "reason": "unpaid"}).Expect(t, 200)
	other := w.Start(t) // which has no copy
	other.Client(service).Begin(t, apitest.Charge(newKey(t))).Problem(t, 403, "suspended")
	other.Client(admin).Do(t, http.MethodGet, "/v1/policy", nil).Problem(t, 403, "suspended")
	other.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/auth/token", nil).Problem(t, 403, "suspended")
	again := exchange(t, other.Client(w.Tenant.Service))
	other.Client(again).Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
}

// B021, B065: whatever is odd about a token is a 401 that says no more; no key
// is ever found by what the token itself says of it.
func TestEveryOddTokenIs401(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	good := exchange(t, w.Client(w.Tenant.Service))
	private := serviceKey(t, w)
	own := func(input []byte) []byte { return ed25519.Sign(private, input) }
	header, claims := part(t, good, 0), part(t, good, 1)
	public, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign := func(input []byte) []byte { return ed25519.Sign(stranger, input) }
	jwk := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public)}
	var asked atomic.Int64
	lure := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer lure.Close()

	now := float64(time.Now().Unix())
	tokens := map[string]string{
		"another key's signature": sign(t, header, claims, foreign),
		"no signature":            sign(t, header, claims, func([]byte) []byte { return nil }),
		"an embedded key":         sign(t, withMembers(header, map[string]any{"jwk": jwk}), claims, foreign),
		"an embedded key alone":   sign(t, withMembers(header, map[string]any{"jwk": jwk, "kid": nil}), claims, foreign),
		"a key's address":         sign(t, withMembers(header, map[string]any{"jku": lure.URL}), claims, foreign),
		"a certificate's address": sign(t, withMembers(header, map[string]any{"x5u": lure.URL}), claims, foreign),
		"alg none":                sign(t, withMembers(header, map[string]any{"alg": "none"}), claims, func([]byte) []byte { return nil }),
		"alg HS256 with our key": sign(t, withMembers(header, map[string]any{"alg": "HS256"}), claims, func(in []byte) []byte {
			m := hmac.New(sha256.New, private.Public().(ed25519.PublicKey))
			m.Write(in)
			return m.Sum(nil)
		}),
		"a critical extension":     sign(t, withMembers(header, map[string]any{"crit": []string{"b64"}, "b64": false}), claims, own),
		"another tenant":           sign(t, header, withMembers(claims, map[string]any{"tenant": w.NewTenant(t).ID.String()}), own),
		"another role":             sign(t, header, withMembers(claims, map[string]any{"role": "admin"}), own),
		"another namespace":        sign(t, header, withMembers(claims, map[string]any{"namespace": w.Tenant.Flat.String()}), own),
		"no namespace":             sign(t, header, withMembers(claims, map[string]any{"namespace": nil}), own),
		"another credential":       sign(t, header, withMembers(claims, map[string]any{"sub": w.Tenant.Admin[4:20]}), own),
		"a credential of nobody":   sign(t, header, withMembers(claims, map[string]any{"sub": "aaaaaaaaaaaaaaaa"}), own),
		"a subject that is odd":    sign(t, header, withMembers(claims, map[string]any{"sub": "'; drop table credentials; --"}), own),
		"another issuer":           sign(t, header, withMembers(claims, map[string]any{"iss": "https://elsewhere.test"}), own),
		"no issuer":                sign(t, header, withMembers(claims, map[string]any{"iss": nil}), own),
		"another audience":         sign(t, header, withMembers(claims, map[string]any{"aud": []string{"elsewhere"}}), own),
		"two audiences":            sign(t, header, withMembers(claims, map[string]any{"aud": []string{"onceward-api", "elsewhere"}}), own),
		"no audience":              sign(t, header, withMembers(claims, map[string]any{"aud": nil}), own),
		"expired":                  sign(t, header, withMembers(claims, map[string]any{"iat": now - 1000, "nbf": now - 1000, "exp": now - 61}), own),
		"no end":                   sign(t, header, withMembers(claims, map[string]any{"exp": nil}), own),
		"a long life":              sign(t, header, withMembers(claims, map[string]any{"exp": now + 3600}), own),
		"an end that is no number": sign(t, header, withMembers(claims, map[string]any{"exp": "tomorrow"}), own),
		"not yet":                  sign(t, header, withMembers(claims, map[string]any{"nbf": now + 120}), own),
		"made in the future":       sign(t, header, withMembers(claims, map[string]any{"iat": now + 120, "exp": now + 600}), own),
		"no beginning":             sign(t, header, withMembers(claims, map[string]any{"nbf": nil}), own),
		"no time of issue":         sign(t, header, withMembers(claims, map[string]any{"iat": nil}), own),
		"two dots":                 "..",
		"three parts of nothing":   "a.b.c",
		"four parts":               good + ".a",
		"a padded signature":       good + "=",
	}
	for name, kid := range map[string]any{
		"no kid": nil, "a path": "../../etc/passwd", "quotes": `' or "1"="1`, "10 kB": strings.Repeat("k", 10<<10), "a number": 1, "null": []any{nil}, "empty": "",
	} {
		tokens["kid: "+name] = sign(t, withMembers(header, map[string]any{"kid": kid}), claims, own)
	}
	w.Client(sign(t, header, claims, own)).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200) // else the rest proves nothing
	w.Client(sign(t, header, withMembers(claims, map[string]any{"iat": now - 890, "nbf": now - 890, "exp": now - 30}), own)).
		Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200) // within the leeway
	var detail string
	for name, token := range tokens {
		t.Log(name)
		p := w.Client(token).Do(t, http.MethodGet, "/v1/contract", nil).Problem(t, 401, "unauthenticated")
		if detail == "" {
			detail = p.Detail
		}
		if p.Detail != detail {
			t.Errorf("%s is told more: %s", name, p.Detail)
		}
	}
	if asked.Load() != 0 {
		t.Error("the service asked at an address that a token names")
	}
	// What we have signed and is not so stands in the trail of the credential's
	// own tenant, once, with the claim and nothing of the token.
	wrong := map[string]int{}
	for _, entry := range auditOf(t, w.Client(w.Tenant.Admin), "&action=token.refuse") {
		after := entry.After.(map[string]any)
		wrong[fmt.Sprint(*entry.Object.ID, " ", after["claim"], " ", after["times"])]++
	}
	service, admin := w.Tenant.Service[4:20], w.Tenant.Admin[4:20]
	want := map[string]int{service + " tenant 1": 1, service + " role 1": 1, service + " namespace 1": 1, service + " aud 1": 1, admin + " role 1": 1}
	if diff := cmp.Diff(wrong, want); diff != "" {
		t.Errorf("the trail (-got +want):\n%s", diff)
	}
}

// Two keys are there during a rotation: nobody notices it.
func TestARotationOfTheSigningKeysIsInvisible(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	before := exchange(t, w.Client(w.Tenant.Service))
	source, err := auth.KeysInDatabase(w.Pool, apitest.TokenSecret())
	if err != nil {
		t.Fatal(err)
	}
	if err := source.(interface {
		Rotate(ctx context.Context) error
	}).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	published := w.Start(t)
	if n := strings.Count(string(published.Client("").Do(t, http.MethodGet, "/.well-known/jwks.json", nil).Body), `"kid"`); n != 2 {
		t.Errorf("%d keys are published, want 2", n)
	}
	if still := exchange(t, published.Client(w.Tenant.Service)); part(t, still, 0)["kid"] != part(t, before, 0)["kid"] {
		t.Error("the new key signs before anybody can know it")
	}
	exec(t, w, "update jwt_keys set signs_from = signs_from - interval '10 minutes 1 second'")
	signing := w.Start(t)
	after := exchange(t, signing.Client(w.Tenant.Service))
	if part(t, after, 0)["kid"] == part(t, before, 0)["kid"] {
		t.Error("the new key does not sign though its time has come")
	}
	for _, token := range []string{before, after} {
		signing.Client(token).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	}
	exec(t, w, "update jwt_keys set signs_from = signs_from - interval '18 minutes'")
	w.Start(t).Client(before).Do(t, http.MethodGet, "/v1/contract", nil).Problem(t, 401, "unauthenticated") // its key has retired
	var plain int
	if err := w.Pool.QueryRow(t.Context(), "select count(*) from jwt_keys where octet_length(sealed) <> 12 + 32 + 16").Scan(&plain); err != nil || plain != 0 {
		t.Errorf("%d keys are not sealed, %v", plain, err)
	}
}

func TestFailedSignInsOfOneAddressAreLimitedAndGoodOnesAreNot(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.SignInsPerSecond(20))
	bad := w.Client(w.Tenant.Service[:20] + w.NewTenant(t).Service[20:])
	answers := make(map[int]int)
	began := time.Now()
	for range 100 {
		answers[bad.Do(t, http.MethodPost, "/v1/auth/token", nil).Status]++
	}
	took := time.Since(began).Seconds()
	if most := 20 + int(20*took) + 1; answers[401] < 20 || answers[401] > most || answers[401]+answers[429] != 100 {
		t.Errorf("%v in %.1f s, want 20 to %d of 401 and else 429", answers, took, most)
	}
	w.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	if a := bad.Do(t, http.MethodGet, "/v1/contract", nil); a.Status == 429 && a.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
	}
}
