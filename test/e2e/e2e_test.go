//go:build unix

// Package e2e_test holds the promises of the wire contract that take more than
// one process, or a real one: every request goes over HTTP to processes of
// cmd/api that share one database.
//
// Each case stands where it is cheapest to hold, mostly in internal/keys and
// internal/api; ../README.md says which is where. Faults are in ../fault.
package e2e_test

import (
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m, "api") }

// clients are n of them, in turn of each process.
func clients(processes []*processtest.API, apiKey string, n int) []*apitest.Client {
	list := make([]*apitest.Client, n)
	for i := range list {
		list[i] = processes[i%len(processes)].Client(apiKey)
	}
	return list
}
