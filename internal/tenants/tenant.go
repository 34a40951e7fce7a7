package tenants

import (
	"context"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// The limits of a new tenant (wire contract, section 6), and how far an
// operator may move them.
const (
	DefaultMinRetention = time.Hour
	DefaultMaxRetention = 30 * 24 * time.Hour
	DefaultBodyLimit    = 1 << 20 // bytes

	longestRetention = 10 * 365 * 24 * time.Hour
	largestBodyLimit = 16 << 20

	maxNameLength   = 100 // characters
	minReasonLength = 3
	maxReasonLength = 500
)

// State says whether a tenant's calls are answered.
type State string

// The states of a tenant.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended"
	StateDeleting  State = "deleting" // its credentials are refused; its rows are being removed
)

// Tenant is a customer as the operator sees it.
type Tenant struct {
	ID              auth.TenantID
	Name            string
	State           State
	SuspendedReason string // empty unless suspended
	MinRetention    time.Duration
	MaxRetention    time.Duration
	BodyLimit       int // bytes
	PolicyVersion   int64
	CreatedAt       time.Time
	// DeleteAfter is when the removal of its rows begins; zero unless it is
	// being deleted. DeletedRows is how far the removal is.
	DeleteAfter time.Time
	DeletedRows int64
	// Grace is how long a shortening of existing records waits before it starts.
	Grace  time.Duration
	Limits Limits
}

// CreateParams describes a tenant to be made.
type CreateParams struct {
	// ID is for a caller that must find the tenant again without having kept
	// anything; zero makes a random one.
	ID   auth.TenantID
	Name string // 1 to 100 characters
	// MinRetention and MaxRetention bound every retention of the tenant, in
	// whole seconds; zero is the default of an hour and of 30 days. A maximum is
	// at most ten years.
	MinRetention, MaxRetention time.Duration
	// BodyLimit is the largest stored body, 1 byte to 16 MiB; zero is 1 MiB.
	BodyLimit int

	// Set by CreateWithAdmin alone.
	grace  time.Duration
	limits Limits
	admin  auth.Key // of its first admin credential; zero makes none
}

func (p CreateParams) withDefaults() CreateParams {
	if p.MinRetention == 0 {
		p.MinRetention = DefaultMinRetention
	}
	if p.MaxRetention == 0 {
		p.MaxRetention = DefaultMaxRetention
	}
	if p.BodyLimit == 0 {
		p.BodyLimit = DefaultBodyLimit
	}
	if p.limits.NewKeysPerMinute == 0 {
		p.grace, p.limits.NewKeysPerMinute = defaultGrace, defaultNewKeys
	}
	return p
}

func (p CreateParams) validate() error {
	var v fieldErrors
	v.name("/name", p.Name)
	if !wholeSeconds(p.MinRetention) || p.MinRetention < time.Second || p.MinRetention > longestRetention {
		v.add("/min_retention_seconds", "whole seconds, from 1 to %d", int64(longestRetention.Seconds()))
	}
	if !wholeSeconds(p.MaxRetention) || p.MaxRetention < p.MinRetention || p.MaxRetention > longestRetention {
		v.add("/max_retention_seconds", "whole seconds, from the minimum to %d", int64(longestRetention.Seconds()))
	}
	if p.BodyLimit < 1 || p.BodyLimit > largestBodyLimit {
		v.add("/body_limit_bytes", "1 to %d", largestBodyLimit)
	}
	return v.err()
}

// Create makes a tenant with a secret of its own and no namespace, credential
// or policy. Who may do so is the caller's affair.
// It returns problem.InvalidRequest, and problem.NameTaken where the ID is in
// use; names of tenants need not differ.
func (s *Service) Create(ctx context.Context, params CreateParams) (Tenant, error) {
	made, _, err := s.create(ctx, params)
	return made, err
}

// create makes the tenant, and its first admin credential where params have a
// key for it: both or neither.
func (s *Service) create(ctx context.Context, params CreateParams) (Tenant, auth.Credential, error) {
	params = params.withDefaults()
	if err := params.validate(); err != nil {
		return Tenant{}, auth.Credential{}, err
	}
	if params.ID == (auth.TenantID{}) {
		id, err := uuid.NewRandomFromReader(s.random)
		if err != nil {
			return Tenant{}, auth.Credential{}, problem.Internal(fmt.Errorf("make a tenant id: %w", err))
		}
		params.ID = auth.TenantID(id)
	}
	var secret [32]byte
	if _, err := io.ReadFull(s.random, secret[:]); err != nil {
		return Tenant{}, auth.Credential{}, problem.Internal(fmt.Errorf("make a tenant secret: %w", err))
	}
	tenant, admin, err := s.rows.InsertTenant(ctx, params, secret, s.entry("tenant.create"))
	s.snapshots.Forget(params.ID)
	return tenant, admin, err
}

// Tenant returns the tenant; problem.NotFound where there is none.
func (s *Service) Tenant(ctx context.Context, id auth.TenantID) (Tenant, error) {
	return s.rows.Tenant(ctx, id)
}

// Suspend stops an active tenant's begins and administration on every process
// within 5 s; calls on leases that are held go on. The reason, 3 to 500
// characters, is shown to the tenant's callers. A suspended tenant gets the new
// reason; one that is being deleted is problem.NotFound.
func (s *Service) Suspend(ctx context.Context, id auth.TenantID, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	entry := s.entry("tenant.suspend")
	entry.Reason = reason
	return s.rows.SetState(ctx, id, StateSuspended, &reason, entry)
}

// Reactivate ends a suspension. An active tenant stays active; one that is
// being deleted is problem.NotFound.
func (s *Service) Reactivate(ctx context.Context, id auth.TenantID) error {
	return s.rows.SetState(ctx, id, StateActive, nil, s.entry("tenant.reactivate"))
}

func checkReason(reason string) error {
	var v fieldErrors
	if n := utf8.RuneCountInString(reason); !isText(reason) || n < minReasonLength || n > maxReasonLength {
		v.add("/reason", "%d to %d characters of UTF-8 without controls", minReasonLength, maxReasonLength)
	}
	return v.err()
}

// entry begins the audit entry of a change by this Service's actor.
func (s *Service) entry(action string) audit.Entry {
	return audit.Entry{Actor: s.actor, Action: action}
}

func wholeSeconds(d time.Duration) bool { return d%time.Second == 0 }
