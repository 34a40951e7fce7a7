// Package telemetry owns how the service speaks to its operators: the form of
// the log and the metrics with their names, labels and buckets.
//
// It must not know what the figures mean to the domain, and nothing of a
// tenant, a key or a credential becomes a label: labels come from fixed lists
// and from route templates.
package telemetry
