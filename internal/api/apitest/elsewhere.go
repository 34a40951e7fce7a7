package apitest

import (
	"testing"

	"github.com/onceward/onceward/internal/tenants"
)

// Elsewhere is an instance that this world did not start, such as a process of
// the real binary on the world's database. Its clients record their exchanges
// with the world; its Tenants, Auth and Keys are nil, since another process has
// them, and Stop is not for it.
func (w *World) Elsewhere(url, operatorURL string) *Instance {
	return &Instance{URL: url, OperatorURL: operatorURL, world: w}
}

// Ignore makes begins of the operation leave out what the JSON pointers name.
// An instance elsewhere learns of it within 5 s, and at once where it has not
// served the tenant yet.
func (w *World) Ignore(tb testing.TB, operation string, pointers ...string) {
	tb.Helper()
	w.SetPolicy(tb, tenants.Override{Operation: operation, IgnorePointers: &pointers})
}

// Close gives back the connections that the client keeps for the next request.
func (c *Client) Close() { c.http.CloseIdleConnections() }
