//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
)

// What it costs to send telemetry, and what it costs not to.

const (
	legSilent     = "begin, OTLP off"
	legSilentToo  = "begin, OTLP off, a second process"
	legTold       = "begin, OTLP on"
	legToldSeldom = "begin, OTLP on, 1 in 100 traced"
)

// sink is a collector that throws everything away.
type sink struct {
	server  *http.Server
	url     string
	batches atomic.Int64 // that came
}

func startSink(ctx context.Context) (*sink, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for telemetry: %w", err)
	}
	s := &sink{url: "http://" + listener.Addr().String()}
	s.server = &http.Server{ReadHeaderTimeout: readyTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the API has been stopped
		}
		s.batches.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go func() { _ = s.server.Serve(listener) }() // until it is closed
	return s, nil
}

var errNothingSent = errors.New("the API was told to send telemetry, and sent none")

// compareTelemetry runs begins on APIs that send nothing and on APIs that send
// traces, metrics and logs, in turn. Two send nothing: what they differ by is
// what any two processes differ by here.
func (b *bench) compareTelemetry(ctx context.Context, db *database, silent *server) (err error) {
	collector, err := startSink(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, collector.server.Close()) }()
	to := "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.url
	others := map[string]*server{}
	for name, environ := range map[string][]string{
		legSilentToo:  nil,
		legTold:       {to},
		legToldSeldom: {to, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.01"},
	} {
		s, startErr := b.startAPI(ctx, fileName(name), db, environ...)
		if startErr != nil {
			return startErr
		}
		defer func() { err = firstOf(err, s.stop()) }()
		others[name] = s
	}
	told := func(name string, conns int) leg {
		l := b.loaded(name, legID(legSilent, conns), conns, db, digestScript, others[name])
		run := l.run
		l.run = func(ctx context.Context, conns int) (measure, error) {
			before := collector.batches.Load()
			m, err := run(ctx, conns)
			if err == nil && collector.batches.Load() == before {
				err = errNothingSent
			}
			return m, err
		}
		return l
	}
	var legs []leg
	for _, conns := range []int{most, 1} {
		legs = append(legs,
			b.loaded(legSilent, "", conns, db, digestScript, silent),
			b.loaded(legSilentToo, legID(legSilent, conns), conns, db, digestScript, others[legSilentToo]),
			told(legTold, conns), told(legToldSeldom, conns))
	}
	servers := append(slices.Collect(maps.Values(others)), silent)
	for i, l := range legs {
		legs[i] = b.fresh(l, db, servers...)
	}
	_, err = b.add(ctx, group{name: "telemetry", legs: legs})
	return err
}
