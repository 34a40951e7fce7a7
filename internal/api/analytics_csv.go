package api

import (
	"bytes"
	"encoding/csv"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/analytics"
)

const mediaCSV = "text/csv"

// wantsCSV says whether Accept names text/csv (RFC 9110, section 12.5.1). A
// wildcard does not: JSON is what everybody else gets.
func wantsCSV(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			media, params, err := mime.ParseMediaType(part)
			if err != nil || media != mediaCSV {
				continue
			}
			quality, err := strconv.ParseFloat(params["q"], 64)
			return params["q"] == "" || err == nil && quality > 0
		}
	}
	return false
}

// tableAnswer is 200 with figures, as JSON or as the same rows in CSV.
type tableAnswer struct {
	csv   bool
	name  string // of the file
	value any
	rows  func(*csvWriter)
}

func (t tableAnswer) send(x *exchange) error {
	x.Header().Set("Vary", "Accept")
	if !t.csv {
		body, err := json.Marshal(t.value)
		if err != nil {
			return err
		}
		x.write(http.StatusOK, mediaJSON, body)
		return nil
	}
	var out bytes.Buffer
	w := &csvWriter{to: csv.NewWriter(&out)}
	w.to.UseCRLF = true // RFC 4180, section 2
	t.rows(w)
	w.to.Flush()
	if err := w.to.Error(); err != nil {
		return err
	}
	x.Header().Set("Content-Disposition", `attachment; filename="`+t.name+`.csv"`)
	x.write(http.StatusOK, mediaCSV+"; charset=utf-8; header=present", out.Bytes())
	return nil
}

// csvWriter writes rows whose cells no spreadsheet takes for a formula.
type csvWriter struct{ to *csv.Writer }

func (w *csvWriter) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = neutral(cell)
	}
	_ = w.to.Write(cells) // into memory; Error says at the end
}

// neutral puts an apostrophe before a cell that a spreadsheet would calculate:
// keys, operations and callers are text from outside.
func neutral(cell string) string {
	if cell == "" || !strings.ContainsRune("=+-@\t\r\n|", rune(cell[0])) {
		return cell
	}
	if _, err := strconv.ParseFloat(cell, 64); err == nil {
		return cell // a number is only a number
	}
	return "'" + cell
}

func figuresHeader() []string {
	return []string{
		"begins", "acquired", "resumed", "replays", "in_progress", "fingerprint_mismatch", "outcome_unknown", "conflict_rate",
		"takeovers", "releases", "late_completions", "resolutions", "declared_unknown",
	}
}

func figuresCells(f analytics.Figures) []string {
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	rate := ""
	if r, ok := f.ConflictRate(); ok {
		rate = strconv.FormatFloat(r, 'f', 6, 64)
	}
	return []string{
		n(f.Begins()), n(f.Of(analytics.Acquired)), n(f.Of(analytics.Resumed)), n(f.Of(analytics.Replay)),
		n(f.Of(analytics.InProgress)), n(f.Of(analytics.Mismatch)), n(f.Of(analytics.Unknown)), rate,
		n(f.Of(analytics.Takeover)), n(f.Of(analytics.Release)), n(f.Of(analytics.LateCompletion)),
		n(f.Of(analytics.Resolution)), n(f.Of(analytics.DeclaredUnknown)),
	}
}

// group writes one operation or caller.
func (w *csvWriter) group(name string, other bool, g *analytics.Group) {
	cells := append([]string{name, strconv.FormatBool(other)}, figuresCells(g.Figures)...)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		cell := ""
		if p := percentile(&g.Ages, q); p != nil {
			cell = secondsText(*p)
		}
		cells = append(cells, cell)
	}
	var codes []string
	for _, r := range g.Read() {
		codes = append(codes, r.Code)
	}
	w.row(append(cells, strings.Join(codes, " "))...)
}

func secondsText(seconds float64) string { return strconv.FormatFloat(seconds, 'f', -1, 64) }
