// Package worker owns the running of jobs: River's client, what runs when, how
// a job is timed out, retried, rescued and accounted for.
//
// It must not do the work: a job is a few lines over a method of pruning or
// analytics that is tested without River. Every job may be run twice, beside
// itself, and may be killed at any moment; what it calls is made for that.
package worker
