package onceward_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	inline   = regexp.MustCompile("`[^`]*`")
	heading  = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	testName = regexp.MustCompile("`(Test\\w+)`")
	pageLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
)

// Every link of a page to a file of ours leads to one, and to a heading that it
// has; every guide is in the list of docs/README.md.
func TestEveryLinkOfAPageLeadsSomewhere(t *testing.T) {
	t.Parallel()
	if faults := brokenLinks(t, os.DirFS(".")); len(faults) > 0 {
		t.Errorf("%s", strings.Join(faults, "\n"))
	}
	index, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	guides, err := fs.Glob(os.DirFS("docs"), "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, guide := range guides {
		if guide != "README.md" && !strings.Contains(string(index), "]("+guide+")") {
			t.Errorf("docs/README.md does not lead to %s", guide)
		}
	}
}

// Every test that test/README.md names is there: a test that was renamed takes
// its row along.
func TestEveryTestThatIsNamedIsThere(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("test/README.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	err = fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && isForeign(entry.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		for _, found := range testFunc.FindAllSubmatch(source, -1) {
			there[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := testName.FindAllSubmatch(table, -1)
	if len(names) < 100 {
		t.Errorf("test/README.md names %d tests: they have gone where this test does not look", len(names))
	}
	for _, name := range names {
		if !there[string(name[1])] {
			t.Errorf("test/README.md names %s, which is not there", name[1])
		}
	}
}

func TestABrokenLinkIsFound(t *testing.T) {
	t.Parallel()
	pages := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md":   "# A\n[b](docs/b.md#one-two) [c](docs/c.md) [d](docs/b.md#three) [e](https://example.com/x.md) [f](../outside.md)",
		"docs/b.md":   "## One, two\n[a](../README.md#a)\n```\n## three\n[x](nowhere.md)\n```\n`[y](nowhere.md)` [z](#one-two) [w](#a)",
		"bin/skip.md": "[x](nowhere.md)",
	} {
		pages[name] = &fstest.MapFile{Data: []byte(text)}
	}
	want := []string{
		"README.md: docs/c.md is not there",
		"README.md: docs/b.md has no heading #three",
		"README.md: ../outside.md is not there",
		"docs/b.md: docs/b.md has no heading #a",
	}
	if diff := cmp.Diff(brokenLinks(t, pages), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// brokenLinks has a sentence for each link of a Markdown file that leads nowhere.
func brokenLinks(t *testing.T, from fs.FS) (faults []string) {
	t.Helper()
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && isForeign(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		source, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		text := inline.ReplaceAllString(fenced.ReplaceAllString(string(source), ""), "")
		for _, found := range pageLink.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			if fault := brokenLink(from, name, found[1]); fault != "" {
				faults = append(faults, name+": "+fault)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return faults
}

// brokenLink says what a link from a page lacks, "" if nothing.
func brokenLink(from fs.FS, page, link string) string {
	file, fragment, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = path.Join(path.Dir(page), file)
	}
	if _, err := fs.Stat(from, target); err != nil {
		return target + " is not there"
	}
	if fragment == "" {
		return ""
	}
	text, err := fs.ReadFile(from, target)
	if err != nil {
		return err.Error()
	}
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		if anchor(found[1]) == fragment {
			return ""
		}
	}
	return fmt.Sprintf("%s has no heading #%s", target, fragment)
}

// anchor is how a heading is named in an address: in lower case, with hyphens
// for blanks, and without what is no letter, digit, hyphen or underscore.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ' || r == '-':
			return '-'
		case r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, strings.TrimSpace(heading))
}
