package graph

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/replay"
)

// skip counts a message that is no commit.
func (r *withLog) skip(position uint64, why string) { r.skipAll(position, 1, why) }

// skipAll counts messages that are no commits, the last of which is at a position.
func (r *withLog) skipAll(position, n uint64, why string) {
	r.metrics.all.skipped.WithLabelValues(r.name).Add(float64(r.skips.Add(position, n, why)))
}

// reportSkipped logs that messages were skipped, and warns of it in the stream of
// warnings. Every replica does: one that follows the log sees such a message at once,
// the writer with its next commit. The stream keeps the last warning.
func (r *withLog) reportSkipped(s replay.Skipped) {
	const advice = "find the user that publishes to the log's subject, and revoke the permission; `coppice events` lists the skipped messages"
	r.log.Warn("skipped messages in the log that are no commits of the realm: "+advice, "messages", s.Messages, "sequence", s.Last, "reason", s.Why)
	id, err := uuid.FromBytes(r.state.Checkpoint().GetRealmId())
	if err != nil {
		return // the realm has no commit, and so no id
	}
	r.warner.Skipped(uid.FromUUID(id), fmt.Sprintf("skipped %d messages in the log that are no commits of the realm, the last at sequence %d: %s; %s",
		s.Messages, s.Last, s.Why, advice))
}
