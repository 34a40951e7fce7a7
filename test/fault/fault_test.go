//go:build unix

// Package fault_test breaks things under the service and holds what it promises
// all the same: processes are killed or told to end, the database refuses,
// dies and comes back, connections are cut at the worst moment, clocks are
// wrong.
//
// Everything is real: processes of cmd/api, a PostgreSQL, and a TCP proxy
// between them where a connection is to be broken.
package fault_test

import (
	"testing"

	"github.com/onceward/onceward/test/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m, "api") }

// refused says of log lines that they are about an answer 503, which the test
// brings about.
const refused = `"status":503`
