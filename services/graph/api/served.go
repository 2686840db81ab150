package api

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// servedWriter is the Server of the process that writes the realm.
type servedWriter struct {
	*server
	// commands decides commands, and appends what they change to the log.
	commands *writer.Writer
	now      func() time.Time
}

// newServedWriter returns a Server for what only the writer can do. now is the clock; time.Now if nil.
func newServedWriter(s *server, commands *writer.Writer, now func() time.Time) *servedWriter {
	if now == nil {
		now = time.Now
	}
	return &servedWriter{server: s, commands: commands, now: now}
}

// servedReplica is the Server of a process that follows the log. It reads at a revision that the request or the
// reply names.
type servedReplica struct {
	*server
	// reached waits until the state has reached a revision.
	reached func(ctx context.Context, revision uint64) error
	now     func() time.Time
}

// newServedReplica returns a Server for what any replica can do.
func newServedReplica(s *server, reached func(ctx context.Context, revision uint64) error, now func() time.Time) *servedReplica {
	return &servedReplica{server: s, reached: reached, now: now}
}

// atLeast replies from a snapshot of a revision or a later one.
func (s *servedReplica) atLeast(q *request, revision uint64, answer func(*state.Snapshot) (proto.Message, *lifecycle.Error)) {
	s.readAtLeast(s.pages, q, revision, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) { return answer(snap) })
}

// readAtLeast is atLeast for a read that needs a place of a limiter; nil for none.
func (s *servedReplica) readAtLeast(
	places *admission.Limiter, q *request, revision uint64, answer func(context.Context, *state.Snapshot) (proto.Message, *lifecycle.Error),
) {
	s.within(places, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		wait, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := s.reached(wait, revision); err != nil {
			return nil, &lifecycle.Error{
				Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
				Message: fmt.Sprintf("realm %s: this replica has not reached revision %d yet; try again", s.Realm, revision),
			}
		}
		return s.snapshot(ctx, answer)
	})
}

// snapshot answers from the state as it is now.
func (s *servedReplica) snapshot(ctx context.Context, answer func(context.Context, *state.Snapshot) (proto.Message, *lifecycle.Error)) (proto.Message, *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	m, err := answer(ctx, snap)
	if fail := snap.Err(); fail != nil {
		return nil, s.unreadable(fail)
	}
	return m, err
}

// timeOf returns the time at which a snapshot is evaluated: the realm's time, and never before
// that of the snapshot.
func (s *servedReplica) timeOf(snap *state.Snapshot) lifecycle.Time {
	return max(lifecycle.TimeOf(s.now()), snap.Time())
}
