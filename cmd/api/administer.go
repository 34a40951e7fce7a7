package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// command is one of the command line beside serving. It ends when it is done,
// and writes one JSON document to out.
type command struct {
	words string // as they are typed, such as tenant create
	does  string // one line of the help
	// flags declares the flags and returns what runs once they are parsed.
	flags func(*flag.FlagSet) func(context.Context, *administration, io.Writer) error
}

// administration is what the commands administer with, in the name of
// audit.Local.
type administration struct {
	tenants     *tenants.Service
	credentials *auth.Credentials
	pool        *pgxpool.Pool
	jwtSecret   jwtSecret // empty where none is set
	logger      *slog.Logger
}

func newAdministration(pool *pgxpool.Pool, cfg config, logger *slog.Logger) (*administration, error) {
	service, err := tenants.New(pool)
	if err != nil {
		return nil, fmt.Errorf("set up tenants: %w", err)
	}
	return &administration{service, auth.NewCredentials(pool, nil), pool, cfg.sealingSecret(), logger}, nil
}

// commands are those of the command line, in the order of the help.
func commands() []command {
	return []command{
		{"migrate up", "bring the database's schema up to date", migrateUp},
		{"migrate status", "show each level of the schema, applied or pending", migrateStatus},
		{"migrate down", "take the last level of the schema back, which is named again, with what it holds", migrateDown},
		{"tenant create", "make a tenant and its first admin credential, whose secret is shown once", tenantCreate},
		{"tenant list", "list all tenants", tenantList},
		{"tenant suspend", "stop a tenant's begins and administration; what it holds can be finished", tenantSuspend},
		{"tenant reactivate", "end a suspension", tenantReactivate},
		{"tenant delete", "delete a suspended tenant after a grace of 72 h; its name is repeated", tenantDelete},
		{"credential issue", "issue a credential of a tenant, whose secret is shown once", credentialIssue},
		{"credential revoke", "end a credential of a tenant", credentialRevoke},
		{"token reset", "delete the signing keys that ONCEWARD_JWT_SECRET does not open, after the one that did is lost", tokenReset},
	}
}

// isOfSchema finds the commands that need no schema yet.
func (c *command) isOfSchema() bool { return strings.HasPrefix(c.words, "migrate ") }

// isGroup says whether the word is the first of a command of two.
func isGroup(word string) bool {
	return slices.ContainsFunc(commands(), func(c command) bool { return strings.HasPrefix(c.words, word+" ") })
}

// group lists the second words of a group.
func group(word string) string {
	var list []string
	for _, c := range commands() {
		if second, ok := strings.CutPrefix(c.words, word+" "); ok {
			list = append(list, second)
		}
	}
	return strings.Join(list, ", ")
}

// findCommand reads the words before the first flag.
func findCommand(args []string) (found *command, rest []string) {
	if len(args) < 2 {
		return nil, nil
	}
	words := args[0] + " " + args[1]
	for _, c := range commands() {
		if c.words == words {
			return &c, args[2:]
		}
	}
	return nil, nil
}

// parse reads the flags of a command. errHelp says that help was asked for,
// and has been written to out.
func (c *command) parse(args []string, out io.Writer) (run func(context.Context, *administration, io.Writer) error, err error) {
	set := flag.NewFlagSet("api "+c.words, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	run = c.flags(set)
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(out, "api %s: %s\n\nFlags:\n", c.words, c.does) //nolint:errcheck // nothing can be done about a help that nobody reads
		set.SetOutput(out)
		set.PrintDefaults()
		return nil, flag.ErrHelp
	case err != nil:
		return nil, fmt.Errorf("api %s: %w", c.words, err)
	case set.NArg() > 0:
		return nil, fmt.Errorf("api %s: %q is one argument too many; every value has its flag", c.words, set.Arg(0))
	}
	return run, nil
}

// told turns a problem into a sentence for a terminal.
func told(err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		return err
	}
	if p.Kind == problem.KindInternal || p.Kind == problem.KindUnavailable {
		return p
	}
	for _, f := range p.Fields {
		return fmt.Errorf("%s%s: %s", f.Pointer, f.Parameter, f.Reason)
	}
	return errors.New(p.Detail)
}

func show(out io.Writer, value any) error {
	if err := json.MarshalWrite(out, value); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

type shownTenant struct {
	ID              string        `json:"id"`
	Name            string        `json:"name"`
	State           tenants.State `json:"state"`
	SuspendedReason string        `json:"suspended_reason,omitzero"`
	DeleteAfter     time.Time     `json:"delete_after,omitzero"`
}

func shownTenantOf(t tenants.Tenant) shownTenant {
	return shownTenant{t.ID.String(), t.Name, t.State, t.SuspendedReason, t.DeleteAfter}
}

type shownCredential struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Role      auth.Role `json:"role"`
	Namespace string    `json:"namespace,omitzero"`
	Secret    string    `json:"secret"`
}

func shownCredentialOf(c auth.Credential, key auth.Key) shownCredential {
	shown := shownCredential{ID: string(c.ID), Name: c.Name, Role: c.Role, Secret: key.Reveal()}
	if c.Namespace != (auth.NamespaceID{}) {
		shown.Namespace = c.Namespace.String()
	}
	return shown
}

// uuidFlag reads a UUID.
type uuidFlag struct{ id uuid.UUID }

func (u *uuidFlag) String() string {
	if u.id == (uuid.UUID{}) {
		return ""
	}
	return u.id.String()
}

// Set implements flag.Value.
func (u *uuidFlag) Set(text string) (err error) {
	u.id, err = uuid.Parse(text)
	return err
}

func tenantFlag(set *flag.FlagSet) *uuidFlag {
	var id uuidFlag
	set.Var(&id, "tenant", "id of the tenant; required")
	return &id
}

func tenantCreate(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	name := set.String("name", "", "name of the tenant, 1 to 100 characters; required")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		made, credential, key, err := a.tenants.CreateWithAdmin(ctx, tenants.LimitsPatch{Name: name})
		if err != nil {
			return err
		}
		return show(out, struct {
			Tenant     shownTenant     `json:"tenant"`
			Credential shownCredential `json:"credential"`
		}{shownTenantOf(made), shownCredentialOf(credential, key)})
	}
}

func tenantList(*flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	return func(ctx context.Context, a *administration, out io.Writer) error {
		const page = 200
		all := []shownTenant{}
		for after, more := (auth.TenantID{}), true; more; {
			var list []tenants.Tenant
			var err error
			if list, more, err = a.tenants.List(ctx, after, page); err != nil {
				return err
			}
			for _, t := range list {
				all, after = append(all, shownTenantOf(t)), t.ID
			}
		}
		return show(out, all)
	}
}

// showTenant shows a tenant after what was done to it.
func showTenant(ctx context.Context, a *administration, id uuid.UUID, out io.Writer) error {
	t, err := a.tenants.Tenant(ctx, auth.TenantID(id))
	if err != nil {
		return err
	}
	return show(out, shownTenantOf(t))
}

func tenantSuspend(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	id := tenantFlag(set)
	reason := set.String("reason", "", "shown to the tenant's callers, 3 to 500 characters; required")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		if err := a.tenants.Suspend(ctx, auth.TenantID(id.id), *reason); err != nil {
			return err
		}
		return showTenant(ctx, a, id.id, out)
	}
}

func tenantReactivate(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	id := tenantFlag(set)
	return func(ctx context.Context, a *administration, out io.Writer) error {
		if err := a.tenants.Reactivate(ctx, auth.TenantID(id.id)); err != nil {
			return err
		}
		return showTenant(ctx, a, id.id, out)
	}
}

func tenantDelete(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	id := tenantFlag(set)
	name := set.String("name", "", "name of the tenant, repeated; required")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		t, err := a.tenants.Delete(ctx, auth.TenantID(id.id), *name)
		if err != nil {
			return err
		}
		return show(out, shownTenantOf(t))
	}
}

func credentialIssue(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	id := tenantFlag(set)
	name := set.String("name", "", "name of the credential, unique in the tenant; required")
	role := set.String("role", "", "service, ops, resolver or admin; required")
	var namespace uuidFlag
	set.Var(&namespace, "namespace", "id of the namespace of a service credential")
	created := set.String("create-namespace", "", "name of a namespace to be made for a service credential, in place of naming one")
	keyScope := set.String("key-scope", "operation", "of the namespace that is made: operation or namespace; it never changes")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		params := auth.IssueParams{Name: *name, Role: auth.Role(*role), Namespace: auth.NamespaceID(namespace.id)}
		if *created != "" {
			params.CreateNamespace = &auth.NewNamespace{Name: *created, KeyScope: *keyScope}
		}
		credential, key, err := a.credentials.Issue(ctx, auth.TenantID(id.id), params)
		if err != nil {
			return err
		}
		return show(out, shownCredentialOf(credential, key))
	}
}

func credentialRevoke(set *flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	id := tenantFlag(set)
	credential := set.String("credential", "", "id of the credential, the 16 characters after owk_; required")
	return func(ctx context.Context, a *administration, out io.Writer) error {
		parsed, ok := auth.ParseCredentialID(*credential)
		if !ok {
			return errors.New("-credential is no id of a credential: give the 16 characters after owk_")
		}
		if err := a.credentials.Revoke(ctx, auth.TenantID(id.id), parsed); err != nil {
			return err
		}
		return show(out, map[string]string{"revoked": string(parsed)})
	}
}

func tokenReset(*flag.FlagSet) func(context.Context, *administration, io.Writer) error {
	return func(ctx context.Context, a *administration, out io.Writer) error {
		if a.jwtSecret == "" {
			return errors.New("neither ONCEWARD_JWT_SECRET nor ONCEWARD_JWT_SECRET_FILE is set: set the one that is to hold from now on")
		}
		deleted, err := auth.ForgetSealedKeys(ctx, a.pool, a.jwtSecret.bytes())
		if err != nil {
			return err
		}
		return show(out, map[string]int{"deleted": deleted})
	}
}
