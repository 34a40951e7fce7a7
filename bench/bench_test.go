//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/bench/load"
)

// bodyOf is the body of a request as it is sent, which must be as long as its
// Content-Length says.
func bodyOf(t *testing.T, request []byte) []byte {
	t.Helper()
	head, body, ok := bytes.Cut(request, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("no blank line in %q", request)
	}
	if !strings.Contains(string(head), "\r\nContent-Length: "+strconv.Itoa(len(body))) {
		t.Fatalf("%d bytes of body under %s", len(body), head)
	}
	return body
}

func keysOf(t *testing.T, request []byte) (keys []string) {
	t.Helper()
	var sent struct {
		Key        string                 `json:"key"`
		Operations []struct{ Key string } `json:"operations"`
	}
	if err := json.Unmarshal(bodyOf(t, request), &sent); err != nil {
		t.Fatal(err)
	}
	for _, o := range sent.Operations {
		keys = append(keys, o.Key)
	}
	if sent.Key != "" {
		keys = append(keys, sent.Key)
	}
	return keys
}

func TestNoTwoBeginsOfARunHaveOneKey(t *testing.T) {
	t.Parallel()
	r, m := &run{}, maker{key: "ow_key", body: responseBody()}
	seen := map[string]bool{}
	for _, script := range []load.Script{
		digestScript(m, "prefix", r, 0), digestScript(m, "prefix", r, 1), requestScript(m, "prefix", r, 2),
		messagePairs(m, "prefix", r, 3), batches(m, "prefix", r, 4),
	} {
		for range 3 {
			for _, key := range keysOf(t, script.Next()) {
				if seen[key] {
					t.Fatalf("%s is begun twice", key)
				}
				seen[key] = true
			}
		}
	}
	if want := 4*3 + 3*batchSize; len(seen) != want {
		t.Errorf("%d keys, want %d", len(seen), want)
	}
}

func TestAPairCompletesWhatItsBeginWasGiven(t *testing.T) {
	t.Parallel()
	const id, token = "aaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	r := &run{}
	m := maker{key: "ow_key", body: responseBody()}
	for name, script := range map[string]load.Script{"message": messagePairs(m, "p", r, 0), "JSON": jsonPairs(m, "p", r, 0)} {
		script.Next()
		begun := `{"id":"` + id + `",` + string(acquiredFirst) + `,"lease":{"token":"` + token + `"}}`
		if _, err := script.Answer(load.Answer{Status: 201, Body: []byte(begun)}); err != nil {
			t.Fatal(name, err)
		}
		sent := script.Next()
		bodyOf(t, bytes.Replace(sent, []byte("application/http\r\n"), []byte("x\r\n"), 1))
		if !bytes.HasPrefix(sent, []byte("PUT /v1/keys/"+id+"/response HTTP/1.1\r\n")) || !bytes.Contains(sent, []byte("\r\nOnceward-Lease: "+token+"\r\n")) {
			t.Errorf("%s: the completion begins %.200q", name, sent)
		}
		done, err := script.Answer(load.Answer{Status: 200, Body: []byte(`{"id":"` + id + `","state":"completed"}`)})
		if diff := cmp.Diff(load.Done{Kind: kindComplete, Operations: 1}, done); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if r.acquired != 2 || r.completed != 2 {
		t.Errorf("%d acquired and %d completed, want 2 of each", r.acquired, r.completed)
	}
}

func TestAnswersThatAreNotTheOneExpectedEndARun(t *testing.T) {
	t.Parallel()
	m := maker{key: "ow_key", body: responseBody()}
	resumed := bytes.Replace(acquiredFirst, []byte(`"resumed":false`), []byte(`"resumed":true`), 1)
	replayed := []byte("Idempotent-Replay: true")
	for name, test := range map[string]struct {
		script load.Script
		answer load.Answer
	}{
		"resumed":               {digestScript(m, "p", &run{}, 0), load.Answer{Status: 201, Body: resumed}},
		"a replay":              {digestScript(m, "p", &run{}, 0), load.Answer{Status: 200, Head: replayed, Body: acquiredFirst}},
		"a batch with a 409":    {batches(m, "p", &run{}, 0), load.Answer{Status: 200, Body: bytes.Repeat(append(bytes.Clone(entryCreated), acquiredFirst...), batchSize-1)}},
		"another body replayed": {&replayScript{run: &run{}, request: m.replay("p", true), want: wantOfReplay(m.body, true), records: 3}, load.Answer{Status: 200, Head: replayed, Body: []byte("HTTP/1.1 201 \r\n\r\n{}")}},
		"503":                   {messagePairs(m, "p", &run{}, 0), load.Answer{Status: 503}},
	} {
		test.script.Next()
		if _, err := test.script.Answer(test.answer); err == nil {
			t.Errorf("%s: taken for right", name)
		}
	}
}

func TestTheStoredBodyHasItsSizeAndIsJSON(t *testing.T) {
	t.Parallel()
	if body := responseBody(); len(body) != bodyBytes || !json.Valid([]byte(body)) {
		t.Errorf("%d bytes: %s", len(body), body)
	}
	m := maker{}
	var begin struct{ Request struct{ Body string } }
	if err := json.Unmarshal([]byte(m.beginByRequest("p", "o")), &begin); err != nil || len(begin.Request.Body) != 300 || !json.Valid([]byte(begin.Request.Body)) {
		t.Errorf("%v: %d bytes: %s", err, len(begin.Request.Body), begin.Request.Body)
	}
}

func TestWhatPgbenchSaysIsRead(t *testing.T) {
	t.Parallel()
	const said = "number of clients: 64\nnumber of transactions actually processed: 12345\nnumber of failed transactions: 0 (0.000%)\n" +
		"latency average = 4.567 ms\ninitial connection time = 170.0 ms\ntps = 14012.250000 (without initial connection time)\n"
	m, err := readPgbench(said)
	if err != nil || m.rate != 14012.25 || m.meanMS != 4.567 || m.operations != 12345 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, broken := range []string{"", strings.Replace(said, "transactions: 0 ", "transactions: 2 ", 1), strings.Replace(said, "tps", "", 1)} {
		if _, err := readPgbench(broken); err == nil {
			t.Errorf("taken for right: %q", broken)
		}
	}
}

func TestTheTimeOfThisProcessIsSeen(t *testing.T) {
	t.Parallel()
	pid := strconv.Itoa(os.Getpid())
	before, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	if before.parent != os.Getppid() {
		t.Errorf("the parent is %d, want %d", before.parent, os.Getppid())
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		for range 1000 {
			responseBody()
		}
		after, err := readStat(pid)
		if err != nil {
			t.Fatal(err)
		}
		if after.own > before.own {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("30 s of work are not seen")
		}
	}
}

func TestMediansAndMarks(t *testing.T) {
	t.Parallel()
	of := []measure{{rate: 30}, {rate: 10}, {rate: 20}}
	to := []measure{{rate: 10}, {rate: 10}, {rate: 10}}
	if got := newSpread(ratios(of, to, rateOf)); got != (spread{2, 1, 3}) {
		t.Errorf("%v, want 2 (1–3)", got)
	}
	for _, test := range []struct {
		value  float64
		atMost bool
		want   string
	}{
		{2.0, false, "goal reached"},
		{1.5, false, "kept"},
		{1.4, false, "**missed**"},
		{1.5, true, "goal reached"},
		{1.9, true, "kept"},
		{2.1, true, "**missed**"},
	} {
		m := mark{owed: 1.5, goal: 2, atMost: test.atMost}
		if test.atMost {
			m.owed, m.goal = 2, 1.5
		}
		if got := m.verdict(test.value); got != test.want {
			t.Errorf("%v (at most: %v) is %s, want %s", test.value, test.atMost, got, test.want)
		}
	}
}
