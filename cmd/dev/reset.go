//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/onceward/onceward/internal/postgres/devpg"
)

// reset deletes what runs have left: the data, wherever it lies, the
// credentials and the logs. Downloaded binaries stay.
func reset(ctx context.Context, here checkout, environ environment, stderr io.Writer) (err error) {
	lock, err := here.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := devpg.Remove(ctx, here.dataDir()); err != nil {
		return err
	}
	for _, path := range []string{here.credentialsPath(), here.jwtSecretPath(), here.statePath(), here.addrPath(apiName), here.addrPath(workerName), here.logDir()} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("delete what the last run left: %w", err)
		}
	}
	_, err = fmt.Fprintln(stderr, "✓ the local data and credentials are deleted")
	if environ.get(devpg.EnvURL, "") != "" {
		_, err = fmt.Fprintf(stderr, "! the database that %s names is left as it is\n", devpg.EnvURL)
	}
	return err
}
