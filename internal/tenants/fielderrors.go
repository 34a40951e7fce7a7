package tenants

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/problem"
)

// fieldErrors collects what is wrong with a request, so that one answer names
// all of it.
type fieldErrors []problem.Field

func (v *fieldErrors) add(pointer, format string, args ...any) {
	*v = append(*v, problem.Field{Pointer: pointer, Reason: fmt.Sprintf(format, args...)})
}

func (v fieldErrors) err() error {
	if len(v) == 0 {
		return nil
	}
	return problem.Invalid(v...)
}

func (v *fieldErrors) name(pointer, name string) {
	if n := utf8.RuneCountInString(name); !isText(name) || n < 1 || n > maxNameLength {
		v.add(pointer, "a name is 1 to %d characters of UTF-8 without controls", maxNameLength)
	}
}

func oneOf[T ~string](v *fieldErrors, pointer string, value *T, allowed ...T) {
	if value == nil || slices.Contains(allowed, *value) {
		return
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		words[i] = string(a)
	}
	v.add(pointer, "one of %s", strings.Join(words, ", "))
}

func (v *fieldErrors) headerNames(pointer string, names *[]string) {
	if names == nil {
		return
	}
	if len(*names) > maxHeaderNames {
		v.add(pointer, "at most %d names", maxHeaderNames)
		return
	}
	for i, name := range *names {
		if len(name) > maxHeaderNameBytes || !isToken(name) {
			v.add(pointer+"/"+strconv.Itoa(i), "a header name (RFC 9110 token) of at most %d bytes", maxHeaderNameBytes)
		}
	}
}

func (v *fieldErrors) pointers(pointer string, pointers *[]string) {
	if pointers == nil {
		return
	}
	if len(*pointers) > maxIgnorePointers {
		v.add(pointer, "at most %d pointers", maxIgnorePointers)
		return
	}
	for i, p := range *pointers {
		if !isPointer(p) {
			v.add(pointer+"/"+strconv.Itoa(i), "a JSON pointer (RFC 6901), such as /metadata/sent_at, of at most %d bytes", maxPointerBytes)
		}
	}
}

// isText is UTF-8 without controls: what can stand in a list or a log.
func isText(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

func isUTF8WithoutNUL(text string) bool {
	return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0
}
