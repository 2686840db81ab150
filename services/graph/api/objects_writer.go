package api

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// objectsWriter serves the verbs that change objects, and reads that include every command that was
// acknowledged before.
type objectsWriter struct {
	*servedWriter
	c          WriterConfig
	policies   *expiryServer
	finalizers unanswered
}

// WriterConfig is what an objectsWriter needs in addition to a server.
type WriterConfig struct {
	Lease writer.Lease
	// Past reads the past.
	Past Past
	// Call returns the state of the call of an external finalizer for an object.
	Call func(context.Context, bus.Finalize) (CallState, error)
	// Consumers observes the consumers of calls; nil for no warnings of finalizers without one.
	Consumers *consumers.Observer
	// Status counts pending work.
	Status func(context.Context) (*coppicev1.StatusReply, error)
	// Storage measures what the realm takes on disks.
	Storage func(context.Context) (*coppicev1.Storage, error)
	// PlanLimit and PlanTime bound the plan that the writer computes again for a DELETE
	// that names one, while other commands wait: its objects, 20,000 if zero, and the time,
	// 250 ms if zero.
	PlanLimit int
	PlanTime  time.Duration
	// Grants gives and checks the grants of deletions with several parts. If it is nil, no other
	// service accepts its grants.
	Grants *Grants
}

// newObjectsWriter returns the verbs of a writer. policies are the realm's expiry policies; nil for a recording.
func newObjectsWriter(s *servedWriter, policies *expiryServer, c WriterConfig) *objectsWriter {
	if c.Grants == nil {
		c.Grants = ownGrants(s.Realm)
	}
	return &objectsWriter{servedWriter: s, c: c, policies: policies, finalizers: unanswered{now: s.now}}
}

// submit queues a command for the writer.
func (s *objectsWriter) submit(q *request, at bus.API, work writer.Work, note string) *lifecycle.Error {
	id, err := q.commandID(s.now())
	if err != nil {
		return err
	}
	callers := 1
	if o, ok := work.(*command.Objects); ok && o.ReturnObjects { // of many callers, one object each
		callers = o.Count
	}
	s.commands.Submit(&writer.Request{
		ID: id, Actor: at.Actor, Verb: at.Verb, Note: note, Size: len(q.Data()) + 256, Callers: callers, Expires: q.expires, Work: work, Done: s.answer(q.replier),
	})
	return nil
}

// answer returns the function that sends the reply to a command. It encodes a long reply in
// another goroutine, so that the writer does not wait for it.
func (s *objectsWriter) answer(q replier) func(proto.Message, *lifecycle.Error) {
	const long = 16 // results
	return func(m proto.Message, err *lifecycle.Error) {
		r, ok := m.(*coppicev1.ObjectsReply)
		if ok && err == nil && addsFinalizers(q.verb) && s.warnUnanswered(r, func(r *coppicev1.ObjectsReply) { q.answer(r, nil) }) {
			return
		}
		if ok && len(r.GetResults()) > long && s.start(func() { q.answer(m, err) }) {
			return
		}
		q.answer(m, err)
	}
}

// read replies from a snapshot, and verifies that this process was still the writer after
// the snapshot was taken, so that the read is linearizable.
func (s *objectsWriter) read(q *request, answer func(*state.Snapshot) (proto.Message, *lifecycle.Error)) {
	s.within(s.pages, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		snap := s.State.Snapshot().Until(ctx)
		defer snap.Close()
		m, err := answer(snap)
		if fail := snap.Err(); fail != nil {
			return nil, s.unreadable(fail)
		}
		if !s.c.Lease.Holds() {
			return nil, s.notWriter()
		}
		return m, err
	})
}

func (s *objectsWriter) notWriter() *lifecycle.Error {
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this is not the writer any more; try again", s.Realm),
	}
}
