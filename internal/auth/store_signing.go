package auth

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/freshcache"
)

// databaseKeys are kept in the database, sealed under a key from the
// environment, and rotate by themselves. They belong to the service and to no
// tenant: no statement here names one.
type databaseKeys struct {
	db     *pgxpool.Pool
	sealer sealer
	rings  *freshcache.Cache[theRing, *keyRing]
}

// theRing is the one key of the cache of rings.
type theRing struct{}

func (theRing) String() string { return "ring" }

// KeysInDatabase keeps the signing keys in pool's database, sealed under
// secret: made at the first use, and a new one every 30 days, published ten
// minutes before it signs. The error is a programming fault.
func KeysInDatabase(pool *pgxpool.Pool, secret [32]byte) (KeySource, error) {
	sealer, err := newSealer(secret)
	if err != nil {
		return nil, err
	}
	k := &databaseKeys{db: pool, sealer: sealer}
	k.rings, err = freshcache.New(freshcache.Config[theRing, *keyRing]{
		LoadFunc: func(ctx context.Context, _ theRing) (*keyRing, bool, error) {
			ring, err := k.load(ctx)
			return ring, err == nil, err
		},
		Trust:       trust,
		LoadTimeout: loadTimeout,
		MaxPresent:  1,
		MaxAbsent:   1,
	})
	return k, err
}

func (k *databaseKeys) ring(ctx context.Context) (*keyRing, error) {
	ring, _, err := k.rings.Get(ctx, theRing{})
	return ring, err
}

// load reads the keys, and makes one where the newest is old, or there is none.
func (k *databaseKeys) load(ctx context.Context) (*keyRing, error) {
	keys, now, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 && now.Sub(keys[0].signsFrom) < rotateAfter {
		return ringOf(keys, now), nil
	}
	if err := k.Rotate(ctx); err != nil {
		return nil, err
	}
	if keys, now, err = k.read(ctx); err != nil {
		return nil, err
	}
	ring := ringOf(keys, now)
	if ring.signer == nil {
		return nil, errors.New("there is no signing key whose time has come")
	}
	return ring, nil
}

func (k *databaseKeys) read(ctx context.Context) (keys []*signingKey, now time.Time, err error) {
	const query = `
		select kid, signs_from, public_key, sealed, now()
		from jwt_keys
		order by signs_from desc, kid
		limit @most`
	rows, err := k.db.Query(ctx, query, pgx.NamedArgs{"most": keptKeys})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the signing keys: %w", err)
	}
	var kid string
	var signsFrom time.Time
	var public, sealed []byte
	_, err = pgx.ForEachRow(rows, []any{&kid, &signsFrom, &public, &sealed, &now}, func() error {
		private, err := k.sealer.open(kid, sealed)
		if err != nil {
			return fmt.Errorf("the signing key %s %w", kid, err)
		}
		keys = append(keys, &signingKey{kid: kid, public: ed25519.PublicKey(public), private: private, signsFrom: signsFrom})
		public, sealed = nil, nil
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the signing keys: %w", err)
	}
	newestFirst(keys)
	return keys, now, nil
}

// Rotate makes another key. It signs after publishedFor, or at once where there
// is no other. Two processes that rotate at once make two keys: nothing is
// wrong with that.
func (k *databaseKeys) Rotate(ctx context.Context) error {
	const query = `
		insert into jwt_keys (kid, signs_from, public_key, sealed)
		select @kid, case when exists (select from jwt_keys) then now() + @published_for::interval else now() end, @public_key, @sealed`
	made, err := newSigningKey()
	if err != nil {
		return err
	}
	_, err = k.db.Exec(ctx, query, pgx.NamedArgs{
		"kid": made.kid, "public_key": []byte(made.public), "sealed": k.sealer.seal(made), "published_for": publishedFor,
	})
	if err != nil {
		return fmt.Errorf("keep a new signing key: %w", err)
	}
	return nil
}

// ForgetSealedKeys deletes the signing keys that secret does not open, and says
// how many there were: what is left to do where the secret under which they were
// sealed is lost. The tokens that they signed are refused from then on; the next
// exchange makes a new key. It is the operator's, and names no tenant.
func ForgetSealedKeys(ctx context.Context, pool *pgxpool.Pool, secret [32]byte) (int, error) {
	sealer, err := newSealer(secret)
	if err != nil {
		return 0, err
	}
	rows, err := pool.Query(ctx, `select kid, sealed from jwt_keys`)
	if err != nil {
		return 0, fmt.Errorf("read the signing keys: %w", err)
	}
	var foreign []string
	var kid string
	var sealed []byte
	_, err = pgx.ForEachRow(rows, []any{&kid, &sealed}, func() error {
		if _, err := sealer.open(kid, sealed); err != nil {
			foreign = append(foreign, kid)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read the signing keys: %w", err)
	}
	if len(foreign) == 0 {
		return 0, nil
	}
	tag, err := pool.Exec(ctx, `delete from jwt_keys where kid = any($1)`, foreign)
	if err != nil {
		return 0, fmt.Errorf("delete the signing keys: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
