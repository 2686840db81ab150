package graph

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// skips is what a realm remembers of the messages in its log that are no commits.
type skips struct {
	mu       sync.Mutex
	counted  uint64    // the last that was counted: what follows the last commit is read again when the writer changes
	reported time.Time // when the last log line was written
	since    uint64    // how many were skipped after it
}

// reportSkips is how often skipped messages are reported, at most.
const reportSkips = 10 * time.Second

// skip counts a message that is no commit, and warns of it.
func (r *realm) skip(position uint64, why string) { r.skipAll(position, 1, why) }

// skipAll counts messages, the last of which is at a position.
func (r *realm) skipAll(position, n uint64, why string) {
	s := &r.skips
	s.mu.Lock()
	defer s.mu.Unlock()
	if position <= s.counted {
		return
	}
	n = min(n, position-s.counted)
	s.counted = position
	s.since += n
	r.metrics.all.skipped.WithLabelValues(r.name).Add(float64(n))
	now := time.Now()
	if now.Sub(s.reported) < reportSkips {
		return
	}
	r.log.Warn("skipped messages in the log that are no commits of the realm: find out who publishes to its subject, and take the permission away; `coppice events` lists them",
		"messages", s.since, "sequence", position, "reason", why)
	s.reported, s.since = now, 0
}

// located is the log for a writer, which knows commits by their sequences.
type located struct {
	*eventlog.Log
	state *state.State
}

// Get reads the commit of a sequence.
func (l located) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	position, err := l.state.Position(sequence)
	if err != nil {
		return nil, err
	}
	return l.Log.Get(ctx, position)
}
