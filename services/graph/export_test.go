package graph

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// MeasuresEvery sets the time between two counts of what is pending and queued.
func (c *Config) MeasuresEvery(d time.Duration) { c.measure = d }

// HasFree sets what the disks report as their room in bytes, of 1 TiB.
func (c *Config) HasFree(free func() uint64) {
	c.Disk = func(string) (vfs.DiskUsage, error) {
		return vfs.DiskUsage{AvailBytes: free(), TotalBytes: 1 << 40, UsedBytes: 1<<40 - free()}, nil
	}
}

// Taken returns what the watches of all realms keep, and the number of places that requests to all
// realms have.
func (s *Service) Taken() (watch.Usage, int) { return s.watches.Usage(), s.requests.Used() }

// SinceDropped lets the last request have been dropped so long ago.
func (s *Service) SinceDropped(age time.Duration) {
	s.dropped.mu.Lock()
	defer s.dropped.mu.Unlock()
	s.dropped.last = clock.SinceBoot() - age
}

// UnusableEntries are the entries of an archive that were passed over.
type UnusableEntries = unusableEntries

// Add records another one.
func (u unusableEntries) Add(name string, err error) (message string, due bool) {
	return u.add(name, err)
}

// NewRefusals returns the function that counts refused requests to a realm.
func NewRefusals(r prometheus.Registerer, realm string) func(actor, verb string, reason api.Reason, n int) {
	return newMetrics(r).of(realm).refused.count
}
