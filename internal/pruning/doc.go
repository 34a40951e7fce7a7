// Package pruning owns the removal of records whose retention has ended.
//
// Correctness never depends on it: every read treats an expired record as
// absent, pruned or not. What it must do is get rid of all of them, however
// many, without being felt by anybody; what it must never do is remove a record
// that is alive at the moment of deletion, which the deleting statement itself
// checks.
package pruning
