package analytics

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
)

const (
	// maxNames is how many operations, and how many callers, of a tenant are
	// counted by name on one UTC day, over all processes. The rest count
	// under other.
	maxNames = 1_000
	// maxCachedNames bounds what a process remembers of them, about 30 MB; past
	// it everything is forgotten and read again as it is needed.
	maxCachedNames = 200_000
)

// nameKind says what a name names; the number is stored.
type nameKind int16

const (
	kindLock      nameKind = 0 // the row that a flush locks; its name is empty
	kindOperation nameKind = 1
	kindCaller    nameKind = 2
)

// tenantDay is where names are capped.
type tenantDay struct {
	tenant auth.TenantID
	day    int64 // since 1970, UTC
}

func (k seriesKey) tenantDay() tenantDay { return tenantDay{k.tenant, k.minute / (24 * 60)} }

func (t tenantDay) compare(o tenantDay) int {
	return cmp.Or(bytes.Compare(t.tenant[:], o.tenant[:]), cmp.Compare(t.day, o.day))
}

// nameCache is what is known to be registered. It is used by one goroutine at
// a time.
type nameCache struct {
	days map[tenantDay]*dayNames
	size int
}

type dayNames struct {
	names  map[nameKind]map[string]struct{}
	series map[uuid.UUID]struct{}
}

func newNameCache() *nameCache { return &nameCache{days: make(map[tenantDay]*dayNames)} }

func (c *nameCache) day(at tenantDay) *dayNames {
	d := c.days[at]
	if d == nil {
		d = &dayNames{
			names:  map[nameKind]map[string]struct{}{kindOperation: {}, kindCaller: {}},
			series: make(map[uuid.UUID]struct{}),
		}
		c.days[at] = d
	}
	return d
}

func (c *nameCache) add(at tenantDay, kind nameKind, name string) {
	names := c.day(at).names[kind]
	if _, known := names[name]; !known {
		names[strings.Clone(name)] = struct{}{}
		c.size++
	}
}

func (c *nameCache) addSeries(at tenantDay, id uuid.UUID) {
	series := c.day(at).series
	if _, known := series[id]; !known {
		series[id] = struct{}{}
		c.size++
	}
}

// has says whether the name is registered. The empty caller is nobody's name
// and needs no place.
func (c *nameCache) has(at tenantDay, kind nameKind, name string) bool {
	if name == "" {
		return true
	}
	d := c.days[at]
	if d == nil {
		return false
	}
	_, known := d.names[kind][name]
	return known
}

func (c *nameCache) full(at tenantDay, kind nameKind) bool {
	d := c.days[at]
	return d != nil && len(d.names[kind]) >= maxNames
}

func (c *nameCache) hasSeries(at tenantDay, id uuid.UUID) bool {
	d := c.days[at]
	if d == nil {
		return false
	}
	_, known := d.series[id]
	return known
}

// fold is the series under which key is counted: names that are not
// registered are other.
func (c *nameCache) fold(key seriesKey) series {
	s, at := key.series, key.tenantDay()
	if !c.has(at, kindOperation, s.operation) {
		s.operation, s.otherOperation = "", true
	}
	if !c.has(at, kindCaller, s.caller) {
		s.caller, s.otherCaller = "", true
	}
	return s
}

// merge adds what a committed flush has registered, and forgets the days
// before the newest two.
func (c *nameCache) merge(fresh *nameCache) {
	if c.size+fresh.size > maxCachedNames {
		*c = *newNameCache()
	}
	var newest int64
	for at, d := range fresh.days {
		newest = max(newest, at.day)
		for kind, names := range d.names {
			for name := range names {
				c.add(at, kind, name)
			}
		}
		for id := range d.series {
			c.addSeries(at, id)
		}
	}
	for at, d := range c.days {
		if at.day < newest-1 {
			c.size -= len(d.names[kindOperation]) + len(d.names[kindCaller]) + len(d.series)
			delete(c.days, at)
		}
	}
}

// missing lists the names of the window, by tenant and day in order, that are
// not known to be registered and may yet be.
func (w *window) missing(known *nameCache) (days []tenantDay, names map[tenantDay]*dayNames) {
	want := newNameCache()
	for key := range w.counts {
		at := key.tenantDay()
		for kind, name := range map[nameKind]string{kindOperation: key.operation, kindCaller: key.caller} {
			if !known.has(at, kind, name) && !known.full(at, kind) {
				want.add(at, kind, name)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(want.days), tenantDay.compare), want.days
}
