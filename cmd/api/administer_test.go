package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
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

func TestTheSigningKeysOfALostSecretAreForgotten(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: strings.TrimPrefix(s.environ[0], "ONCEWARD_DATABASE_URL="), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	keySet := func(secret byte) error {
		keys, err := auth.KeysInDatabase(pool, [32]byte{secret})
		if err != nil {
			t.Fatal(err)
		}
		_, err = auth.NewTokens(keys, "onceward", audit.NewLog(pool)).KeySet(t.Context())
		return err
	}
	if err := keySet(1); err != nil {
		t.Fatal(err)
	}
	if err := keySet(2); err == nil || !strings.Contains(err.Error(), "api token reset") {
		t.Errorf("under another secret: %v, want it to name the way out", err)
	}
	if out, failure := s.run(t, "token", "reset"); out != "" || !strings.Contains(failure, "ONCEWARD_JWT_SECRET") {
		t.Errorf("without a secret: %q, %q", out, failure)
	}
	for _, want := range []int{1, 0} {
		var done struct{ Deleted int }
		with := shell{append(s.environ, "ONCEWARD_JWT_SECRET="+base64.StdEncoding.EncodeToString(append([]byte{2}, make([]byte, 31)...)))}
		if with.must(t, &done, "token", "reset"); done.Deleted != want {
			t.Errorf("%d deleted, want %d", done.Deleted, want)
		}
		if err := keySet(2); err != nil {
			t.Errorf("after it: %v", err)
		}
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
