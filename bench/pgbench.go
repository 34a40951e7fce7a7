//go:build linux

package main

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// plainSQL are the statements of the other side of each comparison, as pgbench
// scripts.
//
//go:embed sql/*.sql
var plainSQL embed.FS

const (
	plainBegin  = "begin"
	plainPair   = "pair"
	plainReplay = "replay"

	// replayedRecords are what replays go round, here and there.
	replayedRecords = 10_000

	// connectSeconds are added to pgbench's time, for SCRAM on 64 connections
	// takes a second of CPU. Its rate leaves them out.
	connectSeconds     = 2
	mostConnectSeconds = 32
)

var errNoPgbench = errors.New("pgbench is not installed, and it is half of every comparison here: it comes with PostgreSQL's contrib programs (Debian and Ubuntu: apt-get install postgresql-contrib); put it on PATH or beside the server's binaries")

// findPgbench is the pgbench of the server, or of PATH.
func findPgbench(binDir string) (string, error) {
	beside := filepath.Join(binDir, "pgbench")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	path, err := exec.LookPath("pgbench")
	if err != nil {
		return "", errNoPgbench
	}
	return path, nil
}

// writeScripts puts the scripts where pgbench can read them.
func (b *bench) writeScripts() error {
	for _, name := range []string{plainBegin, plainPair, plainReplay} {
		text, err := plainSQL.ReadFile("sql/" + name + ".sql")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.scriptPath(name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) scriptPath(name string) string { return filepath.Join(b.dir, name+".sql") }

// storedHeaders is the column headers for one Content-Type, as replay.sql and
// pair.sql store it.
func storedHeaders() string {
	var raw []byte
	for _, part := range []string{"Content-Type", "application/json"} {
		raw = append(append(raw, byte(len(part))), part...) // a varint below 128 is its byte
	}
	return hex.EncodeToString(raw)
}

// plain runs one script of one statement per transaction on so many
// connections, as prepared statements over TCP, as the API does. pgbench's time
// runs while it connects: where that took too much of it, it is run again.
func (b *bench) plain(ctx context.Context, db *database, script string, clients int) (m measure, err error) {
	for connecting := connectSeconds; connecting <= mostConnectSeconds; connecting *= 2 {
		var enough bool
		if m, enough, err = b.plainOnce(ctx, db, script, clients, connecting); err != nil || enough {
			return m, err
		}
	}
	return m, fmt.Errorf("pgbench could not connect %d times within %d s", clients, mostConnectSeconds)
}

func (b *bench) plainOnce(ctx context.Context, db *database, script string, clients, connecting int) (m measure, enough bool, err error) {
	at, err := url.Parse(db.url)
	if err != nil {
		return measure{}, false, err
	}
	password, _ := at.User.Password()
	cmd := exec.CommandContext(ctx, b.pgbench,
		"--no-vacuum", "--protocol=prepared", "--client="+strconv.Itoa(clients), "--jobs="+strconv.Itoa(min(clients, runtime.NumCPU())),
		"--time="+strconv.Itoa(b.opts.seconds+connecting), "--file="+b.scriptPath(script),
		"--define=tenant="+db.plain.String(), "--define=namespace="+db.namespace.String(), "--define=credential=abcdefghijklmnop",
		"--define=print="+strings.Repeat("0f", 16), "--define=owner="+strings.Repeat("0d", 16),
		"--define=headers="+storedHeaders(), "--define=body="+responseBody(), "--define=records="+strconv.Itoa(replayedRecords))
	cmd.Env = append(os.Environ(), "PGHOST="+at.Hostname(), "PGPORT="+at.Port(), "PGUSER="+at.User.Username(),
		"PGPASSWORD="+password, "PGDATABASE="+strings.TrimPrefix(at.Path, "/"))
	before, err := takeSnapshot(ctx, db, nil)
	if err != nil {
		return measure{}, false, err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return measure{}, false, fmt.Errorf("run pgbench: %w: %s", err, out)
	}
	after, err := takeSnapshot(ctx, db, nil)
	if err != nil {
		return measure{}, false, err
	}
	if took, err := number(string(out), `initial connection time = ([0-9.]+) ms`); err != nil || took > float64(connecting)*1000 {
		return measure{}, false, nil //nolint:nilerr // it says nothing of it where the time was up before
	}
	m, err = readPgbench(string(out))
	// The connecting is in it, some milliseconds for each connection.
	m.used = after.used.minus(before.used)
	m.used.generator = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	m.wal = after.wal - before.wal
	return m, true, err
}

// readPgbench reads what pgbench says at its end. One failed transaction fails
// the run.
func readPgbench(out string) (measure, error) {
	if failed, err := number(out, `number of failed transactions: (\d+)`); err != nil || failed > 0 {
		return measure{}, fmt.Errorf("pgbench had failed transactions: %s", out)
	}
	done, err := number(out, `number of transactions actually processed: (\d+)`)
	if err != nil {
		return measure{}, err
	}
	mean, err := number(out, `latency average = ([0-9.]+) ms`)
	if err != nil {
		return measure{}, err
	}
	rate, err := number(out, `tps = ([0-9.]+)`)
	return measure{rate: rate, meanMS: mean, operations: int64(done)}, err
}

func number(text, pattern string) (float64, error) {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("pgbench does not say %q: %s", pattern, text)
	}
	return strconv.ParseFloat(found[1], 64)
}
