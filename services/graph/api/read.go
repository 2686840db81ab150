package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/selector"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

var sessionPattern = regexp.MustCompile(`^[A-Za-z0-9-]{1,63}$`)

// read replies from a snapshot, and verifies that this process was still the writer after
// the snapshot was taken, so that the read is linearizable.
func (s *writerServer) read(q *request, answer func(*state.Snapshot) (proto.Message, *lifecycle.Error)) {
	s.within(s.pages, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		snap := s.State.Snapshot().Until(ctx)
		defer snap.Close()
		m, err := answer(snap)
		if fail := snap.Err(); fail != nil {
			return nil, s.unreadable(fail)
		}
		if !s.w.Lease.Holds() {
			return nil, s.notWriter()
		}
		return m, err
	})
}

func (s *writerServer) notWriter() *lifecycle.Error {
	return &lifecycle.Error{
		Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
		Message: fmt.Sprintf("realm %s: this is not the writer any more; try again", s.Realm),
	}
}

func (s *writerServer) get(q *request, at bus.API) *lifecycle.Error {
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

// encodeToken returns the continue token of a list: the name after which the next page
// starts.
func encodeToken(c state.NameCursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.Namespace + "\x00" + c.Name))
}

// ContinueAfterNamespace returns a token that a list of all namespaces continues with
// after the last object of a namespace.
func ContinueAfterNamespace(namespace string) string {
	const last = "\xff" // no name has this byte, and it sorts after all bytes of names
	return encodeToken(state.NameCursor{Namespace: namespace, Name: last})
}

func decodeToken(token string) (c state.NameCursor, err *lifecycle.Error) {
	if token == "" {
		return c, nil
	}
	b, fail := base64.RawURLEncoding.DecodeString(token)
	namespace, name, ok := strings.Cut(string(b), "\x00")
	if fail != nil || !ok || name == "" {
		return c, lifecycle.ErrBadRequest("continue: %q is not what a reply gave", token)
	}
	return state.NameCursor{Namespace: namespace, Name: name}, nil
}

// page is a page of a list: the objects of a kind that match, after a cursor.
type page struct {
	kind      *lifecycle.Kind
	namespace string // empty: all
	labels    selector.Selector
	after     state.NameCursor
	limit     int // objects
	maxBytes  int
	maxLooks  int // objects looked at

	uninitialized bool // also objects that are not initialized
	applied       bool // objects with the record of the last apply
}

// each calls visit for the objects of the page. next is where the next page starts, zero
// after the last page.
func (p *page) each(snap *state.Snapshot, visit func(lifecycle.Object)) (next state.NameCursor) {
	size, found, looks := 0, 0, 0
	after := p.after
	names := snap.NameReader(p.kind, p.namespace, after)
	defer names.Close()
	for {
		chunk, last := names.Next()
		names.Bare(looks > rare*max(found, 1))
		if !last && !p.fullWith(len(chunk), looks, found, size) {
			names.Ahead() // while the bodies of these are read, one by one
		}
		for _, e := range chunk {
			looks++
			if o, ok := p.match(snap, e); ok {
				bytes := sizeOf(&o)
				if found > 0 && (found >= p.limit && p.limit > 0 || size+bytes > p.maxBytes) {
					return after
				}
				visit(o)
				found++
				size += bytes
			}
			after = e.NameCursor
			if p.maxLooks > 0 && looks >= p.maxLooks {
				return after
			}
		}
		if last {
			return state.NameCursor{}
		}
	}
}

// sizeOf returns the approximate size of an object in a reply, in bytes.
func sizeOf(o *lifecycle.Object) int {
	return proto.Size(o.Body) + 512 + len(o.Name) + 256*(len(o.Owners)+len(o.Uses))
}

// If fewer than one in rare objects matches, nodes are not read in batches, but only for
// the objects that match. To read a node by itself takes several times as long.
const rare = 8

// fullWith estimates, from the objects that were read and that matched, whether the page is full
// after a number of further objects (more). Then reading ahead is useless.
func (p *page) fullWith(more, looks, found, size int) bool {
	if looks > 2*found {
		return false // most are left out
	}
	object := 1 << 10
	if found > 0 {
		object = size / found
	}
	return p.limit > 0 && found+more >= p.limit || size+more*object >= p.maxBytes
}

// match reads the object, and reports whether it belongs on the page.
func (p *page) match(snap *state.Snapshot, e state.Named) (o lifecycle.Object, ok bool) {
	if n := e.Node; n != nil && n.Uninitialized() && !p.uninitialized {
		return o, false // its body is not read
	}
	o.Body = snap.BodyOf(e.UID)
	if !p.labels.Matches(o.Body.GetLabels()) {
		return o, false
	}
	if o.Node = e.Node; o.Node == nil {
		o.Node = snap.Node(e.UID)
	}
	// Without a node the snapshot has failed.
	return o, o.Node != nil && (p.uninitialized || !o.Uninitialized())
}

func (s *writerServer) list(q *request, at bus.API) *lifecycle.Error {
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

// Limits of a deletecollection: the objects of one command, and the time after which a
// request returns a continue token.
const (
	collectionChunk = 500
	collectionTime  = 2 * time.Second
)

// deleteCollection lists and deletes in chunks. It deletes each object by the uid that was
// listed: a new object with the same name stays (X13).
func (s *writerServer) deleteCollection(q *request, at bus.API) *lifecycle.Error {
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
func (s *writerServer) deletePage(ctx context.Context, at bus.API, p *page, r *coppicev1.DeleteCollectionRequest) (*coppicev1.ObjectsReply, state.NameCursor, *lifecycle.Error) {
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
	s.w.Submit(&writer.Request{
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
