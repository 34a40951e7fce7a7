package main

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails where the example leaves a goroutine behind when it has ended.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // but for the database server of the whole run
		goleak.IgnoreAnyFunction("github.com/onceward/onceward/internal/postgres/devpg.startProcess.func1"),
		goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
		// The proxy leaves one behind where a connection breaks while it has
		// something to pass on: nobody takes it any more (its link.go, write).
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}
