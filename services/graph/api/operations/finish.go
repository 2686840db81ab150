package operations

import (
	"errors"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/resolve"
)

// Finish has the writer remove built-in finalizers that nothing delays any more. If the counters do not show whether a
// foreground deletion is complete, Finish examines the dependents here, outside of the
// commit. The commit only verifies the result.
func (s *Writer) Finish(q *serve.Request) *lifecycle.Error {
	var r coppicev1.FinishRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	var kept command.Kept
	if r.GetFinalizer() == lifecycle.FinalizerForeground {
		var err *lifecycle.Error
		if !s.During(func() { kept, err = s.keptByUnknown(&r) }) {
			err = s.ErrStopping()
		}
		if err != nil {
			return err
		}
	}
	work, err := command.NewFinish(&r, kept)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleFinalizers, work)
	return nil
}

// keptByUnknown returns which dependents of the owners are kept by unknown owners alone. It stops
// after lifecycle.MaxExamined dependents, because one commit examines no more.
func (s *Writer) keptByUnknown(r *coppicev1.FinishRequest) (command.Kept, *lifecycle.Error) {
	uids, err := uid.Unpack(nil, r.GetUids())
	if err != nil {
		return nil, nil //nolint:nilerr // NewFinish refuses the request
	}
	slices.Sort(uids)
	snap := s.State.Snapshot()
	var kept command.Kept
	room := lifecycle.MaxExamined
	snap.Prefetch(uids)
	snap.PrefetchCounts(uids)
	var due []uid.UID
	for _, u := range uids {
		n := snap.Node(u)
		if examine := lifecycle.PendingOf(snap, u, n).Examine; examine > 0 && examine <= uint64(room) {
			due, room = append(due, u), room-int(examine)
		}
	}
	for _, u := range due {
		found, fail := resolve.DelayOf(s.Context, snap, snap.Node(u), max(lifecycle.TimeOf(s.Now()), snap.Time()))
		if fail != nil {
			err = fail
			break
		}
		if !found.Delayed && !found.TooMany && len(found.Kept) > 0 {
			if kept == nil {
				kept = command.Kept{}
			}
			kept[u] = found.Kept
		}
	}
	if err = errors.Join(err, snap.Err(), snap.Close()); err != nil {
		return nil, &lifecycle.Error{Reason: api.ErrInternalError, Message: "the dependents of owners cannot be examined: " + err.Error() + "; try again"}
	}
	return kept, nil
}
