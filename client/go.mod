module github.com/onceward/onceward/client

go 1.26

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/google/go-cmp v0.7.0
	pgregory.net/rapid v1.3.0
)
