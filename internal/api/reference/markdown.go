package reference

import (
	"bytes"
	"html/template"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

// markdown renders the descriptions, which OpenAPI says are CommonMark. It
// leaves raw HTML out, and writes no style into an element, which the policy of
// the pages would refuse.
type markdown struct{ goldmark.Markdown }

func newMarkdown() markdown {
	return markdown{goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	)}
}

// newGuideMarkdown gives headings the anchors to which guides link, too.
func newGuideMarkdown() markdown {
	return markdown{goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)}
}

// blocks renders paragraphs, lists and tables.
func (m markdown) blocks(source string) (template.HTML, error) {
	var out bytes.Buffer
	if err := m.Convert([]byte(source), &out); err != nil {
		return "", err
	}
	return template.HTML(out.String()), nil //nolint:gosec // of the embedded document; raw HTML in it is left out
}

// inline renders a text of one paragraph without the paragraph round it.
func (m markdown) inline(source string) (template.HTML, error) {
	html, err := m.blocks(source)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(html))
	inner, opened := strings.CutPrefix(text, "<p>")
	inner, closed := strings.CutSuffix(inner, "</p>")
	if !opened || !closed || strings.Contains(inner, "<p>") {
		return html, nil
	}
	return template.HTML(inner), nil //nolint:gosec // as in blocks
}

// section is a part of the introduction under its own heading.
type section struct {
	ID    string
	Title string
	Body  template.HTML
}

// sections cuts a text at its second-level headings. What stands before the
// first is the opening.
func (m markdown) sections(source string) (opening template.HTML, list []section, err error) {
	parts := strings.Split("\n"+source, "\n## ")
	if opening, err = m.blocks(parts[0]); err != nil {
		return "", nil, err
	}
	for _, part := range parts[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		body, err := m.blocks(rest)
		if err != nil {
			return "", nil, err
		}
		list = append(list, section{ID: anchor(title), Title: title, Body: body})
	}
	return opening, list, nil
}

// anchor makes a fragment of a title: lower case, hyphens for blanks.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r == ' ', r == '-':
			return '-'
		default:
			return -1
		}
	}, strings.ToLower(title))
}
