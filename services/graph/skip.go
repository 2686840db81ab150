package graph

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/uid"
)

// reportSkips is how often skipped messages are reported, at most.
const reportSkips = 10 * time.Second

// skips counts the messages in a realm's log that are no commits, and reports them:
// the first at once, those of the next 10 s together. It is safe for concurrent use.
type skips struct {
	report func(skipped) // is called for one goroutine at a time

	mu      sync.Mutex
	counted uint64 // the last position that was counted: what follows the last commit is read again when the writer changes
	pending skipped
	timer   *time.Timer // until pending may be reported; nil before the first report
	waiting bool        // for timer
}

// skipped is what a report says.
type skipped struct {
	messages uint64
	last     uint64 // position of the last of them
	why      string // of the last of them
}

// add counts n messages, the last of which is at a position, and returns how many of
// them had not been counted before.
func (s *skips) add(position, n uint64, why string) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if position <= s.counted {
		return 0
	}
	n = min(n, position-s.counted)
	s.counted = position
	s.pending = skipped{messages: s.pending.messages + n, last: position, why: why}
	if !s.waiting {
		s.flush()
	}
	return n
}

// flush reports what is pending, if anything is, and waits before the next report.
func (s *skips) flush() {
	s.waiting = s.pending.messages > 0
	if !s.waiting {
		return
	}
	s.report(s.pending)
	s.pending = skipped{}
	s.timer = time.AfterFunc(reportSkips, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting {
			s.flush()
		}
	})
}

// stop reports what is pending at once.
func (s *skips) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.pending.messages > 0 {
		s.report(s.pending)
	}
	s.pending, s.waiting = skipped{}, false
}

// skip counts a message that is no commit.
func (r *realm) skip(position uint64, why string) { r.skipAll(position, 1, why) }

// skipAll counts messages that are no commits, the last of which is at a position.
func (r *realm) skipAll(position, n uint64, why string) {
	r.metrics.all.skipped.WithLabelValues(r.name).Add(float64(r.skips.add(position, n, why)))
}

// reportSkipped logs that messages were skipped, and warns of it in the stream of
// warnings. Every replica does: one that follows the log sees such a message at once,
// the writer with its next commit. The stream keeps the last warning.
func (r *realm) reportSkipped(s skipped) {
	const advice = "find out who publishes to the log's subject, and take the permission away; `coppice events` lists the skipped messages"
	r.log.Warn("skipped messages in the log that are no commits of the realm: "+advice, "messages", s.messages, "sequence", s.last, "reason", s.why)
	id, err := uuid.FromBytes(r.state.Checkpoint().GetRealmId())
	if err != nil {
		return // the realm has no commit, and so no id
	}
	r.warner.Skipped(uid.FromUUID(id), fmt.Sprintf("skipped %d messages in the log that are no commits of the realm, the last at sequence %d: %s; %s",
		s.messages, s.last, s.why, advice))
}
