package graph

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// archiveFailure is the last failure of this process to archive the log, and when it was.
type archiveFailure struct {
	at  time.Time
	err error
}

// failureLasts is the time for which a failure to archive counts as the reason for a log that
// is larger than its retention. Each is tried again within a minute.
const failureLasts = 2 * time.Minute

// sizeCheck warns of a log that is larger than its retention.
type sizeCheck struct {
	r      *realm
	failed *atomic.Pointer[archiveFailure]
	warned time.Time
}

// check warns, at most once in warnAgain, if the stream is larger than the retention of the log
// and this process is the writer. The realm goes on.
func (c *sizeCheck) check(e *eventlog.Extent) {
	keep := c.r.state.Settings().LogRetention
	if int64(e.Bytes) <= keep.MostBytes() || c.r.phase.Load() != phaseWriter || time.Since(c.warned) < warnAgain {
		return
	}
	c.warned = time.Now()
	reason := c.reason()
	c.r.log.Warn("the log is larger than its retention", "bytes", e.Bytes, "retention", keep.String(), "reason", reason)
	if id, err := uuid.FromBytes(c.r.state.Checkpoint().GetRealmId()); err == nil {
		c.r.warner.Uncut(uid.FromUUID(id), fmt.Sprintf("the log has %s, and its retention is %s: %s", humanize.IBytes(e.Bytes), keep, reason))
	}
}

// reason says why the log is not cut, if this process knows it.
func (c *sizeCheck) reason() string {
	if c.r.archive == nil {
		return "only archived commits are cut, and this graph service has no archive: start it with --archive, or keep everything with coppice realm set " + c.r.name + " logRetention=all"
	}
	if f := c.failed.Load(); f != nil && time.Since(f.at) < failureLasts {
		return "only archived commits are cut, and the log cannot be archived: " + f.err.Error()
	}
	return "commits are cut when they are 3 minutes older than the newest commit and a verified snapshot covers them, in an idle realm after its next commit; if this warning lasts while commits come, the archive does not keep up: " +
		"see the metric coppice_graph_archived_revision and warnings of the realm's other graph services"
}
