package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
)

func TestAGoodKeyIsItsCredential(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	live := b.newNamespace(t, tenant, "live")
	for _, role := range []Role{RoleService, RoleOps, RoleResolver, RoleAdmin} {
		params := IssueParams{Name: string(role), Role: role}
		if role == RoleService {
			params.Namespace = live
		}
		credential, key := b.issue(t, tenant, params)
		want := Caller{Tenant: tenant, Namespace: params.Namespace, Credential: credential.ID, Role: role, KeyPresented: true}
		if diff := cmp.Diff(b.mustAuthenticate(t, key), want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", role, diff)
		}
	}
}

// wantUnauthenticated compares the whole answer: whoever asks with a bad key
// learns nothing of why it is bad.
func wantUnauthenticated(t *testing.T, what string, caller Caller, err error) {
	t.Helper()
	if caller != (Caller{}) {
		t.Errorf("%s: there is a caller: %v", what, caller)
	}
	got, ok := errors.AsType[*problem.Error](err)
	if !ok || got.Kind != problem.Unauthenticated {
		t.Errorf("%s: got %v, want unauthenticated", what, err)
		return
	}
	gotDocument, gotErr := got.Document("https://x", "r")
	wantDocument, wantErr := problem.From(unauthenticated()).Document("https://x", "r")
	if gotErr != nil || wantErr != nil {
		t.Fatal(gotErr, wantErr)
	}
	if diff := cmp.Diff(string(gotDocument), string(wantDocument)); diff != "" {
		t.Errorf("%s: another answer (-got +want):\n%s", what, diff)
	}
}

func TestEveryBadKeyGetsTheOneAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, good := b.service(t)
	b.mustAuthenticate(t, good)

	wrongSecret := rekey(t, good.ID())
	revoked, revokedKey := b.service(t)
	if err := b.admin.Revoke(t.Context(), revoked.Tenant, revoked.ID); err != nil {
		t.Fatal(err)
	}
	expired, expiredKey := b.service(t)
	b.exec(t, "update credentials set expires_at = now() where tenant_id = $1", uuid.UUID(expired.Tenant))
	longExpired, longExpiredKey := b.service(t)
	b.exec(t, "update credentials set expires_at = '-infinity' where tenant_id = $1", uuid.UUID(longExpired.Tenant))
	deleting, deletingKey := b.service(t)
	b.exec(t, "update tenants set state = 'deleting' where tenant_id = $1", uuid.UUID(deleting.Tenant))

	for what, token := range map[string]string{
		"nothing":                        "",
		"blanks":                         "   ",
		"a text":                         "let me in",
		"a mistyped key":                 good.Reveal()[:KeyLength-1] + "_",
		"an unknown id":                  mustKey(t, rand.Reader).Reveal(),
		"a wrong secret":                 wrongSecret.Reveal(),
		"a revoked key":                  revokedKey.Reveal(),
		"an expired key":                 expiredKey.Reveal(),
		"a long expired key":             longExpiredKey.Reveal(),
		"a key of a deleted tenant":      deletingKey.Reveal(),
		"its stored digest in its place": "owk_" + string(good.ID()) + "_" + string(make([]byte, 49)),
	} {
		caller, err := b.Authenticate(t.Context(), token)
		wantUnauthenticated(t, what, caller, err)
	}
	b.mustAuthenticate(t, good)
}

// rekey makes a well-formed key with the id of another and a secret of its own.
func rekey(t *testing.T, id CredentialID) Key {
	t.Helper()
	text := keyPrefix + string(id) + mustKey(t, rand.Reader).Reveal()[idEnd:secretEnd]
	key, err := ParseKey(text + checksum(text))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestNoQuestionIsAskedAboutAMistypedKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, key := b.service(t)
	text := key.Reveal()
	for i := range len(text) {
		replacement := byte('a')
		if text[i] == 'a' {
			replacement = 'b'
		}
		caller, err := b.Authenticate(t.Context(), text[:i]+string(replacement)+text[i+1:])
		wantUnauthenticated(t, "a typo", caller, err)
	}
	if got := b.lookups.count.Load(); got != 0 {
		t.Errorf("%d questions to the database, want none", got)
	}
	if b.mustAuthenticate(t, key); b.lookups.count.Load() != 1 {
		t.Errorf("the counter sees %d questions for a good key, want 1", b.lookups.count.Load())
	}
}

func TestAnUnknownIDCostsWhatAWrongSecretCosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, _ := b.service(t)
	for what, key := range map[string]Key{"unknown id": mustKey(t, rand.Reader), "wrong secret": rekey(t, credential.ID)} {
		before := b.lookups.count.Load()
		for range 3 {
			caller, err := b.Authenticate(t.Context(), key.Reveal())
			wantUnauthenticated(t, what, caller, err)
		}
		if got := b.lookups.count.Load() - before; got != 1 {
			t.Errorf("%s: %d questions for three tries, want 1", what, got)
		}
	}
}

func TestARevocationByAnotherProcessIsSeenWithin5Seconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	b.mustAuthenticate(t, key)
	if err := b.admin.Revoke(t.Context(), credential.Tenant, credential.ID); err != nil {
		t.Fatal(err)
	}
	b.pass(trust - 1)
	b.mustAuthenticate(t, key) // else the copy is not what is tested here
	b.pass(1)
	caller, err := b.Authenticate(t.Context(), key.Reveal())
	wantUnauthenticated(t, "a revoked key", caller, err)
	if trust >= 5*time.Second {
		t.Errorf("a copy is trusted for %s, which breaks the promise of 5 s", trust)
	}
}

func TestARevocationByThisProcessIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	b.mustAuthenticate(t, key)
	if err := NewCredentials(b.pool, b.Forget).Revoke(t.Context(), credential.Tenant, credential.ID); err != nil {
		t.Fatal(err)
	}
	caller, err := b.Authenticate(t.Context(), key.Reveal())
	wantUnauthenticated(t, "a revoked key", caller, err)
}

func TestASuspensionAndItsEndAreSeenWithin5Seconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	if caller := b.mustAuthenticate(t, key); caller.Suspended != nil {
		t.Fatalf("suspended: %q", *caller.Suspended)
	}
	b.exec(t, "update tenants set state = 'suspended', suspended_reason = 'unpaid' where tenant_id = $1", uuid.UUID(credential.Tenant))
	b.pass(trust)
	if caller := b.mustAuthenticate(t, key); caller.Suspended == nil || *caller.Suspended != "unpaid" {
		t.Errorf("%s later the caller is %+v, want suspended", trust, caller)
	}
	b.exec(t, "update tenants set state = 'active', suspended_reason = null where tenant_id = $1", uuid.UUID(credential.Tenant))
	b.pass(trust)
	if caller := b.mustAuthenticate(t, key); caller.Suspended != nil {
		t.Errorf("%s after its end the suspension stands", trust)
	}
}

func TestASuspensionWithoutAReasonIsOne(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	b.exec(t, "update tenants set state = 'suspended' where tenant_id = $1", uuid.UUID(credential.Tenant))
	if caller := b.mustAuthenticate(t, key); caller.Suspended == nil {
		t.Error("it is not suspended")
	}
}

func TestAnExpiryIsSeenAtItsMomentWithoutAskingAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	// The copy outlives the key.
	b.exec(t, "update credentials set expires_at = now() + interval '3.9 seconds' where tenant_id = $1", uuid.UUID(credential.Tenant))
	b.mustAuthenticate(t, key)
	b.pass(3900 * time.Millisecond)
	caller, err := b.Authenticate(t.Context(), key.Reveal())
	wantUnauthenticated(t, "an expired key", caller, err)
	if got := b.lookups.count.Load(); got != 1 {
		t.Errorf("%d questions, want 1: the end was known", got)
	}
}

func TestAFarExpiryIsNoExpiry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	for _, expiry := range []string{"now() + interval '1 hour'", "now() + interval '1 hour 1 microsecond'", "'9999-12-31'", "'infinity'"} {
		b.exec(t, "update credentials set expires_at = "+expiry+" where tenant_id = $1", uuid.UUID(credential.Tenant))
		b.pass(trust)
		b.mustAuthenticate(t, key)
	}
}

func TestAnIDThatWasUnknownIsKnownWithin5SecondsOfItsIssue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	key := mustKey(t, rand.Reader)
	if _, err := b.Authenticate(t.Context(), key.Reveal()); !errors.Is(err, problem.Unauthenticated) {
		t.Fatal(err)
	}
	if _, err := b.admin.rows.Insert(t.Context(), tenant, key, IssueParams{Name: "ops", Role: RoleOps}, audit.Entry{Action: "credential.issue"}); err != nil {
		t.Fatal(err)
	}
	b.pass(trust)
	b.mustAuthenticate(t, key)
}

func TestADatabaseThatIsDownMakesNoKeyBad(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, known := b.service(t)
	_, neverAsked := b.service(t)
	b.mustAuthenticate(t, known)
	open := postgrestest.CloseDoors(t, b.pool)

	wantUnavailable := func(what string, key Key) {
		t.Helper()
		caller, err := b.Authenticate(t.Context(), key.Reveal())
		got, ok := errors.AsType[*problem.Error](err)
		if !ok || got.Kind != problem.KindUnavailable || got.RetryAfter <= 0 || caller != (Caller{}) {
			t.Errorf("%s: got %v, want unavailable", what, err)
		}
	}
	b.pass(trust - 1)
	b.mustAuthenticate(t, known)
	wantUnavailable("a good key that was never asked about", neverAsked)
	b.pass(1)
	wantUnavailable("a good key whose copy has grown old", known)
	wantUnavailable("an unknown id", mustKey(t, rand.Reader))
	caller, err := b.Authenticate(t.Context(), "no key")
	wantUnauthenticated(t, "no key", caller, err)

	open()
	b.mustAuthenticate(t, known)
	b.mustAuthenticate(t, neverAsked)
}

func TestACallerThatIsGoneIsNotCalledUnauthenticated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, key := b.service(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := b.Authenticate(gone, key.Reveal()); err != nil && !errors.Is(err, problem.KindUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestAllWhoComeWithOneKeyAtOnceShareOneQuestion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, key := b.service(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "lock table credentials in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	const callers = 50
	var entered, wg sync.WaitGroup
	entered.Add(callers)
	errs := make(chan error, callers)
	for i := range callers {
		wg.Go(func() {
			ctx := t.Context()
			if i%5 == 0 { // some of them leave at once
				var leave context.CancelFunc
				ctx, leave = context.WithCancel(ctx)
				leave()
			}
			entered.Done()
			_, err := b.Authenticate(ctx, key.Reveal())
			if ctx.Err() == nil {
				errs <- err
			}
		})
	}
	entered.Wait()
	b.waitForBlocked(t)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Errorf("one that stayed got %v", err)
		}
	}
	if got := b.lookups.count.Load(); got != 1 {
		t.Errorf("%d questions for %d callers, want 1", got, callers)
	}
}

// waitForBlocked returns once a statement of this database waits for a lock.
func (b *bench) waitForBlocked(t *testing.T) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		var blocked bool
		err := b.pool.QueryRow(t.Context(), `
			select exists (
			    select from pg_stat_activity
			    where datname = current_database() and wait_event_type = 'Lock')`).Scan(&blocked)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			t.Fatal(err)
		}
		if blocked {
			return
		}
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatal("nothing was ever blocked")
		}
	}
}
