//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
)

const envJWTSecretFile = "ONCEWARD_JWT_SECRET_FILE"

// signingKeyVariables are those by which the api is told of its signing keys.
func signingKeyVariables() []string {
	return []string{"ONCEWARD_JWT_SECRET", envJWTSecretFile, "ONCEWARD_JWT_KEYS_FILE"}
}

// namesSigningKeys says whether somebody else looks after the signing keys.
func (e environment) namesSigningKeys() bool {
	return slices.ContainsFunc(signingKeyVariables(), func(name string) bool { return e.get(name, "") != "" })
}

// ensureJWTSecret makes sure of the file with the secret under which the keys
// that sign tokens are sealed, and that the database has no key that it does not
// open: after a lost file no token could be made, so those keys go, and the
// tokens that they signed with them.
func ensureJWTSecret(ctx context.Context, pool *pgxpool.Pool, path string, out *printer) error {
	secret, good, err := readJWTSecret(path)
	if err == nil && !good {
		_, _ = rand.Read(secret[:]) // never fails, see crypto/rand
		err = writeText(path, []byte(base64.StdEncoding.EncodeToString(secret[:])))
	}
	if err != nil {
		return err
	}
	deleted, err := auth.ForgetSealedKeys(ctx, pool, secret)
	if err != nil {
		return fmt.Errorf("look for signing keys of another secret: %w", err)
	}
	if deleted > 0 {
		out.note("%s was lost or does not match the database: new keys sign from now on, and the tokens of the last 15 minutes are refused", path)
	}
	return nil
}

// readJWTSecret is good where the file is there and holds a secret.
func readJWTSecret(path string) (secret [32]byte, good bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return secret, false, nil
	}
	if err != nil {
		return secret, false, fmt.Errorf("read the secret of the signing keys: %w", err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(secret) {
		return secret, false, nil //nolint:nilerr // what cannot be read is replaced, and the caller says so
	}
	copy(secret[:], raw)
	return secret, true, nil
}
