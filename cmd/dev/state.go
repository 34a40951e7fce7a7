//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
)

// state is .onceward/dev.json: what is running, for scripts and tests. It is
// there while everything answers.
type state struct {
	URL           string            `json:"url"`
	OpsURL        string            `json:"ops_url"`
	OperatorToken string            `json:"operator_token"`
	Tenant        named             `json:"tenant"`
	Namespace     named             `json:"namespace"`
	Credentials   map[string]string `json:"credentials"` // API keys by role
	DatabaseURL   string            `json:"database_url"`
	DashboardURL  string            `json:"dashboard_url"`
	PIDs          pids              `json:"pids"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// pids has no member for a process that is not ours: a 0 would be taken by
// kill(2) for the reader's own process group.
type pids struct {
	API      int `json:"api,omitzero"`
	Worker   int `json:"worker,omitzero"`
	Postgres int `json:"postgres,omitzero"`
}

// printEnv writes the exports for `eval "$(make -s env)"`.
func printEnv(here checkout, stdout io.Writer) error {
	running, err := readState(here)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "export ONCEWARD_URL=%s\nexport ONCEWARD_KEY=%s\n",
		shellQuote(running.URL), shellQuote(running.Credentials["service"]))
	return err
}

// readState is what is running in this checkout; an error where nothing is.
func readState(here checkout) (state, error) {
	holder, err := here.holder()
	if err != nil {
		return state{}, err
	}
	if holder == 0 {
		return state{}, errors.New("nothing is running in this checkout: start it with `make run`")
	}
	raw, err := os.ReadFile(here.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("`make run` (process %d) is on its way up or down: try again when it says that it answers", holder)
	}
	if err != nil {
		return state{}, fmt.Errorf("read what is running: %w", err)
	}
	var running state
	if err := json.Unmarshal(raw, &running); err != nil {
		return state{}, fmt.Errorf("read what is running from %s: %w", here.statePath(), err)
	}
	return running, nil
}

// shellQuote is text as one word of a POSIX shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
