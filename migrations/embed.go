// Package migrations holds the SQL that makes the schema, embedded in every
// binary that needs it. It owns the files and nothing else: they are run by
// internal/postgres, and no Go code of any other kind belongs here.
package migrations

import "embed"

// FS holds the goose files, NNNNN_what.sql, at its root.
//
//go:embed *.sql
var FS embed.FS
