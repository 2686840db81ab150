package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
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

// deleteCollection lists and deletes in chunks. It deletes each object by the uid that was
// listed: a new object with the same name stays (X13).
func (s *objectsWriter) deleteCollection(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.DeleteCollectionRequest
	if err := q.read(&r); err != nil {
		return err
	}
	labels, err := labelsOf(r.GetLabelSelector())
	if err != nil {
		return err
	}
	if all := r.GetLabelSelector() == ""; all != r.GetAll() {
		return lifecycle.ErrBadRequest("all is %t with the label selector %q: a deletecollection names a selector, or says all, and not both", r.GetAll(), r.GetLabelSelector())
	}
	after, err := decodeToken(r.GetContinue())
	if err != nil {
		return err
	}
	kind := s.State.Kinds().Resource(resource(at))
	if kind == nil {
		return lifecycle.ErrUnknownKind(resource(at))
	}
	if kind.Namespaced() && at.Namespace == "" {
		return lifecycle.ErrBadRequest("deletecollection of %s names a namespace", kind.Resource())
	}
	if err := lifecycle.ValidateDeleteOptions(lifecycle.Key{Kind: kind, Namespace: at.Namespace}, r.GetOptions()); err != nil {
		return err
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply := &coppicev1.DeleteCollectionReply{}
		for {
			p := page{
				kind: kind, namespace: at.Namespace, labels: labels, uninitialized: true, after: after, limit: collectionChunk,
				maxBytes: q.maxPayload, maxLooks: 64 * collectionChunk,
			}
			if limit := int(r.GetLimit()); limit > 0 {
				p.limit = min(p.limit, limit-len(reply.Results))
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
				len(reply.Results) > bus.MaxObjects || time.Since(q.received) > collectionTime || proto.Size(reply) > q.maxPayload/4 {
				if !done {
					reply.Continue = encodeToken(next)
				}
				return reply, nil
			}
		}
	})
	return nil
}

// deletePage deletes the objects of a page, and waits for the reply.
func (s *objectsWriter) deletePage(ctx context.Context, at bus.API, p *page, r *coppicev1.DeleteCollectionRequest) (*coppicev1.ObjectsReply, state.NameCursor, *lifecycle.Error) {
	type listed struct {
		key lifecycle.Key
		uid uid.UID
	}
	var found []listed
	if err := s.pages.Acquire(ctx, at.Actor); err != nil {
		return nil, p.after, s.unreadable(err)
	}
	snap := s.State.Snapshot().Until(ctx)
	next := p.each(snap, func(o lifecycle.Object) {
		found = append(found, listed{lifecycle.Key{Namespace: o.Namespace, Name: o.Name}, o.UID})
	})
	s.pages.Release(at.Actor)
	revision := snap.Revision()
	fail := snap.Err()
	_ = snap.Close()
	if fail != nil {
		return nil, next, s.unreadable(fail)
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
	s.commands.Submit(&writer.Request{
		Actor: at.Actor, Verb: at.Verb, Size: 64 * len(found), Expires: expires,
		Work: &command.Objects{
			Resource: resource(at), Count: len(found), DryRun: len(r.GetOptions().GetDryRun()) > 0, Collection: true,
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
