//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	apiName    = "api"
	workerName = "worker"

	// readyTimeout bounds the way from the start of a program to its first yes.
	readyTimeout = 30 * time.Second
	readyPoll    = 20 * time.Millisecond
	probeTimeout = 2 * time.Second
)

// program is a binary of the service, and what it is told beside what this
// process has been told.
type program struct {
	name     string
	addrFile string // the variable that names the file for its addresses
	env      []string
	unset    []string // variables that would contradict
}

// programs are what runs, in the order of the start.
func (l *local) programs(operatorToken string) []program {
	database := "ONCEWARD_DATABASE_URL=" + l.database.URL
	api := program{
		name:     apiName,
		addrFile: "ONCEWARD_ADDR_FILE",
		env: []string{
			database,
			"ONCEWARD_OPERATOR_TOKEN=" + operatorToken,
			"ONCEWARD_SHUTDOWN_TIMEOUT=" + childShutdownTimeout.String(),
		},
		unset: []string{"ONCEWARD_OPERATOR_TOKEN_FILE"},
	}
	if !l.environ.namesSigningKeys() {
		api.env = append(api.env, envJWTSecretFile+"="+l.here.jwtSecretPath())
	}
	return []program{
		api,
		{
			name:     workerName,
			addrFile: "ONCEWARD_WORKER_ADDR_FILE",
			// Nobody has to know its address beforehand, so it takes a free port.
			env:   []string{database, "ONCEWARD_WORKER_LISTEN_ADDR=" + l.environ.get("ONCEWARD_WORKER_LISTEN_ADDR", "127.0.0.1:0")},
			unset: append(signingKeyVariables(), "ONCEWARD_OPERATOR_TOKEN", "ONCEWARD_OPERATOR_TOKEN_FILE"),
		},
	}
}

// addresses are what a program writes into its file.
type addresses struct {
	URL    string `json:"url"` // of the api alone
	OpsURL string `json:"ops_url"`
}

// startProgram returns when the program is ready.
func (l *local) startProgram(ctx context.Context, p program) (addresses, error) {
	done := l.out.step()
	binary, err := binaryBeside(p.name)
	if err != nil {
		return addresses{}, err
	}
	addrFile := l.here.addrPath(p.name)
	if err := remove(addrFile); err != nil {
		return addresses{}, fmt.Errorf("remove what the last run left: %w", err)
	}
	log, err := openChildLog(l.here.logDir(), p.name, l.out)
	if err != nil {
		return addresses{}, err
	}
	env := l.environ.with(append(p.env, p.addrFile+"="+addrFile), p.unset...)
	c, err := startChild(p.name, binary, env, log)
	if err != nil {
		return addresses{}, errors.Join(err, log.close())
	}
	l.children = append(l.children, c)
	at, err := waitUntilReady(ctx, c, addrFile)
	if err != nil {
		return addresses{}, err
	}
	done("%s ready (process %d)", p.name, c.pid())
	return at, nil
}

// waitUntilReady returns when /readyz says yes, or says why it never did.
func waitUntilReady(ctx context.Context, c *child, addrFile string) (addresses, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		at, err := readAddresses(addrFile)
		if err == nil {
			err = probe(ctx, at.OpsURL+"/readyz")
		}
		if err == nil {
			return at, nil
		}
		select {
		case <-c.done:
			return addresses{}, c.died()
		case <-ctx.Done():
			return addresses{}, fmt.Errorf("the %s was not ready within %s: %w; the end of its log, %s, is:\n%s", c.name, readyTimeout, err, c.log.path, c.log.tail())
		case <-ticker.C:
		}
	}
}

func readAddresses(path string) (addresses, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return addresses{}, errors.New("it does not listen")
	}
	if err != nil {
		return addresses{}, fmt.Errorf("read where it listens: %w", err)
	}
	var at addresses
	if err := json.Unmarshal(raw, &at); err != nil {
		return addresses{}, fmt.Errorf("read where it listens: %w", err)
	}
	return at, nil
}

// probe is nil for a 200. The answer of the operator's /readyz has the reasons.
func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	const enough = 1024
	body, err := io.ReadAll(io.LimitReader(answer.Body, enough))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", url, answer.StatusCode, body)
	}
	return err
}
