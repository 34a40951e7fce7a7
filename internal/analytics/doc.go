// Package analytics owns the figures about what was answered: it captures them
// off the path of the request, rolls them up, and answers what was asked about
// them.
//
// The way of a figure: Recorder.Note adds it to a window in memory; a flush
// writes the window to analytics_counts at least every second; RollUp moves
// it to analytics_minutes and analytics_hours in one statement. Every answer
// reads all three in one snapshot, so it is in exactly one of them whenever
// anybody looks.
//
// The package must not know how a begin is decided: what happened comes as an
// Event. It can never fail, block or slow what it counts, and it reads nothing
// from the records themselves, so that pruning them takes nothing away from a
// figure.
package analytics
