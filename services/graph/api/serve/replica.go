package serve

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Replica is the Server of a process that follows the log. It reads at a revision that the request or the
// reply names.
type Replica struct {
	*Server
	// Reached waits until the state has reached a revision.
	Reached func(ctx context.Context, revision uint64) error
	// Now is the clock of the realm.
	Now func() time.Time
}

// NewReplica returns a Server for what any replica can do.
func NewReplica(s *Server, reached func(ctx context.Context, revision uint64) error, now func() time.Time) *Replica {
	return &Replica{Server: s, Reached: reached, Now: now}
}

// AtLeast replies from a snapshot of a revision or a later one. The read needs a place of a limiter; nil for none.
func (s *Replica) AtLeast(
	places *admission.Limiter, q *Request, revision uint64, answer func(context.Context, *state.Snapshot) (proto.Message, *lifecycle.Error),
) {
	s.Within(places, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		wait, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := s.Reached(wait, revision); err != nil {
			return nil, &lifecycle.Error{
				Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
				Message: fmt.Sprintf("realm %s: this replica has not reached revision %d yet; try again", s.Realm, revision),
			}
		}
		return s.Snapshot(ctx, answer)
	})
}

// Snapshot answers from the state as it is now.
func (s *Replica) Snapshot(ctx context.Context, answer func(context.Context, *state.Snapshot) (proto.Message, *lifecycle.Error)) (proto.Message, *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	m, err := answer(ctx, snap)
	if fail := snap.Err(); fail != nil {
		return nil, s.ErrUnreadable(fail)
	}
	return m, err
}

// Time returns the time at which a snapshot is evaluated: the realm's time, and never before
// that of the snapshot.
func (s *Replica) Time(snap *state.Snapshot) lifecycle.Time {
	return max(lifecycle.TimeOf(s.Now()), snap.Time())
}
