//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/postgres/devpg"
)

const (
	// Everything has ended stopTimeout after the first signal. The children get
	// childStopTimeout of it, and are told to give running requests less.
	stopTimeout          = 9500 * time.Millisecond
	childStopTimeout     = 7 * time.Second
	childShutdownTimeout = 6 * time.Second
)

// serve brings everything up, waits for a signal or for something that dies,
// and takes everything down again, whatever happened.
func serve(ctx context.Context, here checkout, environ environment, out *printer) (err error) {
	lock, err := here.lock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	l := &local{here: here, environ: environ, out: out}
	// A run that was killed leaves it.
	if err := remove(here.statePath()); err != nil {
		return fmt.Errorf("remove what the last run left: %w", err)
	}
	err = l.up(ctx)
	if err == nil {
		err = l.watch(ctx)
	}
	if ctx.Err() != nil {
		// What was under way has been cut off by the signal, as it was meant to.
		err = nil
		out.printf("\nstopping …")
	}
	if stopErr := l.down(ctx); stopErr != nil {
		return errors.Join(err, stopErr)
	}
	if err == nil {
		out.printf("✓ stopped, nothing is left running")
	}
	return err
}

// local is everything that runs.
type local struct {
	here    checkout
	environ environment
	out     *printer

	database *devpg.Database // nil until it runs
	children []*child        // in the order in which they were started
}

// up starts everything and returns when everything answers. On failure down
// takes away what there is.
func (l *local) up(ctx context.Context) error {
	for _, name := range []string{apiName, workerName} {
		if _, err := binaryBeside(name); err != nil {
			return err
		}
	}
	if err := checkPorts(ctx, listeners(l.environ)); err != nil {
		return err
	}
	var err error
	if l.database, err = startDatabase(ctx, l.here, l.out); err != nil {
		return err
	}
	demo, err := l.setUp(ctx)
	if err != nil {
		return err
	}
	at := map[string]addresses{}
	for _, p := range l.programs(demo.OperatorToken) {
		if at[p.name], err = l.startProgram(ctx, p); err != nil {
			return err
		}
	}
	running := state{
		URL:           at[apiName].URL,
		OpsURL:        at[apiName].OpsURL,
		OperatorToken: demo.OperatorToken,
		Tenant:        named{ID: demo.tenant.ID.String(), Name: demo.tenant.Name},
		Namespace:     named{ID: demo.namespace.ID.String(), Name: demo.namespace.Name},
		Credentials:   demo.Credentials,
		DatabaseURL:   l.database.URL,
		DashboardURL:  at[apiName].URL + "/dashboard#link=" + demo.link,
		PIDs:          l.pids(),
	}
	if err := writeJSON(l.here.statePath(), running); err != nil {
		return err
	}
	l.out.greet(running)
	return nil
}

// setUp migrates, and makes sure of the demo tenant and its credentials.
func (l *local) setUp(ctx context.Context) (access, error) {
	pool, err := openMigrated(ctx, l.database.URL, l.out)
	if err != nil {
		return access{}, err
	}
	defer pool.Close()
	done := l.out.step()
	d, err := newDemo(pool)
	if err != nil {
		return access{}, err
	}
	kept, err := readSecrets(l.here.credentialsPath())
	if err != nil {
		return access{}, err
	}
	now, err := d.ensure(ctx, kept)
	if err != nil {
		return access{}, err
	}
	if now.link, err = signInLink(ctx, pool, now); err != nil {
		return access{}, err
	}
	if err := writeJSON(l.here.credentialsPath(), now.secrets); err != nil {
		return access{}, err
	}
	now.say(l.out, done, l.here.credentialsPath())
	if !l.environ.namesSigningKeys() {
		if err := ensureJWTSecret(ctx, pool, l.here.jwtSecretPath(), l.out); err != nil {
			return access{}, err
		}
	}
	return now, nil
}

func (l *local) pids() pids {
	var p pids
	if l.database.Server != nil {
		p.Postgres = l.database.Server.PID
	}
	for _, c := range l.children {
		switch c.name {
		case apiName:
			p.API = c.pid()
		case workerName:
			p.Worker = c.pid()
		}
	}
	return p
}

// watch returns when ctx ends, or with the sentence about what died.
func (l *local) watch(ctx context.Context) error {
	ended := make(chan error, len(l.children))
	for _, c := range l.children {
		go func() {
			<-c.done
			ended <- c.died()
		}()
	}
	var databaseDone <-chan struct{}
	if l.database.Server != nil {
		databaseDone = l.database.Server.Done()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		return err
	case <-databaseDone:
		return fmt.Errorf("PostgreSQL (process %d) ended by itself; its log is %s.log", l.database.Server.PID, l.database.Server.DataDir)
	}
}

// down stops what runs: the children, all at once, so that each has the time to
// finish what it has begun, and then the database under them.
func (l *local) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	errs := []error{remove(l.here.statePath())}
	childCtx, cancelChild := context.WithTimeout(ctx, childStopTimeout)
	defer cancelChild()
	var stopping sync.WaitGroup
	stopErrs := make([]error, len(l.children))
	for i, c := range l.children {
		stopping.Go(func() { stopErrs[i] = errors.Join(c.stop(childCtx), c.log.close()) })
	}
	stopping.Wait()
	for i, c := range l.children {
		// The child has removed its file, unless it was killed.
		errs = append(errs, stopErrs[i], remove(l.here.addrPath(c.name)))
	}
	if l.database != nil {
		errs = append(errs, l.database.Stop(ctx))
	}
	return errors.Join(errs...)
}
