package keys

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// inlineBodyBytes is the largest body that is read together with its row;
	// a read of maxBatch rows carries at most 16 MiB of bodies so.
	inlineBodyBytes = 32 << 10
	// bodySliceBytes bounds one read of the bodies that are larger, and the bodies
	// that one batch writes.
	bodySliceBytes = 16 << 20
)

// store runs the statements of this package. tenant_id stands in each of them,
// and namespace_id wherever a service credential asks; a foreign tenant or
// namespace sees no row. Its errors are the driver's: the service translates.
// What changes a record is sent through a sender, alone or with a batch.
type store struct{ pool *pgxpool.Pool }

const fenceNow = `(extract(epoch from now()) * 1000000)::bigint`

const sqlReadRows = `
select u.place, ` + rowColumns + `
from unnest($2::uuid[], $3::uuid[], $4::uuid[]) with ordinality as u(tenant_id, id, namespace_id, place)
join idempotency_keys k on k.tenant_id = u.tenant_id and k.id = u.id and k.namespace_id = coalesce(u.namespace_id, k.namespace_id)`

// readRows returns the records, expired or not; nil where there is none in
// the tenant and namespace (zero: any namespace of the tenant). A record that
// is named twice is read once.
func readRows(ctx context.Context, via sender, refs []ref) ([]*row, error) {
	places := make(map[ref]int, len(refs))
	var asked columns
	for _, at := range refs {
		if _, known := places[at]; !known {
			places[at] = len(asked.ids)
			asked.tenants = append(asked.tenants, at.tenant)
			asked.ids = append(asked.ids, at.id)
			asked.anyNamespaces = append(asked.anyNamespaces, nullNamespace(at.namespace))
		}
	}
	found := make([]*row, len(asked.ids))
	batch := &pgx.Batch{}
	batch.Queue(sqlReadRows, inlineBodyBytes, asked.tenants, asked.ids, asked.anyNamespaces).Query(func(rows pgx.Rows) error {
		_, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (struct{}, error) {
			var place int
			r, err := scanRow(from, &place)
			if err == nil {
				found[place-1] = r
			}
			return struct{}{}, err
		})
		return err
	})
	if err := via.send(ctx, batch); err != nil {
		return nil, err
	}
	all := make([]*row, len(refs))
	for i, at := range refs {
		all[i] = found[places[at]]
	}
	return all, nil
}
