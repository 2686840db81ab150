package objects

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/expiry"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Writer serves the verbs that change objects, and reads that include every command that was
// acknowledged before.
type Writer struct {
	*serve.Writer
	c          WriterConfig
	policies   *expiry.Policies
	finalizers knownFinalizers
}

// WriterConfig is what a Writer needs in addition to a serve.Writer.
type WriterConfig struct {
	Lease writer.Lease
	// Past reads the past.
	Past PastReader
	// Call returns the state of the call of an external finalizer for an object.
	Call func(context.Context, bus.Finalize) (CallState, error)
	// Consumers observes the consumers of calls; nil for no warnings of finalizers without one.
	Consumers *consumers.Observer
	// Status counts pending work.
	Status func(context.Context) (*coppicev1.StatusReply, error)
	// Storage measures what the realm takes on disks.
	Storage func(context.Context) (*coppicev1.Storage, error)
	// Leases reads the leases of controllers.
	Leases func(context.Context) ([]*coppicev1.ControllerLease, error)
	// PlanLimit and PlanTime bound the plan that the writer computes again for a DELETE
	// that names one, while other commands wait: its objects, 20,000 if zero, and the time,
	// 250 ms if zero.
	PlanLimit int
	PlanTime  time.Duration
	// Grants gives and checks the grants of deletions with several parts. If it is nil, no other
	// service accepts its grants.
	Grants *Grants
}

// NewWriter returns the verbs of a writer. policies are the realm's expiry policies; nil for a recording.
func NewWriter(s *serve.Writer, policies *expiry.Policies, c WriterConfig) *Writer {
	if c.Grants == nil {
		c.Grants = ownGrants(s.Realm)
	}
	return &Writer{Writer: s, c: c, policies: policies, finalizers: knownFinalizers{now: s.Now}}
}

// submit queues a command for the writer.
func (s *Writer) submit(q *serve.Request, at bus.API, work writer.Work, note string) *lifecycle.Error {
	id, err := q.CommandID(s.Now())
	if err != nil {
		return err
	}
	callers := 1
	if o, ok := work.(*command.Objects); ok {
		o.Decide = checkBlocking(q.Rules, o.Decide)
		if o.ReturnObjects { // of many callers, one object each
			callers = o.Count
		}
	}
	s.Commands.Submit(&writer.Request{
		ID: id, Actor: at.Actor, Verb: at.Verb, Note: note, Size: len(q.Data()) + 256, Callers: callers, Expires: q.Expires, Work: work, Done: s.answer(q.Replier, q.Rules), Span: q.Span,
	})
	return nil
}

// answer returns the function that sends the reply to a command. It encodes a long reply in
// another goroutine, so that the writer does not wait for it.
// Objects that rules do not let the actor get have no values in it, nor have those of a kind that is registered meanwhile.
func (s *Writer) answer(q serve.Replier, rules *access.Rules) func(proto.Message, *lifecycle.Error) {
	const long = 16 // results
	sees := rules.SeesAll()
	var kinds *lifecycle.Kinds
	if !sees {
		kinds = s.State.Kinds() // not in the function: the state is locked when it is called
	}
	return func(m proto.Message, err *lifecycle.Error) {
		r, ok := m.(*coppicev1.ObjectsReply)
		if ok && !sees {
			r = hideValues(r, kinds, rules)
			m = r
		}
		if ok && err == nil && addsFinalizers(q.Verb) && s.warnUnanswered(r, func(r *coppicev1.ObjectsReply) { q.Answer(r, nil) }) {
			return
		}
		if ok && len(r.GetResults()) > long && s.Start(func() { q.Answer(m, err) }) {
			return
		}
		q.Answer(m, err)
	}
}

// hideValues returns a reply without the values of objects that rules do not let the actor get. What identifies the objects
// stays. The reply itself stays as it is: it may be the answer to a repeated request, too.
func hideValues(r *coppicev1.ObjectsReply, kinds *lifecycle.Kinds, rules *access.Rules) *coppicev1.ObjectsReply {
	hidden := &coppicev1.ObjectsReply{Revision: r.GetRevision(), Grant: r.GetGrant(), Results: slices.Clone(r.GetResults())}
	for i, result := range hidden.GetResults() {
		o := result.GetObject()
		if o == nil {
			continue
		}
		m := o.GetMetadata()
		if k := kinds.Of(lifecycle.GroupOf(o.GetApiVersion()), o.GetKind()); k != nil && rules.Sees(k.Resource(), m.GetNamespace()) {
			continue
		}
		hidden.Results[i] = &coppicev1.Result{Code: result.GetCode(), Error: result.GetError(), Warnings: result.GetWarnings(), Object: &coppicev1.Object{
			ApiVersion: o.GetApiVersion(), Kind: o.GetKind(), Metadata: &coppicev1.ObjectMeta{
				Name: m.GetName(), Namespace: m.GetNamespace(), Uid: m.GetUid(), ResourceVersion: m.GetResourceVersion(), Generation: m.GetGeneration(),
				CreationTimestamp: m.GetCreationTimestamp(), DeletionTimestamp: m.DeletionTimestamp, Finalizers: m.GetFinalizers(),
			},
		}}
	}
	return hidden
}

// read replies from a snapshot, and verifies that this process was still the writer after
// the snapshot was taken, so that the read is linearizable.
func (s *Writer) read(q *serve.Request, answer func(*state.Snapshot) (proto.Message, *lifecycle.Error)) {
	s.Within(s.Pages, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		snap := s.State.Snapshot().Until(ctx)
		defer snap.Close()
		m, err := answer(snap)
		if fail := snap.Err(); fail != nil {
			return nil, s.ErrUnreadable(fail)
		}
		if !s.c.Lease.Holds() {
			return nil, s.notWriter()
		}
		return m, err
	})
}

func (s *Writer) notWriter() *lifecycle.Error {
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this is not the writer any more; try again", s.Realm),
	}
}
