package settings_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/settings"
)

type whole int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *whole) UnmarshalText(text []byte) error {
	n, err := settings.Whole(text, 1, 9)
	*w = whole(n)
	return err
}

type config struct {
	settings.Database
	Below

	Number whole           `env:"T_NUMBER" envDefault:"3" unit:"things" help:"how many"`
	On     settings.Switch `env:"T_ON" unit:"true or false" help:"whether"`
	Text   string          `env:"T_TEXT" unit:"text" help:"what"`
	Secret string          `env:"T_SECRET,file" secret:"true" unit:"path" help:"file with it"`

	inside int
}

// Below is embedded.
type Below struct {
	Addr settings.ListenAddr `env:"T_ADDR" envDefault:":1" unit:"host:port" help:"where"`
}

func written(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(environ ...string) (config, []string) {
	var cfg config
	var said []string
	for _, err := range settings.Read(environ, &cfg) {
		said = append(said, err.Error())
	}
	slices.Sort(said)
	return cfg, said
}

func TestVariablesAreReadWithTheirDefaults(t *testing.T) {
	t.Parallel()
	path := written(t, "s3cret\n")
	cfg, faults := read("T_NUMBER=7", "T_ON=TRUE", "T_TEXT= ", "T_SECRET="+path, "T_ADDR=")
	if len(faults) > 0 || cfg.Number != 7 || !bool(cfg.On) || cfg.Text != "" || cfg.Secret != "s3cret\n" || cfg.Addr != ":1" || cfg.inside != 0 {
		t.Errorf("%+v, %v", cfg, faults)
	}
}

func TestThereIsOneSentenceForEachFault(t *testing.T) {
	t.Parallel()
	missing, empty := filepath.Join(t.TempDir(), "missing"), written(t, "")
	for _, tt := range []struct {
		environ []string
		want    []string // how they begin, in the order of the alphabet
	}{
		{[]string{"T_NUMBER=0"}, []string{`T_NUMBER is "0": give a whole number from 1 to 9`}},
		{[]string{"T_NUMBER=1e3", "T_ON=1"}, []string{`T_NUMBER is "1e3": `, `T_ON is "1": give true or false`}},
		{[]string{"T_ADDR=x"}, []string{`T_ADDR is "x": give host:port`}},
		{[]string{"T_SECRET=" + missing}, []string{"T_SECRET names a file that cannot be read: "}},
		{[]string{"T_SECRET=a s3cret"}, []string{"T_SECRET names a file that cannot be read: no such file"}},
		{[]string{"T_SECRET=" + empty}, []string{"T_SECRET names a file with nothing in it"}},
	} {
		_, got := read(tt.environ...)
		if len(got) != len(tt.want) {
			t.Errorf("%v: %q, want %q", tt.environ, got, tt.want)
			continue
		}
		for i, sentence := range got {
			if !strings.HasPrefix(sentence, tt.want[i]) || strings.Contains(sentence, "\n") {
				t.Errorf("%v: %q, want %q", tt.environ, sentence, tt.want[i])
			}
		}
	}
}

func TestTheDatabaseHasOneSource(t *testing.T) {
	t.Parallel()
	const databaseURL = "postgres://ann:hunter2@db/shop"
	path := written(t, "\n "+databaseURL+" \n")
	inText, inFile := "ONCEWARD_DATABASE_URL="+databaseURL, "ONCEWARD_DATABASE_URL_FILE="+path
	fault := errors.New("it is odd")
	for _, tt := range []struct {
		environ []string
		check   error
		want    string // how the sentence begins; empty: it is taken
	}{
		{[]string{inText}, nil, ""},
		{[]string{inFile}, nil, ""},
		{nil, nil, "ONCEWARD_DATABASE_URL is not set: "},
		{[]string{inText, inFile}, nil, "ONCEWARD_DATABASE_URL and ONCEWARD_DATABASE_URL_FILE are both set: keep one"},
		{[]string{inText}, fault, "ONCEWARD_DATABASE_URL cannot be read: it is odd"},
		{[]string{inFile}, fault, "ONCEWARD_DATABASE_URL_FILE cannot be read: it is odd"},
		{[]string{"ONCEWARD_DATABASE_URL_FILE=" + path + "x"}, nil, "ONCEWARD_DATABASE_URL_FILE names a file that cannot be read: "},
	} {
		var cfg config
		faults := settings.Read(tt.environ, &cfg)
		faults = cfg.Database.Check(faults, func(string) error { return tt.check })
		switch {
		case tt.want == "" && (len(faults) > 0 || cfg.Database.URL() != databaseURL):
			t.Errorf("%v: %q, %v", tt.environ, cfg.Database.URL(), faults)
		case tt.want != "" && (len(faults) != 1 || !strings.HasPrefix(faults[0].Error(), tt.want)):
			t.Errorf("%v: %v, want %q", tt.environ, faults, tt.want)
		}
		if text := fmt.Sprintf("%v %+v %#v %v", cfg, cfg, cfg, faults); strings.Contains(text, "hunter2") {
			t.Errorf("%v: shown: %s", tt.environ, text)
		}
	}
}

func TestSecretsAreSaidToBeSetAndNotShown(t *testing.T) {
	t.Parallel()
	cfg, faults := read("ONCEWARD_DATABASE_URL=postgres://ann:hunter2@db/shop", "T_SECRET="+written(t, "hunter2"), "T_NUMBER=8")
	var out strings.Builder
	if err := settings.Show(&out, cfg); err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	want := []string{
		"ONCEWARD_DATABASE_URL [set]", "ONCEWARD_DATABASE_URL_FILE not set", "T_ADDR :1", "T_NUMBER 8", "T_ON false", "T_TEXT not set", "T_SECRET [set]",
	}
	if diff := cmp.Diff(lines(out.String()), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestHelpHasALineForEachVariable(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := settings.Help(&out, config{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"T_ADDR :1 host:port where", "T_NUMBER 3 things how many", "T_ON - true or false whether", "T_TEXT - text what", "T_SECRET - path file with it"}
	if diff := cmp.Diff(lines(out.String())[2:], want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// lines are those of a table, with one blank between its cells.
func lines(text string) (list []string) {
	for line := range strings.Lines(text) {
		list = append(list, strings.Join(strings.Fields(line), " "))
	}
	return list
}
