package graph

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/dustin/go-humanize"
	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/datadir"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/archiver"
)

// Bounds of a measurement of the archive, which lists its entries.
const (
	measureArchiveAgain = time.Minute
	measureFailedAgain  = 5 * time.Second
	measureArchiveTime  = 3 * time.Second
)

// archiveSize is the size of the realm's entries in the archive when they were listed last.
type archiveSize struct {
	at             time.Time
	bytes, entries uint64
	err            error
}

// storage measures what the realm takes on disks.
func (r *following) storage(ctx context.Context) (*coppicev1.Storage, error) {
	e, err := r.events.Extent(ctx)
	if err != nil {
		return nil, err
	}
	keep := r.state.Settings().LogRetention
	s := &coppicev1.Storage{LogBytes: e.Bytes, StateBytes: r.state.Metrics().DiskSpaceUsage(), Archived: r.archive != nil}
	if usage, err := r.c.Disk(r.c.Dir); err == nil {
		s.DiskBytes, s.DiskFreeBytes = usage.TotalBytes, usage.AvailBytes
	}
	if r.archive == nil {
		return s, nil
	}
	due := archiver.DueOf(keep, e.FirstTime)
	s.CutAtBytes = due.Bytes
	if !due.At.IsZero() {
		s.CutAt = due.At.UnixMicro()
	}
	if due.Is(e.Bytes, r.time.Now()) {
		s.CutWaits, _ = r.uncut()
	}
	s.ArchiveRetention = r.archiveRetention().String()
	size := r.archiveSize(ctx)
	s.ArchiveBytes, s.ArchiveEntries = size.bytes, size.entries
	if size.err != nil {
		s.ArchiveError = size.err.Error()
	}
	return s, nil
}

// archiveSize lists the entries of the realm in the archive, unless that was done just before: clients cannot have them
// listed more often.
func (r *following) archiveSize(ctx context.Context) (size archiveSize) {
	r.measuring.Lock()
	defer r.measuring.Unlock()
	again := measureArchiveAgain
	if r.measured.err != nil {
		again = measureFailedAgain
	}
	if !r.measured.at.IsZero() && time.Since(r.measured.at) < again {
		return r.measured
	}
	ctx, cancel := context.WithTimeout(ctx, measureArchiveTime)
	defer cancel()
	size.at = time.Now()
	bytes, entries, err := archive.Size(ctx, r.archive, realmID(r.state.Checkpoint()))
	size.bytes, size.entries, size.err = uint64(bytes), uint64(entries), err
	r.measured = size
	return size
}

// diskUsage returns what the disk of a directory has.
func diskUsage(dir string) (vfs.DiskUsage, error) { return datadir.FS().GetDiskUsage(dir) }

// fullAt is the part of a disk from which on a warning says that it becomes full.
const fullAt = 0.85

// diskCheck warns of a disk that becomes full.
type diskCheck struct {
	r      *following
	warned time.Time
}

// check warns, at most once in warnAgain, if the disk of the state, on which the log and the archive may be too, is almost
// full. What is reserved for the administrator of the system does not count, as in df.
func (c *diskCheck) check() {
	usage, err := c.r.c.Disk(c.r.c.Dir)
	if err != nil || usage.AvailBytes+usage.UsedBytes == 0 {
		return
	}
	c.r.metrics.disk(c.r.state.Metrics().DiskSpaceUsage(), usage)
	used := float64(usage.UsedBytes) / float64(usage.UsedBytes+usage.AvailBytes)
	if used < fullAt || time.Since(c.warned) < warnAgain {
		return
	}
	c.warned = time.Now()
	what := fmt.Sprintf("the disk of %s is %.0f%% full: %s are free; make room, or lower logRetention and archiveRetention of its realms (coppice realm describe shows what a realm takes)",
		c.r.c.Dir, 100*used, humanize.IBytes(usage.AvailBytes))
	c.r.log.Warn(what)
	if id, err := uuid.FromBytes(c.r.state.Checkpoint().GetRealmId()); err == nil {
		c.r.warner.DiskFilling(uid.FromUUID(id), what)
	}
}
