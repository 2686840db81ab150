package graph

import (
	"fmt"
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
	r      *following
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
	reason, known := c.r.uncut()
	if !known {
		reason += "; if this warning lasts while commits come, the archive does not keep up: see the metric coppice_graph_archived_revision and warnings of the realm's other graph services"
	}
	c.r.log.Warn("the log is larger than its retention", "bytes", e.Bytes, "retention", keep.String(), "reason", reason)
	if id, err := uuid.FromBytes(c.r.state.Checkpoint().GetRealmId()); err == nil {
		c.r.warner.Uncut(uid.FromUUID(id), fmt.Sprintf("the log has %s, and its retention is %s: %s", humanize.IBytes(e.Bytes), keep, reason))
	}
}

// uncut says why the log is not cut. If this process does not know that, it says when commits are cut.
func (r *following) uncut() (reason string, known bool) {
	if r.archive == nil {
		return "only archived commits are cut, and this graph service has no archive: start it with --archive, or keep everything with coppice realm set " + r.name + " logRetention=all", true
	}
	if f := r.unarchived.Load(); f != nil && time.Since(f.at) < failureLasts {
		return "only archived commits are cut, and the log cannot be archived: " + f.err.Error(), true
	}
	return "commits are cut when they are 3 minutes older than the newest commit and a verified snapshot covers them, in an idle realm after its next commit", false
}
