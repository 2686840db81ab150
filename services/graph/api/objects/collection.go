package objects

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Limits of a deletecollection: the objects of one command, and the time after which a
// request returns a continue token.
const (
	collectionChunk = 500
	collectionTime  = 2 * time.Second
)

// DeleteCollection lists and deletes in chunks. It deletes each object by the uid that was
// listed: a new object with the same name stays (X13).
func (s *Writer) DeleteCollection(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.DeleteCollectionRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	labels, err := serve.ParseLabels(r.GetLabelSelector())
	if err != nil {
		return err
	}
	if all := r.GetLabelSelector() == ""; all != r.GetAll() {
		return lifecycle.ErrBadRequest("all is %t with the label selector %q: a deletecollection names a selector, or says all, and not both", r.GetAll(), r.GetLabelSelector())
	}
	after, err := serve.DecodeToken(r.GetContinue())
	if err != nil {
		return err
	}
	kind := s.State.Kinds().Resource(serve.Resource(at))
	if kind == nil {
		return lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	if kind.Namespaced() && at.Namespace == "" {
		return lifecycle.ErrBadRequest("deletecollection of %s names a namespace", kind.Resource())
	}
	if err := lifecycle.ValidateDeleteOptions(lifecycle.Key{Kind: kind, Namespace: at.Namespace}, r.GetOptions()); err != nil {
		return err
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply := &coppicev1.DeleteCollectionReply{}
		for {
			p := serve.Page{
				Kind: kind, Namespace: at.Namespace, Labels: labels, Uninitialized: true, After: after, Limit: collectionChunk,
				MaxBytes: q.MaxPayload, MaxLooks: 64 * collectionChunk,
			}
			if limit := int(r.GetLimit()); limit > 0 {
				p.Limit = min(p.Limit, limit-len(reply.Results))
			}
			results, next, err := s.deletePage(ctx, at, &p, &r)
			if err != nil {
				return nil, err
			}
			reply.Results = append(reply.Results, results.GetResults()...)
			reply.Revision = results.GetRevision()
			after = next
			done := next == state.NameCursor{}
			if full := r.GetLimit() > 0 && len(reply.Results) >= int(r.GetLimit()); done || full ||
				len(reply.Results) > bus.MaxObjects || time.Since(q.Received) > collectionTime || proto.Size(reply) > q.MaxPayload/4 {
				if !done {
					reply.Continue = serve.EncodeToken(next)
				}
				return reply, nil
			}
		}
	})
	return nil
}

// deletePage deletes the objects of a page, and waits for the reply.
func (s *Writer) deletePage(ctx context.Context, at bus.API, p *serve.Page, r *coppicev1.DeleteCollectionRequest) (*coppicev1.ObjectsReply, state.NameCursor, *lifecycle.Error) {
	type listed struct {
		key lifecycle.Key
		uid uid.UID
	}
	var found []listed
	if err := s.Pages.Acquire(ctx, at.Actor); err != nil {
		return nil, p.After, s.ErrUnreadable(err)
	}
	snap := s.State.Snapshot().Until(ctx)
	next := p.Each(snap, func(o lifecycle.Object) {
		found = append(found, listed{lifecycle.Key{Namespace: o.Namespace, Name: o.Name}, o.UID})
	})
	s.Pages.Release(at.Actor)
	revision := snap.Revision()
	fail := snap.Err()
	_ = snap.Close()
	if fail != nil {
		return nil, next, s.ErrUnreadable(fail)
	}
	if len(found) == 0 {
		return &coppicev1.ObjectsReply{Revision: revision}, next, nil
	}
	type outcome struct {
		m   proto.Message
		err *lifecycle.Error
	}
	done := make(chan outcome, 1)
	expires, _ := ctx.Deadline() // zero for none
	s.Commands.Submit(&writer.Request{
		Actor: at.Actor, Verb: at.Verb, Size: 64 * len(found), Expires: expires, Span: trace.SpanFromContext(ctx),
		Work: &command.Objects{
			Resource: serve.Resource(at), Count: len(found), DryRun: len(r.GetOptions().GetDryRun()) > 0, Collection: true,
			Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
				at.Namespace, at.Name = found[i].key.Namespace, found[i].key.Name
				if u := ctx.Lookup(at.Kind, at.Namespace, at.Name); u != found[i].uid {
					return &lifecycle.Outcome{Code: 200, Object: gone(at, found[i].uid)}, nil // A6.2
				}
				return lifecycle.Delete(ctx, at, r.GetVersion(), r.GetOptions())
			},
		},
		Done: func(m proto.Message, err *lifecycle.Error) { done <- outcome{m, err} },
	})
	select {
	case o := <-done:
		if o.err != nil {
			return nil, next, o.err
		}
		return o.m.(*coppicev1.ObjectsReply), next, nil
	case <-ctx.Done():
		return nil, next, &lifecycle.Error{Reason: api.ErrTimeout, Message: "the writer did not answer in time; some objects may be deleted already: try again to delete the rest"}
	}
}

// gone returns the identity of an object that another client removed after it was listed.
func gone(at lifecycle.Key, u uid.UID) lifecycle.Object {
	return lifecycle.Object{Node: &lifecycle.Node{
		UID: u, APIVersion: at.Kind.APIVersion(), Kind: at.Kind.Kind, Namespace: at.Namespace, Name: at.Name,
	}}
}
