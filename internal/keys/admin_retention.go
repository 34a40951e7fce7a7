package keys

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// Retentions moves the end of records that exist. It implements
// tenants.Records.
type Retentions struct{ rows *adminStore }

// NewRetentions works on the records of pool.
func NewRetentions(pool *pgxpool.Pool) *Retentions { return &Retentions{&adminStore{pool: pool}} }

// PreviewRetention counts what the plan would do to the tenant's records.
// Kinds: unavailable, internal.
func (r *Retentions) PreviewRetention(ctx context.Context, tenant auth.TenantID, plan tenants.Plan) (tenants.Affected, error) {
	affected, err := r.rows.PreviewRetention(ctx, tenant, plan)
	if err != nil {
		return tenants.Affected{}, translate(err)
	}
	return affected, nil
}

// ApplyRetention moves expires_at of the tenant's next records. Kinds:
// unavailable, internal.
func (r *Retentions) ApplyRetention(ctx context.Context, tenant auth.TenantID, plan tenants.Plan, exact bool, after uuid.UUID, most int) (tenants.Step, error) {
	step, err := r.rows.ApplyRetention(ctx, tenant, plan, exact, after, most)
	if err != nil {
		return tenants.Step{}, translate(err)
	}
	return step, nil
}
