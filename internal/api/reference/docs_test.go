package reference

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	apispec "github.com/onceward/onceward/api"
	"github.com/onceward/onceward/internal/problem"
)

func sortStrings(less func(a, b string) bool) cmp.Option { return cmpopts.SortSlices(less) }

// embedded is the document as it is.
func embedded(tb testing.TB) *tree {
	tb.Helper()
	return parsed(tb, string(apispec.YAML()))
}

func parsed(tb testing.TB, source string) *tree {
	tb.Helper()
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(source), &root); err != nil {
		tb.Fatal(err)
	}
	return &tree{root: root.Content[0]}
}

func TestTheDocsBeginWithTheRuleAndHaveTheirPartsInOrder(t *testing.T) {
	t.Parallel()
	body := get(t, server(t, base), "/docs").Body
	parts := []string{
		`id="rule"`, "<b>201</b> <span>run it</span>", "<b>200</b> <span>replay, do not run</span>", "<b>anything else</b> <span>do not run</span>",
		base, `id="quick-start"`, `id="words"`, `id="states"`, `id="fingerprint"`, `id="rules-for-every-call"`, `id="what-it-does-not-promise"`, `id="errors"`, `id="op-begin"`,
		`id="op-complete"`, `id="op-renew"`, `id="op-beginBatch"`, `id="op-getContract"`, `id="op-healthz"`,
	}
	main := body[strings.Index(body, "<main"):]
	at := 0
	for _, part := range parts {
		i := strings.Index(main[at:], part)
		if i < 0 {
			t.Fatalf("%q is missing, or not in its place", part)
		}
		at += i
	}
}

func TestEveryLinkOfThePagesLeadsSomewhere(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	docs := get(t, h, "/docs").Body
	ids := make(map[string]bool)
	for _, found := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(docs, -1) {
		if ids[found[1]] {
			t.Errorf("the anchor %s is there twice", found[1])
		}
		ids[found[1]] = true
	}
	pages := map[string]string{"docs": docs}
	for _, entry := range problem.Table() {
		pages["problems/"+string(entry.Kind)] = get(t, h, "/problems/"+string(entry.Kind)).Body
	}
	pages["problems/none"] = get(t, h, "/problems/none").Body
	href := regexp.MustCompile(`href="([^"]*)"`)
	for page, body := range pages {
		for _, found := range href.FindAllStringSubmatch(body, -1) {
			link := strings.TrimPrefix(found[1], "../")
			if strings.HasPrefix(page, "problems/") && link == found[1] {
				link = "problems/" + link
			}
			path, fragment, hasFragment := strings.Cut(link, "#")
			if path == "" {
				path = page
			}
			if hasFragment && (path != "docs" || !ids[fragment]) {
				t.Errorf("%s: the link %s leads nowhere", page, found[1])
			}
			if status := get(t, h, "/"+path).StatusCode; status != http.StatusOK {
				t.Errorf("%s: the link %s answers %d", page, found[1], status)
			}
		}
	}
}

// Elements that HTML closes by itself, such as a paragraph before a list, would
// make another page of it than was meant.
func TestTheHTMLIsNestedAsItIsWritten(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	tag := regexp.MustCompile(`<(/?)([a-z][a-z0-9]*)[^>]*>`)
	blocks := []string{"p", "div", "ul", "ol", "dl", "table", "details", "pre", "section", "article", "h1", "h2", "h3", "h4"}
	for _, path := range []string{"/docs", "/problems/in_progress", "/problems/none"} {
		var open []string
		for _, found := range tag.FindAllStringSubmatch(get(t, h, path).Body, -1) {
			closing, name := found[1] == "/", found[2]
			switch {
			case name == "meta" || name == "br" || name == "hr":
			case closing && (len(open) == 0 || open[len(open)-1] != name):
				t.Fatalf("%s: </%s> closes %v", path, name, open)
			case closing:
				open = open[:len(open)-1]
			default:
				if slices.Contains(blocks, name) && slices.Contains(open, "p") {
					t.Fatalf("%s: <%s> in a paragraph: %v", path, name, open)
				}
				open = append(open, name)
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: %v are not closed", path, open)
		}
	}
}

func TestTheDocsShowEveryMemberWithItsLimits(t *testing.T) {
	t.Parallel()
	r := &reader{tree: embedded(t), markdown: newMarkdown()}
	schemas := r.tree.get(r.tree.root, "components", "schemas")
	begin, err := r.shape(own(schemas, "BeginRequest"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range begin.Members {
		line := m.Name + ": " + m.Type
		if m.Required {
			line += ", required"
		}
		for _, l := range m.Limits {
			line += ", " + strings.TrimSpace(l.Text+" "+l.Code)
		}
		got = append(got, line)
	}
	want := []string{
		`key: string, required, 8 to 255 characters, matches ^[\x21-\x7E][\x20-\x7E]{6,253}[\x21-\x7E]$`,
		`operation: string, 1 to 512 characters, matches ^[\x20-\x7E]+$`,
		`caller: string, 1 to 255 characters, matches ^[\x20-\x7E]+$`,
		`request: object`,
		`fingerprint: string, matches ^[0-9a-f]{64}$`,
		`owner: string, matches ^[A-Za-z0-9_-]{22,128}$`,
		`lease_seconds: integer, 1 to 3600`,
		`retention_seconds: integer, at least 1`,
		`on_lease_expiry: string, always hold`,
		`metadata: object, at most 16 members, names match ^[A-Za-z0-9_.-]{1,40}$`,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("the members of a begin (-got +want):\n%s", diff)
	}
	rules := []string{
		"Exactly one of: <code>request</code>, or <code>fingerprint</code> with <code>operation</code>.",
		"With <code>on_lease_expiry</code> also <code>owner</code>.",
	}
	var gotRules []string
	for _, rule := range begin.Rules {
		gotRules = append(gotRules, string(rule))
	}
	if diff := cmp.Diff(gotRules, rules); diff != "" {
		t.Errorf("the rules of a begin (-got +want):\n%s", diff)
	}
}

func TestAShapeTakesInWhatItsSchemaIsMadeOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schema string
		want   string // type, limits, then members in brackets
	}{
		"a type or null":         {`{type: [integer, "null"], minimum: 200, maximum: 599}`, "integer or null; 200 to 599"},
		"an object or null":      {`{oneOf: [{$ref: "#/point"}, {type: "null"}]}`, "object or null [name: string]"},
		"anything":               {`{description: x}`, "any JSON"},
		"a list of strings":      {`{type: array, items: {type: string}}`, "array of strings"},
		"a list of choices":      {`{type: array, minItems: 1, uniqueItems: true, items: {enum: [a, b], type: string}}`, "array of strings; not empty; no entry twice; each one of a · b"},
		"a list of pairs":        {`{type: array, items: {type: array, minItems: 2, maxItems: 2, items: {type: string}}}`, "array of arrays of 2 strings"},
		"a list of objects":      {`{type: array, items: {$ref: "#/point"}}`, "array of objects [name: string]"},
		"an object of two parts": {`{allOf: [{$ref: "#/point"}], properties: {status: {type: integer}}}`, "object [status: integer, name: string]"},
		"a member that is narrowed": {
			`{allOf: [{$ref: "#/point"}], properties: {name: {const: charged}}}`, "object [name: string; always charged]",
		},
		"names of the caller's own": {`{type: object, additionalProperties: {type: string, maxLength: 3}}`, "object [any name: string; at most 3 characters]"},
		"a large number":            {`{type: integer, minimum: 1, maximum: 9007199254740991}`, "integer; 1 to 9\u202f007\u202f199\u202f254\u202f740\u202f991"},
		"bytes":                     {`{type: string, contentEncoding: base64, pattern: "^x$"}`, "string; base64"},
		"a time":                    {`{type: string, format: date-time, pattern: "^x$"}`, "string; date-time"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reader{tree: parsed(t, "point: {type: object, properties: {name: {type: string}}}\nschema: "+tt.schema), markdown: newMarkdown()}
			s, err := r.shape(own(r.tree.root, "schema"))
			if err != nil {
				t.Fatal(err)
			}
			if got := described(s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func described(s shape) string {
	out := s.Type
	for _, l := range s.Limits {
		out += "; " + strings.TrimSpace(l.Text+" "+l.Code)
	}
	var below []string
	for _, m := range s.Members {
		below = append(below, m.Name+": "+described(m.shape))
	}
	if len(below) > 0 {
		out += " [" + strings.Join(below, ", ") + "]"
	}
	return out
}

func TestAReferenceThatLeadsNowhereIsAnError(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"a: {$ref: '#/b'}\nb: {type: string}":                   "",
		"a: {$ref: '#/b'}\nb: {$ref: '#/c'}\nc: {type: string}": "",
		"a: {$ref: '#/x~1y/0'}\n'x/y': {'0': {}}":               "",
		"a: {$ref: '#/b'}":                                      "nowhere",
		"a: [{b: {$ref: 'other.yaml#/c'}}]":                     "nowhere",
		"a: {$ref: '#/a'}":                                      "circle",
		"a: {$ref: '#/b'}\nb: {$ref: '#/a'}":                    "circle",
	} {
		err := parsed(t, source).checkReferences()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
}

func TestYAMLBecomesTheJSONOfTheSameContent(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ source, want string }{
		"members in their order":       {"b: 1\na: {d: x, c: [1, 'two', null, ~, true, False]}", `{"b":1,"a":{"d":"x","c":[1,"two",null,null,true,false]}}`},
		"a name that looks like more":  {"200: ok\ntrue: yes\nnull: no", `{"200":"ok","true":"yes","null":"no"}`},
		"numbers with their digits":    {"[0, -1, 1.50, 1e3, 9007199254740993, 1E-7]", `[0,-1,1.50,1e3,9007199254740993,1E-7]`},
		"text that looks like numbers": {`["1", '0x10', "1.0", "null"]`, `["1","0x10","1.0","null"]`},
		"a version":                    {"3.1.0", `"3.1.0"`},
		"text of several lines":        {"|\n  one\n  two \"three\"\n", `"one\ntwo \"three\"\n"`},
		"letters and controls":         {`"\u00e9 \u2028 \x07 </script>"`, "\"é \u2028 \\u0007 </script>\""},
		"nothing":                      {"{a: {}, b: []}", `{"a":{},"b":[]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := toJSON(parsed(t, tt.source).root)
			if err != nil {
				t.Fatal(err)
			}
			if compact := compacted(t, got); compact != tt.want {
				t.Errorf("got  %s\nwant %s", compact, tt.want)
			}
		})
	}
}

func compacted(tb testing.TB, indented []byte) string {
	tb.Helper()
	var out bytes.Buffer
	for line := range bytes.Lines(indented) {
		out.Write(bytes.TrimSpace(line))
	}
	return strings.ReplaceAll(out.String(), `": `, `":`)
}

func TestYAMLThatJSONCannotSayIsAnError(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"a: 2026-11-29", "a: 0x10", "a: 0o17", "a: .inf", "a: .nan", "a: 1_000", "a: +1", "a: !!binary aGk=", "a: &x 1\nb: *x", "b: &x {c: 1}\na:\n  <<: *x",
		"? [a]\n: b", "a: 1\na: 2",
	} {
		var root yaml.Node
		err := yaml.Unmarshal([]byte(source), &root)
		if err == nil {
			_, err = toJSON(&root)
		}
		if err == nil {
			t.Errorf("%q is taken", source)
		}
	}
}

func TestAnExampleIsLaidOutForReading(t *testing.T) {
	t.Parallel()
	source := `{key: 8b3f4c19, headers: [[Content-Type, application/json]], lease: {token: AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE, fence: 1795971562123456}, none: {}, null_: null}`
	want := `{
  "key": "8b3f4c19",
  "headers": [["Content-Type", "application/json"]],
  "lease": {
    "token": "AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE",
    "fence": 1795971562123456
  },
  "none": {},
  "null_": null
}`
	got, err := layOut(parsed(t, source).root, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestDescriptionsAreMarkdownWithoutHTML(t *testing.T) {
	t.Parallel()
	m := newMarkdown()
	for source, want := range map[string]string{
		"Only `this`.":                      "Only <code>this</code>.",
		"a < b & **c**":                     "a &lt; b &amp; <strong>c</strong>",
		"one\n\ntwo":                        "<p>one</p>\n<p>two</p>\n",
		"<script>alert(1)</script>":         "<!-- raw HTML omitted -->\n",
		"[x](javascript:alert(1))":          `<a href="">x</a>`,
		"| a |\n| :-: |\n| b |":             "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>b</td>\n</tr>\n</tbody>\n</table>\n",
		"an <i onclick='x'>element</i> in ": "an <!-- raw HTML omitted -->element<!-- raw HTML omitted --> in",
	} {
		got, err := m.inline(source)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%q\ngot  %q\nwant %q", source, got, want)
		}
	}
}
