package api

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// operationsWriter serves the operations by which the other services have the writer act.
type operationsWriter struct {
	*servedWriter
	c       OperationsConfig
	looking sync.Mutex // for cycles
}

// OperationsConfig is what an operationsWriter needs in addition to a server.
type OperationsConfig struct {
	// Republish publishes pending work again.
	Republish func(context.Context, *coppicev1.RepublishRequest) (*coppicev1.RepublishReply, error)
	// Answered is called with the replies to proposals and to built-in finalizers, for metrics.
	Answered func(proto.Message)
	// WarnCycle is called with an object of an unreachable cycle and the number of the
	// cycle's members. It may be nil.
	WarnCycle func(v lifecycle.View, n *lifecycle.Node, members int)
}

// newOperationsWriter returns the operations of a writer.
func newOperationsWriter(s *servedWriter, c OperationsConfig) *operationsWriter {
	return &operationsWriter{servedWriter: s, c: c}
}

// submit queues the command of an operation for the writer.
func (s *operationsWriter) submit(q *request, actor string, work writer.Work) {
	to := q.replier
	s.commands.Submit(&writer.Request{
		Actor: actor, Verb: to.verb, Size: len(q.Data()) + 256, Expires: q.expires, Work: work,
		Done: func(m proto.Message, err *lifecycle.Error) {
			if err == nil {
				s.c.Answered(m)
			}
			to.answer(m, err)
		},
	})
}

// propose has the writer collect and strip what a processor has found.
func (s *operationsWriter) propose(q *request) *lifecycle.Error {
	var r coppicev1.ProposeRequest
	if err := q.read(&r); err != nil {
		return err
	}
	work, err := command.NewPropose(&r)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleProcessor, work)
	return nil
}

// orphan has the writer remove the references to owners whose deletion orphans their dependents.
func (s *operationsWriter) orphan(q *request) *lifecycle.Error {
	var r coppicev1.OrphanRequest
	if err := q.read(&r); err != nil {
		return err
	}
	work, err := command.NewOrphan(&r)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleFinalizers, work)
	return nil
}

// drain has the writer delete the contents of a namespace or kind that is being deleted.
func (s *operationsWriter) drain(q *request) *lifecycle.Error {
	var r coppicev1.DrainRequest
	if err := q.read(&r); err != nil {
		return err
	}
	work, err := command.NewDrain(&r)
	if err != nil {
		return err
	}
	s.submit(q, bus.RoleFinalizers, work)
	return nil
}

// republish publishes pending work again.
func (s *operationsWriter) republish(q *request) *lifecycle.Error {
	var r coppicev1.RepublishRequest
	if err := q.read(&r); err != nil {
		return err
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply, err := s.c.Republish(ctx, &r)
		if err != nil {
			return nil, &lifecycle.Error{Reason: api.ErrServiceUnavailable, Message: "republish: " + err.Error()}
		}
		return reply, nil
	})
	return nil
}
