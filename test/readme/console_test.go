//go:build unix

package readme_test

import (
	"fmt"
	"slices"
	"strings"
)

// A page shows what to type and what comes of it:
//
//	```console
//	$ a command
//	> and more lines of it
//	what it prints
//	```
//
// The commands of all such blocks make one session, in their order. A line …
// stands for any number of lines.
const (
	opensBlock  = "```console"
	closesBlock = "```"
	anyLines    = "…"
)

// command is one of a page, and what the page says that it prints.
type command struct {
	line int // of the page
	text string
	want []string
}

// exempt says of a command that it is not tried: it brings about what the test
// has brought about, or takes a network.
func (c command) exempt() bool {
	return slices.Contains([]string{"make run", "make test"}, c.text) || strings.HasPrefix(c.text, "git clone ")
}

// commandsOf reads the commands of a page.
func commandsOf(page string) (commands []command, err error) {
	inside, isText := false, false // of a block, and of the text of a command
	for n, line := range strings.Split(page, "\n") {
		line = strings.TrimSuffix(line, "\r")
		text, isCommand := strings.CutPrefix(line, "$ ")
		more, isMore := strings.CutPrefix(line, "> ")
		switch {
		case !inside:
			inside, isText = line == opensBlock, false
		case line == closesBlock:
			inside = false
		case isCommand:
			commands, isText = append(commands, command{line: n + 1, text: text}), true
		case len(commands) == 0:
			return nil, fmt.Errorf("line %d: a block begins with a command, not with %q", n+1, line)
		case isText && isMore:
			commands[len(commands)-1].text += "\n" + more
		default:
			isText = false
			last := &commands[len(commands)-1]
			last.want = append(last.want, line)
		}
	}
	if inside {
		return nil, fmt.Errorf("the last block is not closed by %s", closesBlock)
	}
	return commands, nil
}

// matches says whether lines are what a page says that they are.
func matches(got, want []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == anyLines:
		return matches(got, want[1:]) || len(got) > 0 && matches(got[1:], want)
	default:
		return len(got) > 0 && got[0] == want[0] && matches(got[1:], want[1:])
	}
}

// script is the session as a shell script. After every command it prints the
// mark on a line of its own.
func script(commands []command, mark string) string {
	var text strings.Builder
	text.WriteString("exec 2>&1\n")
	for _, c := range commands {
		if !c.exempt() {
			text.WriteString(c.text + "\n")
		}
		fmt.Fprintf(&text, "printf '\\n%%s\\n' '%s'\n", mark)
	}
	return text.String()
}

// outputs divides what a session has printed at the marks: the lines of each
// command. They are fewer than the commands where the session ended early.
func outputs(printed, mark string) (lines [][]string) {
	parts := strings.Split(printed, "\n"+mark+"\n")
	for _, part := range parts[:len(parts)-1] { // nothing is printed after the last mark
		var of []string
		if part != "" {
			of = strings.Split(strings.TrimSuffix(part, "\n"), "\n")
		}
		lines = append(lines, of)
	}
	return lines
}
