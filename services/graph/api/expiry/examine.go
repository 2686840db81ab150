package expiry

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/expiry/evaluated"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/propagator"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// maxExamined is the maximum number of objects that one request evaluates.
const maxExamined = 4096

// retryExamine is the delay after which the scanner should repeat a request.
const retryExamine = time.Second

// examineTime is the maximum time for which a page of objects is evaluated. What is left is for the next request.
const examineTime = 2 * time.Second

// Examine evaluates an expiry policy on a page of objects, gives notice for those to which it
// applies, and has those deleted that are due. Without a policy it withdraws notices of policies that
// were changed or deleted.
// The evaluation reads a snapshot, outside of the writer; the commit checks that neither the objects nor the
// policy have changed since.
func (s *Policies) Examine(q *serve.Request) *lifecycle.Error {
	var r coppicev1.ExamineRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	after, err := serve.DecodeToken(string(r.GetCursor()))
	if err != nil {
		return err
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		if r.GetPolicy() == "" {
			reply, err := s.withdrawStale(ctx)
			if err == nil && s.c.SweepNotices != nil {
				if fail := s.c.SweepNotices(ctx); fail != nil {
					err = s.ErrJetStream("calls about notices", fail)
				}
			}
			return reply, err
		}
		page := &examined{}
		err := s.examinePage(ctx, &r, after, page)
		s.evaluated.Add(&r, &page.Page, err, s.Now())
		if err != nil {
			return nil, err
		}
		return page.Reply(), nil
	})
	return nil
}

// examined is a page of objects on which a policy is evaluated, and the calls about their notices.
type examined struct {
	evaluated.Page
	calls *propagator.NoticeCalls // nil for none
}

// examinePage evaluates a policy on a page of objects, and carries out what follows.
func (s *Policies) examinePage(ctx context.Context, r *coppicev1.ExamineRequest, after state.NameCursor, page *examined) *lifecycle.Error {
	m, p, err := s.match(ctx, r, after, page)
	if err != nil || m == nil {
		return err
	}
	if err := s.publishCalls(ctx, page.calls); err != nil || len(m.Objects) == 0 {
		return err
	}
	work := command.NewExpireMatched(*m)
	done, err := s.doExpire(ctx, lifecycle.ActorExpiry+":"+r.GetPolicy(), "the expiry policy applies", work)
	if err != nil {
		return err
	}
	page.Deleted = uint64(done.GetExpired())
	page.Noticed += uint64(len(work.Given()))
	s.notifyGiven(ctx, p, m, work.Given(), page.calls)
	return s.publishCalls(ctx, page.calls)
}

// doExpire carries out a command of the expiry, and waits for it.
func (s *Policies) doExpire(ctx context.Context, actor, note string, work writer.Work) (*coppicev1.ExpireReply, *lifecycle.Error) {
	done, fail := s.Commands.Do(ctx, &writer.Request{Actor: actor, Verb: bus.VerbDelete, Note: note, Work: work})
	var refusal *lifecycle.Error
	switch {
	case fail == nil:
		return done.(*coppicev1.ExpireReply), nil
	case errors.As(fail, &refusal):
		return nil, refusal
	}
	return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, RetryAfter: retryExamine, Message: fail.Error()}
}

// duePolicy is an expiry policy that is evaluated at a snapshot and a time.
type duePolicy struct {
	*expirypolicy.Policy
	node      *lifecycle.Node
	kind      *lifecycle.Kind
	unchanged uint64 // the newest revision that an object may have
}

// policyNamed returns the object of an expiry policy; nil if it is being deleted or not initialized, or
// if the kind of expiry policies is not registered.
func policyNamed(snap *state.Snapshot, name string) (*lifecycle.Node, *lifecycle.Error) {
	policies := snap.Kinds().Resource(Resource)
	if policies == nil {
		return nil, nil
	}
	n, err := lifecycle.Find(snap, lifecycle.Key{Kind: policies, Name: name})
	if err != nil || n.Terminating() || n.Uninitialized() {
		return nil, err
	}
	return n, nil
}

// duePolicy reads a policy, nil if it applies to no object: its kind is not registered, or the log
// is not as old as minUnchanged.
func (s *Policies) duePolicy(ctx context.Context, snap *state.Snapshot, n *lifecycle.Node, at lifecycle.Time) (*duePolicy, *lifecycle.Error) {
	body := snap.Body(n)
	if unreadable := snap.TakeUnreadable(); unreadable != nil {
		return nil, lifecycle.ErrBadRequest("%v", unreadable.Refusal(snap.Kinds()))
	}
	p, fail := expirypolicy.Parse(body.GetSpec())
	if fail != nil { // stored before it was checked
		return nil, lifecycle.ErrBadRequest("%s %q: %v", Resource, n.Name, fail)
	}
	kind := snap.Kinds().Of(p.Group, p.Kind)
	if kind == nil {
		return nil, nil // it may be registered later
	}
	unchanged, err := s.unchangedSince(ctx, p.MinUnchanged, at)
	if err != nil || unchanged == 0 {
		return nil, err
	}
	return &duePolicy{p, n, kind, unchanged}, nil
}

// matches reports whether the policy applies to an object. The error says why the condition has no result.
func (p *duePolicy) matches(snap *state.Snapshot, n *lifecycle.Node, at lifecycle.Time) (bool, error) {
	if n.Revision > p.unchanged {
		return false, nil
	}
	is, err := p.Matches(lifecycle.Object{Node: n, Body: snap.Body(n)}.API(), at.Time())
	if unreadable := snap.TakeUnreadable(); unreadable != nil {
		return false, unreadable // B8.1
	}
	return is, err
}

// match evaluates a policy on a page of objects, and counts them. It returns those for which
// something follows, nil if nothing does.
func (s *Policies) match(ctx context.Context, r *coppicev1.ExamineRequest, after state.NameCursor, page *examined) (*command.Matched, *duePolicy, *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	if snap.Realm().Paused {
		return nil, nil, nil
	}
	at := min(lifecycle.Time(r.GetNow()), lifecycle.TimeOf(s.Now()))
	n, err := policyNamed(snap, r.GetPolicy())
	if err != nil || n == nil {
		return nil, nil, err
	}
	page.Of = n
	p, err := s.duePolicy(ctx, snap, n, at)
	if err != nil || p == nil {
		return nil, nil, err
	}
	if page.calls, err = s.noticeCalls(ctx, p); err != nil {
		return nil, nil, err
	}
	if page.calls != nil && after == (state.NameCursor{}) {
		s.c.RecentCalls.Begin(p.node.UID)
	}
	m := &command.Matched{
		PolicyRevision: p.node.Revision, Rule: p.Rule(p.node), Found: map[uid.UID]command.Found{}, Seen: lifecycle.Time(r.GetNow()), At: at,
	}
	ends := time.Now().Add(examineTime)
	more, limit := false, min(max(int(r.GetLimit()), 1), maxExamined)
	var found []uid.UID
	var names []state.NameCursor
	snap.Names(p.kind, "", after, func(ns, name string, u uid.UID) bool {
		if more = len(found) == limit; !more {
			found, names = append(found, u), append(names, state.NameCursor{Namespace: ns, Name: name})
		}
		return !more
	})
	snap.Prefetch(found)
	last := after
	for i, u := range found {
		if i > 0 && i%64 == 0 && time.Now().After(ends) {
			more = true
			break
		}
		if d := snap.Node(u); d != nil {
			s.matchOne(snap, p, d, m, page)
		}
		page.Examined++
		last = names[i]
	}
	if snap.Err() != nil {
		return nil, nil, s.ErrUnreadable(snap.Err())
	}
	if more {
		page.Cursor = []byte(serve.EncodeToken(last))
	}
	if p.ReportOnly {
		return nil, nil, nil
	}
	return m, p, nil
}

// matchOne evaluates a policy on one object.
func (s *Policies) matchOne(snap *state.Snapshot, p *duePolicy, n *lifecycle.Node, m *command.Matched, page *examined) {
	list := snap.Notices(n.UID)
	given := lifecycle.NoticeOf(list, m.Rule.Policy)
	if n.Revision > p.unchanged && given.Generation == 0 {
		return // most
	}
	is, err := p.matches(snap, n, m.At)
	if err != nil {
		page.Fail(lifecycle.KeyOf(snap, n), err)
		return
	}
	if is {
		page.Matched++
	}
	if is && n.Protected() {
		page.Protected++
	}
	switch m.Rule.Next(list, is && !n.Protected(), m.At) { // B6.4
	case lifecycle.NoticeWait, lifecycle.NoticeKeep:
		page.Noticed++
		if m.At < given.Answer.Until {
			page.Vetoed++
		}
		if page.calls != nil && given.Calls(m.At) {
			page.calls.Add(snap, n, p.node.Name, p.OnSilence == expirypolicy.SilenceKeep, false, given)
		}
		if !p.ReportOnly && m.At < given.Given.Add(noticeAgain) {
			s.notice(snap, n, p.Policy, p.node.Name, given)
		}
		return
	case lifecycle.NoticeDelete:
		page.Due++
		if lifecycle.Braked(snap, n) {
			return
		}
	case lifecycle.NoticeNone:
		return
	}
	m.Objects = append(m.Objects, n.UID)
	m.Found[n.UID] = command.Found{Revision: n.Revision, Applies: is}
}

// unchangedSince returns the newest revision of objects that were not changed for the duration d: that of
// the last commit that is at least as old. It is the greatest number if d is zero, and 0 if that commit
// cannot be found because neither the log nor the archive goes back so far.
func (s *Policies) unchangedSince(ctx context.Context, d time.Duration, now lifecycle.Time) (uint64, *lifecycle.Error) {
	if d == 0 {
		return ^uint64(0), nil
	}
	c, err := s.c.Find(ctx, past.Point{Time: now.Add(-d)})
	var refusal *lifecycle.Error
	switch {
	case err == nil:
		return c.Revision, nil
	case errors.As(err, &refusal) && refusal.Reason == api.ErrExpired:
		return 0, nil // the log does not go back so far
	case errors.As(err, &refusal):
		return 0, refusal
	}
	return 0, &lifecycle.Error{Reason: api.ErrServiceUnavailable, RetryAfter: retryExamine, Message: err.Error()}
}
