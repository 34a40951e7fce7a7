// Package api is the service's HTTP edge: one route table, the checks that
// every call passes in the order of the wire contract (section 1), the
// decoding of what was sent and the writing of what was decided.
//
// routes.go is the place to begin: a row says everything about a call, and its
// handler is a few lines over a method of the domain. exchange.go is one
// request from door to door.
//
// It must not decide anything about a record or a policy, must not touch the
// database, and writes nothing of a request into a log but its route, its
// caller's ids and how it ended.
package api
