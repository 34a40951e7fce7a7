package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// shell runs commands on one database.
type shell struct{ environ []string }

func newShell(t *testing.T) shell {
	t.Helper()
	return shell{[]string{"ONCEWARD_DATABASE_URL=" + postgrestest.NewURL(t)}}
}

// run returns what was written, or the error's text.
func (s shell) run(t *testing.T, args ...string) (out string, failure string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), args, s.environ, &stdout, &stderr); err != nil {
		return stdout.String(), err.Error()
	}
	return stdout.String(), ""
}

func (s shell) must(t *testing.T, into any, args ...string) {
	t.Helper()
	out, failure := s.run(t, args...)
	if failure != "" {
		t.Fatalf("%v: %s", args, failure)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

func TestATenantsLifeOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	var made struct {
		Tenant     shownTenant
		Credential shownCredential
	}
	s.must(t, &made, "tenant", "create", "-name", "acme")
	id := made.Tenant.ID
	var issued shownCredential
	s.must(t, &issued, "credential", "issue", "-tenant", id, "-name", "backend", "-role", "service", "-create-namespace", "live")
	if issued.Namespace == "" || !strings.HasPrefix(issued.Secret, "owk_"+issued.ID) {
		t.Errorf("issued %+v", issued)
	}
	var list []shownTenant
	s.must(t, &list, "tenant", "list")
	if len(list) != 1 || list[0] != made.Tenant || list[0].State != "active" {
		t.Errorf("the list is %+v", list)
	}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"tenant", "create"}, "/name"},
		{[]string{"tenant", "delete", "-tenant", id, "-name", "acme"}, "not suspended"},
		{[]string{"tenant", "suspend", "-tenant", id}, "/reason"},
		{[]string{"tenant", "suspend", "-tenant", "x", "-reason", "unpaid"}, "-tenant"},
		{[]string{"tenant", "suspend", "-tenant", id, "-reason", "unpaid", "now"}, "one argument too many"},
		{[]string{"tenant", "destroy"}, "no command"},
		{[]string{"credential", "revoke", "-tenant", id, "-credential", made.Credential.ID}, "last admin"},
		{[]string{"credential", "revoke", "-tenant", id, "-credential", "owk"}, "16 characters"},
		{[]string{"credential", "issue", "-tenant", id, "-name", "x", "-role", "service"}, "/namespace"},
	} {
		if out, failure := s.run(t, tt.args...); !strings.Contains(failure, tt.says) && !strings.Contains(failure, strings.ReplaceAll(tt.says, "not suspended", "Suspend it first")) || out != "" {
			t.Errorf("%v: %q, %q, want it to say %q", tt.args, out, failure, tt.says)
		}
	}
	var after shownTenant
	s.must(t, &after, "tenant", "suspend", "-tenant", id, "-reason", "unpaid")
	if after.State != "suspended" || after.SuspendedReason != "unpaid" {
		t.Errorf("suspended into %+v", after)
	}
	s.must(t, &after, "tenant", "delete", "-tenant", id, "-name", "acme")
	if after.State != "deleting" || after.DeleteAfter.IsZero() {
		t.Errorf("deleted into %+v", after)
	}
}

func TestEveryCommandHasItsHelpAndStandsInTheWhole(t *testing.T) {
	t.Parallel()
	var whole bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, nil, &whole, &whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands() {
		if !strings.Contains(whole.String(), "api "+c.words+" ") {
			t.Errorf("%s is not in the help", c.words)
		}
		var out bytes.Buffer
		if err := run(t.Context(), append(strings.Fields(c.words), "--help"), nil, &out, &out); err != nil || !strings.Contains(out.String(), c.does) {
			t.Errorf("%s -help: %v: %s", c.words, err, out.String())
		}
	}
}

func TestTheConfigurationIsShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	secret := "b25jZXdhcmQgc2VhbHMgaXRzIGtleXMgd2l0aCB0aGk="
	environ := []string{
		"ONCEWARD_DATABASE_URL=postgres://u:a-password@h/db", "ONCEWARD_JWT_SECRET=" + secret, "ONCEWARD_OPERATOR_TOKEN=" + strings.Repeat("t", 32),
		"ONCEWARD_LISTEN_ADDR=:9999",
	}
	if err := run(t.Context(), []string{"config"}, environ, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{"a-password", secret, "tttt", "onceward seals"} {
		if strings.Contains(out.String(), hidden) {
			t.Errorf("shown: %s", hidden)
		}
	}
	for _, shown := range []string{":9999", "ONCEWARD_JWT_SECRET            [set]", "ONCEWARD_JWT_ISSUER"} {
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), strings.Join(strings.Fields(shown), " ")) {
			t.Errorf("%s is not in\n%s", shown, out.String())
		}
	}
}
