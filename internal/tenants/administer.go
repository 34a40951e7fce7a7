package tenants

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// DeletionGrace is how long a deletion can be undone before anything goes.
const DeletionGrace = 72 * time.Hour

// Limits are what a tenant may use; a nil member is not limited.
type Limits struct {
	RequestsPerSecond *int64 // over all processes
	NewKeysPerMinute  int64  // of one caller in one namespace, over all processes
	LiveRecords       *int64
	StoredBytes       *int64
	// Of each namespace, and of each caller but the empty one in each namespace,
	// over all processes.
	NamespaceRequestsPerSecond *int64
	CallerRequestsPerSecond    *int64
}

// LimitsPatch changes the limits of a tenant; a nil member stays as it is. In
// the members that can be without a limit, -1 takes it away.
type LimitsPatch struct {
	Name              *string
	MinRetention      *time.Duration
	MaxRetention      *time.Duration
	BodyLimit         *int // bytes
	Grace             *time.Duration
	RequestsPerSecond *int64
	NewKeysPerMinute  *int64
	LiveRecords       *int64
	StoredBytes       *int64

	NamespaceRequestsPerSecond *int64
	CallerRequestsPerSecond    *int64
}

const (
	// Unlimited in a LimitsPatch takes a limit away.
	Unlimited    = -1
	largestLimit = 1 << 50
	longestGrace = 7 * 24 * time.Hour
	mostRequests = 1_000_000

	defaultGrace   = 15 * time.Minute
	defaultNewKeys = 600
)

// changing is a tenant while it is changed.
type changing struct {
	Tenant
	deleteIn    time.Duration // of a change that begins its deletion
	undeletable bool          // it is being deleted, and that can still be undone
}

// apply makes the tenant what the patch says.
func (p LimitsPatch) apply(t *changing) error {
	var v fieldErrors
	if p.Name != nil {
		v.name("/name", *p.Name)
		t.Name = *p.Name
	}
	set(&t.MinRetention, p.MinRetention)
	set(&t.MaxRetention, p.MaxRetention)
	set(&t.BodyLimit, p.BodyLimit)
	set(&t.Grace, p.Grace)
	whole := CreateParams{Name: "x", MinRetention: t.MinRetention, MaxRetention: t.MaxRetention, BodyLimit: t.BodyLimit}
	if err := whole.validate(); err != nil {
		v = append(v, problem.From(err).Fields...)
	}
	if !wholeSeconds(t.Grace) || t.Grace < 0 || t.Grace > longestGrace {
		v.add("/grace_seconds", "whole seconds, from 0 to %d", int64(longestGrace.Seconds()))
	}
	limit := func(pointer string, to **int64, from *int64, least, most int64) {
		switch {
		case from == nil:
		case *from == Unlimited:
			*to = nil
		case *from < least || *from > most:
			v.add(pointer, "%d to %d, or -1 for no limit", least, most)
		default:
			*to = from
		}
	}
	limit("/requests_per_second", &t.Limits.RequestsPerSecond, p.RequestsPerSecond, 1, mostRequests)
	limit("/namespace_requests_per_second", &t.Limits.NamespaceRequestsPerSecond, p.NamespaceRequestsPerSecond, 1, mostRequests)
	limit("/caller_requests_per_second", &t.Limits.CallerRequestsPerSecond, p.CallerRequestsPerSecond, 1, mostRequests)
	limit("/max_live_records", &t.Limits.LiveRecords, p.LiveRecords, 0, largestLimit)
	limit("/max_stored_bytes", &t.Limits.StoredBytes, p.StoredBytes, 0, largestLimit)
	if n := p.NewKeysPerMinute; n != nil {
		if *n < 1 || *n > mostRequests {
			v.add("/new_keys_per_minute", "1 to %d", mostRequests)
		}
		t.Limits.NewKeysPerMinute = *n
	}
	return v.err()
}

// firstAdmin is the name of the credential that a new tenant gets.
const firstAdmin = "first admin"

// CreateWithAdmin makes a tenant with the defaults of Create but for what the
// patch sets, its name being required, and its first admin credential, in one
// transaction. Nobody can read the key again. Kinds: invalid_request.
func (s *Service) CreateWithAdmin(ctx context.Context, patch LimitsPatch) (Tenant, auth.Credential, auth.Key, error) {
	wanted := &changing{Tenant: Tenant{
		MinRetention: DefaultMinRetention, MaxRetention: DefaultMaxRetention, BodyLimit: DefaultBodyLimit,
		Grace: defaultGrace, Limits: Limits{NewKeysPerMinute: defaultNewKeys},
	}}
	if patch.Name == nil {
		patch.Name = new("") // refused with whatever else is wrong
	}
	if err := patch.apply(wanted); err != nil {
		return Tenant{}, auth.Credential{}, auth.Key{}, err
	}
	key, err := auth.NewKey(s.random)
	if err != nil {
		return Tenant{}, auth.Credential{}, auth.Key{}, problem.Internal(err)
	}
	made, admin, err := s.create(ctx, CreateParams{
		Name: wanted.Name, MinRetention: wanted.MinRetention, MaxRetention: wanted.MaxRetention, BodyLimit: wanted.BodyLimit,
		grace: wanted.Grace, limits: wanted.Limits, admin: key,
	})
	if err != nil {
		return Tenant{}, auth.Credential{}, auth.Key{}, err
	}
	return made, admin, key, nil
}

// ChangeLimits changes a tenant's name and limits. Policies outside of limits
// that were narrowed count as the nearer limit; records stay as they are.
// Kinds: invalid_request, not_found.
func (s *Service) ChangeLimits(ctx context.Context, id auth.TenantID, patch LimitsPatch) (Tenant, error) {
	after, err := s.rows.ChangeTenant(ctx, id, s.entry("tenant.change"), patch.apply)
	s.snapshots.Forget(id)
	return after, err
}

// List returns the next tenants after the given one, by id; the zero id begins.
func (s *Service) List(ctx context.Context, after auth.TenantID, limit int) (list []Tenant, more bool, err error) {
	return s.rows.Tenants(ctx, after, limit)
}

// Delete begins the deletion of a suspended tenant whose name is repeated: its
// credentials are refused from now on, and after DeletionGrace everything of it
// goes. Repeating it changes nothing. Kinds: invalid_request for another name,
// not_suspended, not_found.
func (s *Service) Delete(ctx context.Context, id auth.TenantID, name string) (Tenant, error) {
	after, err := s.rows.ChangeTenant(ctx, id, s.entry("tenant.delete"), func(t *changing) error {
		switch {
		case t.Name != name:
			var v fieldErrors
			v = append(v, problem.Field{Parameter: "name", Reason: "is required, and must be the tenant's name: a deletion cannot be undone once its grace is over"})
			return v.err()
		case t.State == StateActive:
			return problem.New(problem.NotSuspended, "The tenant is active. Suspend it first, so that its users learn of it while it can be undone.")
		case t.State == StateSuspended:
			t.State, t.deleteIn = StateDeleting, DeletionGrace
		}
		return nil
	})
	s.snapshots.Forget(id)
	return after, err
}

// Undelete takes back a deletion whose grace is not over: the tenant is
// suspended as before. Kinds: not_found, also where it is not being deleted or
// its rows are going already.
func (s *Service) Undelete(ctx context.Context, id auth.TenantID) (Tenant, error) {
	after, err := s.rows.ChangeTenant(ctx, id, s.entry("tenant.undelete"), func(t *changing) error {
		if t.State != StateDeleting || !t.undeletable {
			return tenantNotFound()
		}
		t.State, t.DeleteAfter = StateSuspended, time.Time{}
		return nil
	})
	s.snapshots.Forget(id)
	return after, err
}
