package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/callstate"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits of a page of finalizers.
const (
	maxFinalizerObjects = 100_000   // that are read
	maxFinalizerBytes   = 256 << 10 // of names that are counted
)

// maxConditionNames is the number of finalizers that the message of a condition names.
const maxConditionNames = 8

// listFinalizers replies with the external finalizers that objects have.
func (s *replicaServer) listFinalizers(q *request) {
	at, err := s.target(q)
	var r coppicev1.ListFinalizersRequest
	if err == nil {
		err = realmWide(at)
	}
	if err == nil {
		err = q.read(&r)
	}
	var page finalizerPage
	if err == nil {
		page, err = newFinalizerPage(&r)
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	s.readAtLeast(s.pages, q, 0, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		return page.read(snap), nil
	})
}

// finalizerPage counts the finalizers of some objects, kind by kind in the order of their
// resources.
type finalizerPage struct {
	resource string // the first kind
	after    state.NameCursor
	limit    int
	bytes    int // of the names in byName
	byName   map[string]*coppicev1.FinalizerInUse
}

func newFinalizerPage(r *coppicev1.ListFinalizersRequest) (p finalizerPage, err *lifecycle.Error) {
	p = finalizerPage{limit: maxFinalizerObjects, byName: map[string]*coppicev1.FinalizerInUse{}}
	if n := int(r.GetLimit()); n > 0 {
		p.limit = min(n, maxFinalizerObjects)
	}
	var token string
	p.resource, token, _ = strings.Cut(r.GetContinue(), ":")
	p.after, err = decodeToken(token)
	return p, err
}

func (p *finalizerPage) read(snap *state.Snapshot) *coppicev1.ListFinalizersReply {
	reply := &coppicev1.ListFinalizersReply{Revision: snap.Revision()}
	kinds := slices.Clone(snap.Kinds().All())
	slices.SortFunc(kinds, func(a, b *lifecycle.Kind) int { return cmp.Compare(a.Resource(), b.Resource()) })
	for _, k := range kinds {
		if k.Resource() < p.resource {
			continue
		}
		if k.Resource() > p.resource {
			p.after = state.NameCursor{}
		}
		snap.Nodes(k, "", p.after, func(n *lifecycle.Node) bool {
			if p.limit == 0 || p.bytes >= maxFinalizerBytes {
				if reply.Continue = k.Resource() + ":"; p.after != (state.NameCursor{}) { // and else before its first object
					reply.Continue += encodeToken(p.after)
				}
				return false
			}
			p.limit--
			p.after = state.NameCursor{Namespace: n.Namespace, Name: n.Name}
			p.count(n)
			return true
		})
		if reply.Continue != "" {
			break
		}
	}
	for _, f := range p.byName {
		reply.Finalizers = append(reply.Finalizers, f)
	}
	slices.SortFunc(reply.Finalizers, func(a, b *coppicev1.FinalizerInUse) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return reply
}

func (p *finalizerPage) count(n *lifecycle.Node) {
	for _, name := range n.Finalizers {
		if lifecycle.IsBuiltinFinalizer(name) {
			continue
		}
		f := p.byName[name]
		if f == nil {
			f = &coppicev1.FinalizerInUse{Name: name}
			p.byName[name] = f
			p.bytes += len(name)
		}
		f.Objects++
		if n.Terminating() {
			f.Terminating++
			if since := int64(n.Marked()); f.GetOldest() == 0 || since < f.GetOldest() {
				f.Oldest = since
			}
		}
	}
}

// ConditionFinalizers is the type of the condition that says whether the programs that an object
// waits for do their part.
const ConditionFinalizers = "FinalizersAnswered"

// conditionTime is the maximum time in which NATS says which consumers there are.
const conditionTime = 2 * time.Second

// maxConditionCalls is the number of calls of which a reply has the state in its conditions. For further ones, a
// condition says what is known of all calls of the finalizer.
const maxConditionCalls = 32

// conditions sets the conditions of requested objects.
func (s *replicaServer) conditions(ctx context.Context, reply *coppicev1.ResolveObjectsReply) {
	if s.r.Consumers == nil { // a recorded log
		return
	}
	calls := maxConditionCalls
	limited, cancel := context.WithTimeout(ctx, conditionTime)
	defer cancel()
	for _, g := range reply.GetNodes() {
		m := g.GetObject().GetMetadata()
		if !g.GetRequested() || m.GetDeletionTimestamp() == nil || !slices.ContainsFunc(m.GetFinalizers(), external) {
			continue
		}
		list, err := s.r.Consumers.List(limited)
		if err != nil {
			return // there is no condition; the next reply has it again
		}
		c := &coppicev1.Condition{Type: ConditionFinalizers, Status: "True", Reason: "Answered"}
		names := slices.DeleteFunc(slices.Clone(m.GetFinalizers()), lifecycle.IsBuiltinFinalizer)
		for i, f := range names {
			subject, durable := s.callOf(&coppicev1.CallOf{Resource: g.GetResource(), Uid: m.GetUid(), Finalizer: f})
			of := s.r.Consumers.State(durable, list[durable])
			is := of.AnyCall()
			if calls > 0 {
				calls--
				if is, err = s.r.Consumers.Status(limited, subject, &of); err != nil {
					return
				}
			}
			extend(c, f, is, i < maxConditionNames)
		}
		if more := len(names) - maxConditionNames; more > 0 {
			c.Message += fmt.Sprintf("; and %d more finalizers", more)
		}
		g.Conditions = append(g.Conditions, c)
	}
}

func external(finalizer string) bool { return !lifecycle.IsBuiltinFinalizer(finalizer) }

// extend adds what is known of the call of one finalizer to a condition, and to its message if named is set.
// The first one that is not answered decides the reason.
func extend(c *coppicev1.Condition, finalizer string, is *coppicev1.CallStatus, named bool) {
	reason, since := "Answered", is.GetWorkingSince()
	switch {
	case is.GetState() == coppicev1.CallState_CALL_STATE_NO_CONSUMER:
		reason, since = "NoConsumer", is.GetSilentSince()
	case is.GetState() == coppicev1.CallState_CALL_STATE_SILENT:
		reason, since = "ConsumerSilent", is.GetSilentSince()
	case is.GetState() == coppicev1.CallState_CALL_STATE_PARKED:
		reason, since = "CallParked", is.GetLastErrorTime()
	case is.GetFailures() > 0:
		reason, since = "CallsFail", is.GetLastErrorTime()
	}
	if c.GetReason() == "Answered" {
		c.Reason, c.Since = reason, since
		if reason != "Answered" {
			c.Status = "False"
		}
	}
	if !named {
		return
	}
	if c.GetMessage() != "" {
		c.Message += "; "
	}
	c.Message += finalizer
	if words := callstate.Words(is, func(t time.Time) string { return t.UTC().Format(time.RFC3339) }); words != "" {
		c.Message += ": " + words
	}
}
