package expiry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// noticeCalls returns the calls to the program that a policy names, nil if it names none.
func (s *Policies) noticeCalls(ctx context.Context, p *duePolicy) (*propagator.NoticeCalls, *lifecycle.Error) {
	if p.Call == "" || p.ReportOnly || s.c.NoticeCalls == nil {
		return nil, nil
	}
	calls, err := s.c.NoticeCalls(ctx, p.Call)
	if err != nil {
		return nil, s.ErrJetStream("calls of "+p.Call, err)
	}
	return calls, nil
}

// publishCalls publishes calls that were collected. After an error no object is deleted before the
// evaluation is repeated.
func (s *Policies) publishCalls(ctx context.Context, calls *propagator.NoticeCalls) *lifecycle.Error {
	if calls == nil {
		return nil
	}
	if err := calls.Publish(ctx); err != nil {
		s.Log.Warn("calls about notices cannot be published", "error", err)
		// Readers of the status may not have permission to see the object that the error names.
		return s.ErrJetStream("calls about notices", cmp.Or(errors.Unwrap(err), err))
	}
	return nil
}

// noticeAgain is the time after a notice was given in which each evaluation calls Config.Noticed
// again, in case the process ended between the commit and the warning.
const noticeAgain = time.Hour

// notifyGiven notifies about notices that were given now.
func (s *Policies) notifyGiven(ctx context.Context, p *duePolicy, m *command.Matched, objects []uid.UID, calls *propagator.NoticeCalls) {
	if len(objects) == 0 {
		return
	}
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	for _, u := range objects {
		n := snap.Node(u)
		given := lifecycle.NoticeOf(snap.Notices(u), m.Rule.Policy)
		if n == nil || given.Generation == 0 {
			continue
		}
		if calls != nil && given.Calls(m.At) {
			calls.Add(snap, n, p.node.Name, p.OnSilence == expirypolicy.SilenceKeep, true, given)
		}
		s.notice(snap, n, p.Policy, p.node.Name, given)
	}
}

// notice has people notified of a notice.
func (s *Policies) notice(snap *state.Snapshot, n *lifecycle.Node, p *expirypolicy.Policy, name string, given lifecycle.Notice) {
	if s.c.Noticed != nil {
		s.c.Noticed(snap, n, p, name, given)
	}
}

// maxStale is the maximum number of objects whose notices one request withdraws. What is left is for
// the next round.
const maxStale = 4096

// withdrawStale withdraws notices whose policies do not exist any more, or were changed.
func (s *Policies) withdrawStale(ctx context.Context) (*coppicev1.ExamineReply, *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	reply := &coppicev1.ExamineReply{}
	if snap.Noticed() == 0 || snap.Realm().Paused {
		return reply, nil
	}
	var stale []uid.UID
	policies := map[uid.UID]*lifecycle.Node{} // nil for one that does not exist
	policy := func(u uid.UID) *lifecycle.Node {
		n, read := policies[u]
		if !read {
			n = snap.Node(u)
			policies[u] = n
		}
		return n
	}
	now := lifecycle.TimeOf(s.Now())
	snap.EachNotice("", func(u uid.UID, list []lifecycle.Notice) bool {
		reply.Examined++
		if slices.ContainsFunc(list, func(n lifecycle.Notice) bool { return n.Withdrawn(policy(n.Policy), now) }) {
			stale = append(stale, u)
		}
		return len(stale) < maxStale
	})
	if snap.Err() != nil {
		return nil, s.ErrUnreadable(snap.Err())
	}
	if len(stale) == 0 {
		return reply, nil
	}
	_, err := s.doExpire(ctx, lifecycle.ActorExpiry, "the expiry policy was changed or deleted", command.NewWithdrawNotices(stale))
	return reply, err
}
