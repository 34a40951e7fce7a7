// Command stats prints how large the project's files and functions are, for
// `make stats`. It judges nothing: the hard limits are in architecture_test.go
// and .golangci.yml.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
)

const (
	largestShown = 5
	talkAbove    = 300 // lines of a file: reason for a talk
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := run(os.DirFS(root), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stats:", err)
		os.Exit(1)
	}
}

// sized is a file or function and its lines.
type sized struct {
	name  string
	lines int
}

// group is what is counted together.
type group struct {
	files, functions []sized
}

func run(root fs.FS, out io.Writer) error {
	var code, tests group
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && isForeign(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		into := &code
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(filepath.Dir(name), "test") {
			into = &tests
		}
		return into.add(root, name)
	})
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tfiles\tlines\tmedian file\tover 300\tfunctions\tmedian\tp90\t")
	for _, row := range []struct {
		name string
		of   group
	}{{"code", code}, {"tests", tests}} {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", row.name, len(row.of.files), total(row.of.files), quantile(row.of.files, 50),
			above(row.of.files, talkAbove), len(row.of.functions), quantile(row.of.functions, 50), quantile(row.of.functions, 90))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ntests : code = %.2f\n", float64(total(tests.files))/float64(max(1, total(code.files))))
	show(out, "largest files of code", code.files)
	show(out, "largest functions of code", code.functions)
	return nil
}

func isForeign(folder string) bool {
	return strings.HasPrefix(folder, ".") || slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, folder)
}

func (g *group) add(root fs.FS, name string) error {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	g.files = append(g.files, sized{name, strings.Count(string(source), "\n")})
	for _, declaration := range parsed.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
			lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
			g.functions = append(g.functions, sized{name + " " + f.Name.Name, lines})
		}
	}
	return nil
}

func total(list []sized) (lines int) {
	for _, s := range list {
		lines += s.lines
	}
	return lines
}

func above(list []sized, limit int) (n int) {
	for _, s := range list {
		if s.lines > limit {
			n++
		}
	}
	return n
}

func quantile(list []sized, percent int) int {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(list), func(a, b sized) int { return a.lines - b.lines })
	return sorted[(len(sorted)-1)*percent/100].lines
}

func show(out io.Writer, title string, list []sized) {
	fmt.Fprintf(out, "\n%s:\n", title)
	sorted := slices.SortedFunc(slices.Values(list), func(a, b sized) int { return b.lines - a.lines })
	for _, s := range sorted[:min(largestShown, len(sorted))] {
		fmt.Fprintf(out, "  %4d  %s\n", s.lines, s.name)
	}
}
