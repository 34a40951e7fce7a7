// Package apispec owns the description of the API: the OpenAPI document beside
// this file, embedded so that the service can serve what it was built with.
//
// It holds bytes and no logic: internal/api/reference reads, converts and shows
// them.
package apispec

import _ "embed"

//go:embed openapi.yaml
var document []byte

// PlaceholderURL stands in the document wherever the address of a running
// service belongs: as the server, and in the examples.
const PlaceholderURL = "https://onceward.example"

// YAML returns a copy of the OpenAPI 3.1 document as it was written.
func YAML() []byte { return append([]byte(nil), document...) }
