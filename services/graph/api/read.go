package api

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// get handles the verb get.
func (s *objectsWriter) get(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.GetRequest
	if err := q.read(&r); err != nil {
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
func objectsOf(snap *state.Snapshot, q *request, at bus.API, r *coppicev1.GetRequest) (*coppicev1.ObjectsReply, *lifecycle.Error) {
	kind := snap.Kinds().Resource(resource(at))
	if kind == nil {
		return nil, lifecycle.ErrUnknownKind(resource(at))
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
		if size += sizeOf(&o); size > 2*q.maxPayload {
			return nil, errReplyTooLarge() // before all of it is in memory
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

// list handles the verb list.
func (s *objectsWriter) list(q *request, at bus.API) *lifecycle.Error {
	var r coppicev1.ListRequest
	if err := q.read(&r); err != nil {
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
		reply, err := p.reply(snap, at)
		return reply, err
	})
	return nil
}

// maxLooks is the maximum number of objects that a page of a list looks at: about a second of work. A page that
// took longer than a client waits would be asked for again and again. So a page may be empty and not the last.
const maxLooks = 1 << 17

// pageOf returns the page of a list. Its kind is not set.
func pageOf(q *request, at bus.API, r *coppicev1.ListRequest) (p page, err *lifecycle.Error) {
	labels, err := labelsOf(r.GetLabelSelector())
	if err != nil {
		return p, err
	}
	after, err := decodeToken(r.GetContinue())
	if err != nil {
		return p, err
	}
	p = page{
		namespace: at.Namespace, labels: labels, uninitialized: r.GetIncludeUninitialized(), applied: r.GetIncludeApplied(), after: after, limit: int(r.GetLimit()),
		maxBytes: q.maxPayload * 3 / 4, maxLooks: maxLooks,
	}
	if q.json {
		p.maxBytes /= 2
	}
	return p, nil
}

// reply returns the reply to a list.
func (p page) reply(snap *state.Snapshot, at bus.API) (*coppicev1.ListReply, *lifecycle.Error) {
	if p.kind = snap.Kinds().Resource(resource(at)); p.kind == nil {
		return nil, lifecycle.ErrUnknownKind(resource(at))
	}
	reply := &coppicev1.ListReply{Revision: snap.Revision()}
	if next := p.each(snap, func(o lifecycle.Object) { reply.Objects = append(reply.Objects, withApplied(o, p.applied)) }); next != (state.NameCursor{}) {
		reply.Continue = encodeToken(next)
	}
	return reply, nil
}
