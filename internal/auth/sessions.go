package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/freshcache"
	"github.com/onceward/onceward/internal/problem"
)

// How long a session of the dashboard lives (its rows' own columns, judged by
// the database's clock).
const (
	// SessionIdle is how long one lives without being renewed.
	SessionIdle = time.Hour
	// SessionLife is how long one lives at most.
	SessionLife = 12 * time.Hour
	// KeyFreshness is for how long a session in which the API key was presented
	// counts as the key itself.
	KeyFreshness = 10 * time.Minute
	// LinkLife is how long a link waits for its one use.
	LinkLife = 12 * time.Hour
)

const (
	sessionSecretBytes = 32
	sessionTokenBytes  = len(TenantID{}) + sessionSecretBytes

	maxKnownSessions   = 10_000
	maxUnknownSessions = 10_000
)

// Sessions are those of the dashboard: a browser's cookie stands for a
// credential without holding it. A session is a row, so that a sign-out ends it
// wherever the cookie went; it is asked for at most every four seconds. It is
// safe for use by many goroutines.
type Sessions struct {
	rows    *sessionStore
	known   *freshcache.Cache[sessionID, knownSession]
	random  io.Reader
	nowFunc func() time.Time
}

// Session is what its holder may know of it.
type Session struct {
	Caller         Caller
	TenantName     string
	CredentialName string
	StartedAt      time.Time
	EndsAt         time.Time // where nobody renews it
	LastsUntil     time.Time // however often it is renewed
	KeyUntil       time.Time // zero where the API key was not presented
}

// sessionID finds a session: its tenant, and the digest of its secret. The
// tenant comes with the cookie, so that no statement goes without it; another
// tenant's name before a secret finds nothing.
type sessionID struct {
	tenant TenantID
	digest [sha256.Size]byte
}

// String is not secret.
func (id sessionID) String() string { return id.tenant.String() + hex.EncodeToString(id.digest[:]) }

// knownSession is a row as it was read, its ends on the process clock.
type knownSession struct {
	session  Session
	refused  bool
	endsAt   time.Time
	keyUntil time.Time
}

// NewSessions makes the sessions in pool's database.
func NewSessions(pool *pgxpool.Pool) (*Sessions, error) {
	return newSessions(pool, time.Now)
}

func newSessions(pool *pgxpool.Pool, nowFunc func() time.Time) (*Sessions, error) {
	s := &Sessions{rows: &sessionStore{db: pool}, random: rand.Reader, nowFunc: nowFunc}
	cache, err := freshcache.New(freshcache.Config[sessionID, knownSession]{
		LoadFunc: func(ctx context.Context, id sessionID) (knownSession, bool, error) {
			askedAt := nowFunc()
			row, found, err := s.rows.Lookup(ctx, id)
			if err != nil || !found {
				return knownSession{}, false, err
			}
			return row.known(id.tenant, askedAt), true, nil
		},
		Trust: trust, LoadTimeout: loadTimeout, MaxPresent: maxKnownSessions, MaxAbsent: maxUnknownSessions, NowFunc: nowFunc,
	})
	if err != nil {
		return nil, err
	}
	s.known = cache
	return s, nil
}

// Start begins a session of caller's credential, which was just presented, and
// returns the text for its cookie. The sign-in is in the audit trail.
// Kinds: unavailable, internal.
func (s *Sessions) Start(ctx context.Context, caller Caller) (cookie string, err error) {
	return s.start(ctx, caller, true, "session.start")
}

func (s *Sessions) start(ctx context.Context, caller Caller, keyPresented bool, action string) (string, error) {
	cookie, id, err := s.mint(caller.Tenant)
	if err != nil {
		return "", problem.Internal(err)
	}
	entry := audit.Entry{Actor: caller.Actor(), Action: action, Object: audit.Object{Kind: "session"}}
	if err := s.rows.Insert(ctx, id, caller.Credential, keyPresented, entry); err != nil {
		return "", err
	}
	s.known.Forget(id)
	return cookie, nil
}

// Authenticate returns the session of a cookie. It ends with its credential, an
// hour without Renew, or twelve hours after its start: then, and for any text
// that is no session, the kind is unauthenticated. A suspended tenant's session
// is refused where its credential would be (kind suspended), by whoever asks
// Caller.Suspended.
func (s *Sessions) Authenticate(ctx context.Context, cookie string) (Session, error) {
	id, ok := parseSessionToken(cookie)
	if !ok {
		return Session{}, notSignedIn()
	}
	known, found, err := s.known.Get(ctx, id)
	if err != nil {
		return Session{}, problem.Unavailable(err)
	}
	now := s.nowFunc()
	if !found || known.refused || !now.Before(known.endsAt) {
		return Session{}, notSignedIn()
	}
	session := known.session
	session.Caller.KeyPresented = now.Before(known.keyUntil)
	return session, nil
}

// Renew counts the session as used now. Polling must not call it: an open page
// that nobody looks at is idle. Kinds as for Authenticate.
func (s *Sessions) Renew(ctx context.Context, cookie string) (Session, error) {
	if _, err := s.Authenticate(ctx, cookie); err != nil {
		return Session{}, err
	}
	id, _ := parseSessionToken(cookie)
	if err := s.rows.Touch(ctx, id); err != nil {
		return Session{}, err
	}
	s.known.Forget(id)
	return s.Authenticate(ctx, cookie)
}

// End signs out. Other processes refuse the cookie within 5 s. Ending what is
// no session changes nothing.
func (s *Sessions) End(ctx context.Context, cookie string, by Caller) error {
	id, ok := parseSessionToken(cookie)
	if !ok {
		return nil
	}
	defer s.known.Forget(id)
	return s.rows.Delete(ctx, id, audit.Entry{Actor: by.Actor(), Action: "session.end", Object: audit.Object{Kind: "session"}})
}

// NewLink makes the secret of a link that begins one session of the credential,
// within LinkLife. Such a session does not count as the API key presented.
func (s *Sessions) NewLink(ctx context.Context, tenant TenantID, credential CredentialID) (secret string, err error) {
	secret, id, err := s.mint(tenant)
	if err != nil {
		return "", problem.Internal(err)
	}
	return secret, s.rows.InsertLink(ctx, id, credential)
}

// StartByLink uses a link up and begins its session. address and requestID are
// for the audit trail. Kinds: unauthenticated for a link that is unknown, used
// or too old; unavailable, internal.
func (s *Sessions) StartByLink(ctx context.Context, secret, requestID, address string) (cookie string, err error) {
	id, ok := parseSessionToken(secret)
	if !ok {
		return "", usedLink()
	}
	caller, found, err := s.rows.TakeLink(ctx, id)
	if err != nil {
		return "", err
	}
	if !found {
		return "", usedLink()
	}
	caller.RequestID, caller.Address = requestID, address
	return s.start(ctx, caller, false, "session.start_by_link")
}

func (s *Sessions) mint(tenant TenantID) (text string, id sessionID, err error) {
	raw := make([]byte, sessionTokenBytes)
	n := copy(raw, tenant[:])
	if _, err := io.ReadFull(s.random, raw[n:]); err != nil {
		return "", sessionID{}, fmt.Errorf("read random bytes for a session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), sessionID{tenant, sha256.Sum256(raw[n:])}, nil
}

func parseSessionToken(text string) (id sessionID, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != sessionTokenBytes {
		return sessionID{}, false
	}
	n := copy(id.tenant[:], raw)
	id.digest = sha256.Sum256(raw[n:])
	return id, true
}

func notSignedIn() error {
	return problem.New(problem.Unauthenticated, "The session has ended: sign in again.")
}

func usedLink() error {
	return problem.New(problem.Unauthenticated, "This link has been used, or is too old: it signs in once. Sign in with a credential, or start Onceward anew for another link.")
}
