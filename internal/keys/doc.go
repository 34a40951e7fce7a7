// Package keys owns the idempotency records: begin, complete, the lease and
// its calls, waiting, batches and inspection, with the SQL that stores them.
//
// How a begin is decided is one pure function (decide.go); what is written is
// guarded by the fence that the decision saw, in the writing statement itself.
// There is no check before a write that the write does not make again.
//
// It must not know HTTP, must not read a policy's rows (tenants does), and must
// never answer from a row that is not the caller's: tenant and namespace stand
// in every statement.
package keys
