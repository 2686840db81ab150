package objects

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Get handles the verb get.
func (s *Writer) Get(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.GetRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if err := checkNames("names", r.GetNames()); err != nil {
		return err
	}
	s.read(q, func(snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply, err := objectsOf(snap, q, at, &r)
		return reply, err
	})
	return nil
}

// objectsOf returns the reply to a get.
func objectsOf(snap *state.Snapshot, q *serve.Request, at bus.API, r *coppicev1.GetRequest) (*coppicev1.ObjectsReply, *lifecycle.Error) {
	kind := snap.Kinds().Resource(serve.Resource(at))
	if kind == nil {
		return nil, lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	if err := q.Allows(at, kind); err != nil {
		return nil, err
	}
	reply := &coppicev1.ObjectsReply{Revision: snap.Revision()}
	size := 0
	for i, name := range r.GetNames() {
		n, err := lifecycle.Read(snap, lifecycle.Key{Kind: kind, Namespace: at.Namespace, Name: name}, r.GetIncludeUninitialized())
		if err != nil {
			if len(r.GetNames()) == 1 {
				return nil, err
			}
			err.Index = i
			reply.Results = append(reply.Results, &coppicev1.Result{Code: err.Reason.Code(), Error: err.Status()})
			continue
		}
		o := lifecycle.Object{Node: n, Body: snap.Body(n)}
		if len(r.GetNames()) > 1 {
			if unreadable := snap.TakeUnreadable(); unreadable != nil {
				err := unreadable.Refusal(snap.Kinds())
				err.Index = i
				reply.Results = append(reply.Results, &coppicev1.Result{Code: err.Reason.Code(), Error: err.Status()})
				continue
			}
		}
		if size += serve.SizeOf(&o); size > 2*q.MaxPayload {
			return nil, serve.ErrReplyTooLarge() // before all of it is in memory
		}
		reply.Results = append(reply.Results, &coppicev1.Result{Code: 200, Object: withApplied(o, r.GetIncludeApplied())})
	}
	return reply, nil
}

// withApplied returns the object as clients see it, with the record of the last apply if include is true.
func withApplied(o lifecycle.Object, include bool) *coppicev1.Object {
	object := o.API()
	if include {
		object.Metadata.Applied = o.Body.GetApplied()
	}
	return object
}

// List handles the verb list.
func (s *Writer) List(q *serve.Request, at bus.API) *lifecycle.Error {
	var r coppicev1.ListRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	p, err := pageOf(q, at, &r)
	if err != nil {
		return err
	}
	s.read(q, func(snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		if snap.Revision() < r.GetMinRevision() {
			return nil, lifecycle.ErrBadRequest("min_revision: %d is in the future; the realm is at revision %d", r.GetMinRevision(), snap.Revision())
		}
		reply, err := listReply(q, &p, snap, at, r.GetIncludeApplied())
		return reply, err
	})
	return nil
}

// maxLooks is the maximum number of objects that a page of a list looks at: about a second of work. A page that
// took longer than a client waits would be asked for again and again. So a page may be empty and not the last.
const maxLooks = 1 << 17

// pageOf returns the page of a list. Its kind is not set.
func pageOf(q *serve.Request, at bus.API, r *coppicev1.ListRequest) (p serve.Page, err *lifecycle.Error) {
	labels, err := serve.ParseLabels(r.GetLabelSelector())
	if err != nil {
		return p, err
	}
	after, err := serve.DecodeToken(r.GetContinue())
	if err != nil {
		return p, err
	}
	p = serve.Page{
		Namespace: at.Namespace, Labels: labels, Uninitialized: r.GetIncludeUninitialized(), After: after, Limit: int(r.GetLimit()),
		MaxBytes: q.MaxPayload * 3 / 4, MaxLooks: maxLooks,
	}
	if q.JSON {
		p.MaxBytes /= 2
	}
	return p, nil
}

// listReply returns the reply to a list; if applied is set, with the records of the last apply.
func listReply(q *serve.Request, p *serve.Page, snap *state.Snapshot, at bus.API, applied bool) (*coppicev1.ListReply, *lifecycle.Error) {
	if p.Kind = snap.Kinds().Resource(serve.Resource(at)); p.Kind == nil {
		return nil, lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	if err := q.Allows(at, p.Kind); err != nil {
		return nil, err
	}
	reply := &coppicev1.ListReply{Revision: snap.Revision()}
	if next := p.Each(snap, func(o lifecycle.Object) { reply.Objects = append(reply.Objects, withApplied(o, applied)) }); next != (state.NameCursor{}) {
		reply.Continue = serve.EncodeToken(next)
	}
	return reply, nil
}
