//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/bench/load"
)

// A key that everybody hammers, beside callers that have nothing to do with it.

const (
	quietCallers = 50
	loudCallers  = 1000

	legBesideOwn = "50 callers beside 1,000 of another tenant, each with keys of its own"
	legBesideHot = "50 callers beside 1,000 of another tenant, all on one key"

	kindLoud = kindComplete // the answers to the loud ones, of which nothing is shown
)

var errNoBackOff = errors.New("a 409 has no Retry-After")

// hotScript begins one key, again and again, as fast as it is answered, until
// it has acquired it: the owner of an attempt that asks again resumes it.
type hotScript struct {
	request template
	tally   *tally
	holds   bool
}

// tally counts what hot scripts were answered.
type tally struct{ acquired, refused int64 }

func (s *hotScript) Next() []byte {
	if s.holds {
		return nil
	}
	return s.request.raw
}

func (s *hotScript) Answer(a load.Answer) (load.Done, error) {
	switch {
	case isAcquired(a):
		s.tally.acquired++
		s.holds = true
	case a.Status != 409 || !bytes.Contains(a.Body, []byte(`"code":"in_progress"`)):
		return load.Done{}, wrong("a begin of the hot key", a)
	case !bytes.Contains(a.Head, []byte("\r\nRetry-After: ")):
		return load.Done{}, errNoBackOff
	default:
		s.tally.refused++
	}
	return load.Done{Kind: kindLoud}, nil
}

// loudScript begins new keys, and counts for nobody.
type loudScript struct{ beginScript }

func (s *loudScript) Answer(a load.Answer) (load.Done, error) {
	_, err := s.beginScript.Answer(a)
	return load.Done{Kind: kindLoud}, err
}

func (b *bench) hotKey(db *database, api *server) group {
	own := func(ctx context.Context, conns int) (measure, error) {
		loud := &run{}
		m, _, err := b.drive(ctx, drive{db: db, servers: []*server{api}, conns: conns, script: func(m maker, prefix string, r *run, conn int) load.Script {
			if conn < quietCallers {
				return digestScript(m, prefix, r, conn)
			}
			m.key = db.otherKey
			return &loudScript{beginScript{loud, m.begin(m.beginByDigest(prefix, ownerOf(conn)))}}
		}})
		return m, err
	}
	hot := func(ctx context.Context, conns int) (measure, error) {
		var t tally
		m, _, err := b.drive(ctx, drive{db: db, servers: []*server{api}, conns: conns, script: func(m maker, prefix string, r *run, conn int) load.Script {
			if conn < quietCallers {
				return digestScript(m, prefix, r, conn)
			}
			m.key = db.otherKey
			return &hotScript{request: m.begin(m.beginByDigest(prefix, ownerOf(conn))), tally: &t}
		}})
		if err == nil && (t.acquired != 1 || t.refused < loudCallers) {
			err = fmt.Errorf("%w: the hot key was acquired %d times and refused %d times", errCounts, t.acquired, t.refused)
		}
		return m, err
	}
	const all = quietCallers + loudCallers
	return group{name: "hot key", before: db.session.empty, legs: []leg{
		{name: legBesideOwn, conns: all, run: own},
		{name: legBesideHot, conns: all, against: legID(legBesideOwn, all), run: hot},
	}}
}
