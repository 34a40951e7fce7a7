package keys

import (
	"bytes"
	"encoding/hex"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/client/fingerprint"
)

const (
	printDomain    = "onceward-print-1"
	partDomain     = "onceward-part-1"
	ownerDomain    = "onceward-owner-1"
	responseDomain = "onceward-response-1"

	partSize = 8
)

// partNames are the members of differs, in the order of keyedPrint.parts.
func partNames() [4]string { return [4]string{"method", "path", "query", "body"} }

// keyedPrint is a fingerprint as it is stored: keyed, so that neither the row nor a
// dump of it can be tried against guessed payloads.
type keyedPrint struct {
	sum [digestSize]byte
	// parts are four keyed digests of partSize bytes, so that a mismatch can
	// say what differs; nil where the caller sent only a digest.
	parts []byte
	// pointers is the JSON array of ignore_pointers under which sum was made;
	// empty for none.
	pointers string
}

// printOfDigest is the stored form of a fingerprint that the caller computed.
func printOfDigest(k *keyer, hexDigits string) (keyedPrint, error) {
	sum, err := hex.DecodeString(hexDigits)
	if err != nil {
		return keyedPrint{}, err
	}
	return keyedPrint{sum: k.start(printDomain).bytes(sum).stored()}, nil
}

// printOfRequest computes the fingerprint of r and its stored form.
func printOfRequest(k *keyer, r fingerprint.Request) (keyedPrint, error) {
	result := fingerprint.Compute(r)
	p := keyedPrint{sum: k.start(printDomain).bytes(result.Sum[:]).stored(), parts: make([]byte, 0, 4*partSize)}
	for i, part := range [4][32]byte{result.MethodSum, result.PathSum, result.QuerySum, result.BodySum} {
		sum := k.start(partDomain).bytes([]byte{byte(i)}).bytes(part[:]).sum()
		p.parts = append(p.parts, sum[:partSize]...)
	}
	if len(r.IgnorePointers) > 0 {
		text, err := json.Marshal(r.IgnorePointers)
		if err != nil {
			return keyedPrint{}, err
		}
		p.pointers = string(text)
	}
	return p, nil
}

// differing names the parts in which a and b are not the same, or the
// fingerprint as a whole where one of them is only a digest.
func differing(a, b keyedPrint) []string {
	if a.sum == b.sum {
		return nil
	}
	if len(a.parts) != 4*partSize || len(b.parts) != 4*partSize {
		return []string{"fingerprint"}
	}
	var names []string
	for i, name := range partNames() {
		if at := i * partSize; !bytes.Equal(a.parts[at:at+partSize], b.parts[at:at+partSize]) {
			names = append(names, name)
		}
	}
	return names
}

// pointersOf reads back what keyedPrint.pointers holds.
func pointersOf(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	var pointers []string
	err := json.Unmarshal([]byte(text), &pointers)
	return pointers, err
}
