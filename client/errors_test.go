package client_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/onceward/onceward/client"
)

// foreignError is what another copy of this package, of another minor version,
// would return: another type, the same method (B081).
type foreignError struct{ code string }

func (e *foreignError) Error() string        { return "as another version words it" }
func (e *foreignError) OncewardCode() string { return e.code }
func (e *foreignError) Is(target error) bool {
	t, ok := target.(interface{ OncewardCode() string })
	return ok && t.OncewardCode() == e.code
}

// foreignCode is its sentinel.
type foreignCode string

func (c foreignCode) Error() string        { return string(c) }
func (c foreignCode) OncewardCode() string { return string(c) }

func TestErrorsAreToldApartByCodeAlone(t *testing.T) {
	t.Parallel()
	own := fmt.Errorf("pay: %w", errors.Join(errors.New("other"), &client.Error{Code: client.ErrInProgress, Detail: "in words"}))
	if !errors.Is(own, client.ErrInProgress) || errors.Is(own, client.ErrMismatch) || client.CodeOf(own) != client.ErrInProgress {
		t.Errorf("%v is not in_progress alone", own)
	}
	if !errors.Is(own, foreignCode("in_progress")) {
		t.Error("another copy's sentinel does not match an error of this one")
	}
	foreign := fmt.Errorf("pay: %w", &foreignError{"lease_lost"})
	if client.CodeOf(foreign) != client.ErrLeaseLost || !errors.Is(foreign, client.ErrLeaseLost) || errors.Is(foreign, client.ErrInProgress) || client.OutOfReach(foreign) {
		t.Errorf("the code of another copy's error is %q", string(client.CodeOf(foreign)))
	}
	if client.CodeOf(errors.New("other")) != "" || client.CodeOf(nil) != "" {
		t.Error("an error without a code has one")
	}
}

func TestALeaseTokenDoesNotPrint(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	acquired := &client.Acquired{ID: "id", Lease: client.Grant{Token: "s3cret"}}
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", acquired.Lease.Token, "held", acquired.Held())
	for _, text := range []string{fmt.Sprint(acquired.Lease.Token), fmt.Sprintf("%+v %#v %v %q", acquired.Held(), acquired.Held(), acquired.Lease, acquired.Lease.Token), log.String()} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("the token is printed: %s", text)
		}
	}
}
