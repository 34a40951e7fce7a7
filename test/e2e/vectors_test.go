//go:build unix

package e2e_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// vector is one of the published cases of onceward-fp-1.
type vector struct {
	Name        string   `json:"name"`
	Method      string   `json:"method"`
	Path        string   `json:"path"`
	Query       string   `json:"query"`
	ContentType string   `json:"content_type"`
	Body        []byte   `json:"body_base64"`
	Ignore      []string `json:"ignore"`
	Kind        string   `json:"kind"`
	Canonical   []byte   `json:"canonical_body_base64"`
	Fingerprint string   `json:"fingerprint"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	text, err := os.ReadFile("../../client/fingerprint/testdata/fingerprint.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Algorithm string   `json:"algorithm"`
		Vectors   []vector `json:"vectors"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if file.Algorithm != "onceward-fp-1" || len(file.Vectors) != 89 {
		t.Fatalf("%d vectors of %s, want 89 of onceward-fp-1", len(file.Vectors), file.Algorithm)
	}
	return file.Vectors
}

// canonicalQueries are the queries of the vectors as the contract's section 7
// says to write them. Each is proved by the published digest that it leads to.
//
//nolint:gochecknoglobals // what the vectors say, read by two tests
var canonicalQueries = map[string]string{
	"": "", "a=1&b=2": "a=1&b=2", "b=2&a=1": "a=1&b=2", "a=1&a=2": "a=1&a=2", "a=2&a=1": "a=2&a=1",
	"flag": "flag=", "flag=": "flag=", "q=a+b": "q=a%20b", "q=a%20b": "q=a%20b",
}

// digest is section 7 with canonical query and body given.
func (v vector) digest(t *testing.T) string {
	t.Helper()
	query, known := canonicalQueries[v.Query]
	if !known {
		t.Fatalf("%s: nobody has worked out the canonical form of the query %q", v.Name, v.Query)
	}
	hash := sha256.New()
	for _, field := range []string{"onceward-fp-1", strings.ToUpper(v.Method), v.Path, query, v.Kind, string(v.Canonical)} {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(field)))
		hash.Write([]byte(field))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// differs is what a begin with v is told that meets the record of other.
func (v vector) differs(other vector) []string {
	var names []string
	if !strings.EqualFold(v.Method, other.Method) {
		names = append(names, "method")
	}
	if v.Path != other.Path {
		names = append(names, "path")
	}
	if canonicalQueries[v.Query] != canonicalQueries[other.Query] {
		names = append(names, "query")
	}
	if v.Kind != other.Kind || string(v.Canonical) != string(other.Canonical) {
		names = append(names, "body")
	}
	return names
}

// operation is one for all vectors that ignore the same pointers.
func (v vector) operation() string { return "vectors that ignore:" + strings.Join(v.Ignore, ":") }

// begin is a begin with the request of the vector under the key.
func (v vector) begin(key string) apitest.Object {
	return apitest.Object{"key": key, "operation": v.operation(), "request": apitest.Object{
		"method": v.Method, "path": v.Path, "query": v.Query, "content_type": v.ContentType,
		"body_base64": base64.StdEncoding.EncodeToString(v.Body),
	}}
}

// world is two processes whose tenant ignores what the vectors ignore, and a
// record of each vector, made at the first process.
func worldOfVectors(t *testing.T, vectors []vector) (w *processtest.World, other *apitest.Client, keys []string) {
	t.Helper()
	w = processtest.New(t)
	for _, v := range vectors {
		if len(v.Ignore) > 0 {
			w.Ignore(t, v.operation(), v.Ignore...)
		}
	}
	processes := w.APIs(t, 2)
	c := processes[0].Client(w.Tenant.Service)
	for n, v := range vectors {
		key := fmt.Sprintf("vector-%03d", n)
		keys = append(keys, key)
		c.Begin(t, v.begin(key)).Acquired(t)
	}
	return w, processes[1].Client(w.Tenant.Service), keys
}

// inBatches sends begins and returns their results in order.
func inBatches(t *testing.T, c *apitest.Client, begins []any) (results []apitest.BatchResult) {
	t.Helper()
	for some := range slices.Chunk(begins, 500) {
		results = append(results, c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": some}).Results(t)...)
	}
	return results
}

// B019, B025, B051, B053, B055, B119: every pair of vectors with one
// fingerprint is the same request, and every other pair a mismatch that says
// which part it is. Pairs whose pointers to ignore differ are other operations.
func TestEveryPairOfVectorsMeetsAsItsFingerprintsSay(t *testing.T) {
	t.Parallel()
	vectors := readVectors(t)
	for _, v := range vectors {
		if got := v.digest(t); got != v.Fingerprint {
			t.Errorf("%s: its parts lead to %s, not to the published %s", v.Name, got, v.Fingerprint)
		}
	}
	_, c, keys := worldOfVectors(t, vectors)
	type pair struct{ stored, sent vector }
	var pairs []pair
	var begins []any
	for n, stored := range vectors {
		for _, sent := range vectors {
			if stored.operation() == sent.operation() {
				pairs, begins = append(pairs, pair{stored, sent}), append(begins, sent.begin(keys[n]))
			}
		}
	}
	same := 0
	for n, r := range inBatches(t, c, begins) {
		p := pairs[n]
		what := fmt.Sprintf("%q met by %q", p.stored.Name, p.sent.Name)
		switch {
		case r.Problem == nil:
			t.Errorf("%s: %s", what, r.Body)
		case p.stored.Fingerprint == p.sent.Fingerprint:
			same++
			if r.Problem.Code != "in_progress" {
				t.Errorf("%s: %s, want the same request", what, r.Body)
			}
		default:
			if r.Problem.Code != "fingerprint_mismatch" {
				t.Errorf("%s: %s, want a mismatch", what, r.Body)
			} else if diff := cmp.Diff(r.Problem.Differs, p.sent.differs(p.stored)); diff != "" {
				t.Errorf("%s: differs (-got +want):\n%s", what, diff)
			}
		}
	}
	if same <= len(vectors) {
		t.Errorf("%d pairs are the same request: no two different vectors were", same)
	}
}

// A caller that computes fingerprints itself meets the records of those who
// let the service do it, for every pair of vectors.
func TestEveryPublishedDigestMeetsTheServicesOwn(t *testing.T) {
	t.Parallel()
	vectors := readVectors(t)
	_, c, keys := worldOfVectors(t, vectors)
	var begins []any
	for n, stored := range vectors {
		for _, sent := range vectors {
			begins = append(begins, apitest.Object{"key": keys[n], "operation": stored.operation(), "fingerprint": sent.Fingerprint})
		}
	}
	for n, r := range inBatches(t, c, begins) {
		stored, sent := vectors[n/len(vectors)], vectors[n%len(vectors)]
		what := fmt.Sprintf("%q met by the digest of %q", stored.Name, sent.Name)
		switch {
		case r.Problem == nil:
			t.Errorf("%s: %s", what, r.Body)
		case stored.Fingerprint == sent.Fingerprint && r.Problem.Code != "in_progress":
			t.Errorf("%s: %s, want the same request", what, r.Body)
		case stored.Fingerprint != sent.Fingerprint:
			if diff := cmp.Diff(r.Problem.Differs, []string{"fingerprint"}); r.Problem.Code != "fingerprint_mismatch" || diff != "" {
				t.Errorf("%s: %s, want a mismatch; differs (-got +want):\n%s", what, r.Body, diff)
			}
		}
	}
}
