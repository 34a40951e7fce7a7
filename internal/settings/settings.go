// Package settings owns how a process is told what to do: it reads the
// environment into a struct of the process's own, says in one sentence for each
// variable what is wrong with it, and shows the variables, their defaults and
// what they come to, secrets masked.
//
// A field is a variable: `env` names it (",file": the value is what the named
// file holds), envDefault is its default, unit and help are what the process's
// help shows, and secret:"true" keeps the value from being shown. The variables
// themselves are the process's, but for those that every process has. It
// imports nothing of ours and reads nothing of the process: what it is given is
// all it knows.
package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/caarlos0/env/v11"
)

// Read sets the fields of the struct that into points to from environ
// (KEY=value). An empty variable counts as one that is not set. There is one
// error for each thing wrong, a sentence that begins with the variable and never
// has a value that may be secret.
func Read(environ []string, into any) (faults []error) {
	set := env.ToMap(environ)
	for name, value := range set {
		if strings.TrimSpace(value) == "" {
			delete(set, name)
		}
	}
	fields := fieldsOf(into)
	faults = sentences(env.ParseWithOptions(into, env.Options{Environment: set}), fields)
	if len(faults) > 0 {
		return faults
	}
	value := reflect.ValueOf(into).Elem()
	for _, f := range fields {
		if set[f.Name] != "" && f.file && value.FieldByIndex(f.index).IsZero() {
			faults = append(faults, fmt.Errorf("%s names a file with nothing in it", f.Name))
		}
	}
	return faults
}

// sentences says what the library found in terms of variables instead of fields.
func sentences(err error, fields []field) []error {
	if err == nil {
		return nil
	}
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return []error{err}
	}
	var list []error
	for _, e := range all.Errors {
		if parse, ok := errors.AsType[env.ParseError](e); ok {
			for _, f := range fields {
				if f.field == parse.Name {
					e = fmt.Errorf("%s %w", f.Name, parse.Err)
				}
			}
		} else if file, ok := errors.AsType[env.LoadFileContentError](e); ok {
			e = fmt.Errorf("%s names a file that cannot be read: %w", file.Key, WithoutPath(file.Err))
		}
		list = append(list, e)
	}
	return list
}

// WithoutPath is why a file cannot be read without the name that was given for
// it: where somebody gave the secret in place of its file, that is the secret.
func WithoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// Help lists the variables of the struct that cfg is or points to, one a line:
// name, default, unit and meaning.
func Help(w io.Writer, cfg any) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range Variables(cfg) {
		if _, err := fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", v.Name, v.Default, v.Unit, v.Help); err != nil {
			return err
		}
	}
	return table.Flush()
}

// Show lists what the variables have come to, one a line. Secrets are said to be
// set and not shown.
func Show(w io.Writer, cfg any) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	value := reflect.Indirect(reflect.ValueOf(cfg))
	for _, f := range fieldsOf(cfg) {
		held := value.FieldByIndex(f.index)
		shown := fmt.Sprint(held.Interface())
		switch {
		case f.Secret && !held.IsZero():
			shown = "[set]"
		case f.Secret || shown == "":
			shown = "not set"
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\n", f.Name, shown); err != nil {
			return err
		}
	}
	return table.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Variable is what a process's help says of one.
type Variable struct {
	Name, Default, Unit, Help string // Default, Unit: - for none
	Secret                    bool   // its value is never shown
}

// Variables are those of the struct that cfg is or points to, in its order.
func Variables(cfg any) (list []Variable) {
	for _, f := range fieldsOf(cfg) {
		list = append(list, f.Variable)
	}
	return list
}

// field is where the value of a variable goes.
type field struct {
	Variable

	field string
	file  bool // the value is what the named file holds
	index []int
}

// fieldsOf has those of embedded structs too.
func fieldsOf(cfg any) (fields []field) {
	t := reflect.TypeOf(cfg)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("env")
		if !ok || !f.IsExported() {
			continue
		}
		name, option, _ := strings.Cut(tag, ",")
		fields = append(fields, field{
			Variable: Variable{name, orDash(f.Tag.Get("envDefault")), orDash(f.Tag.Get("unit")), f.Tag.Get("help"), f.Tag.Get("secret") == "true"},
			field:    f.Name, file: option == "file", index: f.Index,
		})
	}
	return fields
}
