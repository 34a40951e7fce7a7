//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
)

const (
	legRedis = "Redis SET NX, appendfsync always"

	redisRequests = 40_000 // a second of the leg
)

// redis is a Redis that loses nothing it has acknowledged.
type redis struct {
	*child
	port string
}

// startRedis starts one, if redis-server and redis-benchmark are installed;
// nil where they are not.
func (b *bench) startRedis(ctx context.Context) (*redis, error) {
	program, err := exec.LookPath("redis-server")
	if err == nil {
		_, err = exec.LookPath("redis-benchmark")
	}
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is no part of the product; the report says that it was left out
	}
	dir, err := os.MkdirTemp(b.dir, "redis-")
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String()) // of a TCP listener
	if err := listener.Close(); err != nil {
		return nil, err
	}
	log, err := b.openLog("redis")
	if err != nil {
		return nil, err
	}
	c, err := startChild("Redis", os.Environ(), log, program, "--bind", "127.0.0.1", "--port", port, "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	if err != nil {
		return nil, err
	}
	r := &redis{c, port}
	err = c.eventually(ctx, readyTimeout, func() error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp4", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return r, nil
}

// besideRedis compares begins with what Redis does for a lock of the kind that
// many services use in their place.
func (b *bench) besideRedis(db *database, api *server, r *redis) group {
	set := func(ctx context.Context, conns int) (measure, error) {
		// -r is read as a 32-bit number: beyond 2^31 it would name one key.
		out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", "127.0.0.1", "-p", r.port, "-c", strconv.Itoa(conns),
			"-n", strconv.Itoa(redisRequests*b.opts.seconds), "-r", "2000000000", "-q", "SET", "charge:__rand_int__", "1", "NX", "EX", "86400").CombinedOutput()
		if err != nil {
			return measure{}, fmt.Errorf("run redis-benchmark: %w: %s", err, out)
		}
		rate, err := number(string(out), `([0-9.]+) requests per second`)
		return measure{rate: rate, operations: int64(redisRequests * b.opts.seconds)}, err
	}
	return group{name: "Redis", before: db.session.empty, legs: []leg{
		{name: legRedis, conns: most, run: set},
		b.loaded(legDigest, legID(legRedis, most), most, db, digestScript, api),
		b.loaded(legBatch, legID(legRedis, most), some, db, batches, api),
	}}
}
