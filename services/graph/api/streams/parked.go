package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// maxParkedIDs bounds the ids of a request about parked work.
const maxParkedIDs = 1000

// ListParked replies with parked work.
func (s *Server) ListParked(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.ListParkedRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if n := len(r.GetIds()); n > maxParkedIDs {
		return lifecycle.ErrBadRequest("%d ids; a request has at most %d", n, maxParkedIDs)
	}
	filter := ""
	if r.GetSubject() != "" {
		filter = bus.ParkedSubject(s.Realm, r.GetSubject(), 0)
		if from, ok := bus.Unparked(s.Realm, filter); !ok || from != r.GetSubject() || strings.ContainsAny(from, "*>") {
			return lifecycle.ErrBadRequest("subject: %q is not the subject of a call in realm %s", r.GetSubject(), s.Realm)
		}
	}
	s.Within(s.Pages, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		p := parkedPage{limit: int(r.GetLimit()), room: min(q.MaxPayload/3, maxStreamed), content: r.GetContent(), sees: s.seesParked(q)}
		fail := error(nil)
		if len(r.GetIds()) > 0 {
			fail = s.parkedByID(ctx, &p, r.GetIds())
		} else {
			var left uint64
			left, fail = bus.ReadDirect(ctx, s.c.JS.Conn(), bus.DirectRead{
				Stream: bus.ParkedStream(s.Realm), From: r.GetAfter() + 1, Filter: filter, Batch: p.batch(), MaxBytes: 2 * maxStreamed,
			}, func(m bus.DirectMessage) error { return p.add(m.Sequence, m.Subject, m.Data, m.Pending) })
			if fail == nil && left > 0 && p.last > 0 { // the batch ended because of its size
				p.Next = p.last
			}
		}
		if fail != nil && !errors.Is(fail, errEnough) {
			return nil, s.ErrJetStream("parked work", fail)
		}
		return &p.ListParkedReply, nil
	})
	return nil
}

// seesParked returns whether the actor of a request may have a piece of parked work, by the subject on which it is parked. Work of Coppice's own
// services is about many objects. The namespace of an object is that of the object as it is now.
func (s *Server) seesParked(q *serve.Request) func(subject string) bool {
	verb := q.Verb
	if verb == bus.VerbListParked {
		verb = bus.VerbGet
	}
	return func(subject string) bool {
		if q.Rules.MayAll(verb) {
			return true
		}
		from, _ := bus.Unparked(s.Realm, subject)
		resource, id, ok := bus.ObjectOfCall(from)
		if !ok {
			return false
		}
		if q.Rules.MayEverywhere(verb, resource) {
			return true
		}
		u, err := uid.Parse(id)
		if err != nil {
			return false
		}
		snap := s.State.Snapshot()
		defer snap.Close()
		n := snap.Node(u)
		return n != nil && q.Rules.May(verb, resource, n.Namespace)
	}
}

// parkedPage is a page of parked work under construction.
type parkedPage struct {
	coppicev1.ListParkedReply
	limit, room, size int
	content           bool
	sees              func(subject string) bool
	last              uint64 // the last one that was looked at
}

// batch returns how many pieces of work to read. Those that a page has no room for would arrive nevertheless, on the
// connection on which the log is written.
func (p *parkedPage) batch() int {
	if p.limit > 0 {
		return min(p.limit, maxParkedIDs)
	}
	return maxParkedIDs
}

// cut truncates text to what a page has room for.
func cut(s string) string {
	const longest = 4 << 10
	return strings.ToValidUTF8(s[:min(len(s), longest)], "")
}

// add adds parked work, of which left more follow. It fails with errEnough when the page is full.
func (p *parkedPage) add(id uint64, subject string, data []byte, left uint64) error {
	if !p.sees(subject) {
		p.LeftOut++
		p.last = id
		return nil
	}
	w := &coppicev1.Parked{}
	if err := proto.Unmarshal(data, w); err != nil {
		w = &coppicev1.Parked{Error: fmt.Sprintf("this is not parked work: %v", err)}
	}
	// The client that parks work writes these fields, so they can have any length.
	w.Subject, w.Error, w.By = cut(w.GetSubject()), cut(w.GetError()), cut(w.GetBy())
	if !p.content {
		w.Message = nil
	}
	entry := &coppicev1.ParkedWork{Id: id, Work: w}
	n := proto.Size(entry)
	if len(p.Parked) > 0 && (p.size+n > p.room || p.limit > 0 && len(p.Parked) >= p.limit) {
		p.Next = p.Parked[len(p.Parked)-1].GetId()
		return errEnough
	}
	p.Parked, p.size, p.last = append(p.Parked, entry), p.size+n, id
	if len(p.Parked) == maxParkedIDs && left > 0 {
		p.Next = id
	}
	return nil
}

func (s *Server) parkedByID(ctx context.Context, p *parkedPage, ids []uint64) error {
	stream, err := s.c.JS.Stream(ctx, bus.ParkedStream(s.Realm))
	if err != nil {
		return err
	}
	for _, id := range ids {
		m, err := parkedMessage(ctx, stream, id)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err == nil {
			err = p.add(id, m.Subject, m.Data, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parkedMessage reads the message of parked work. No message has the sequence zero.
func parkedMessage(ctx context.Context, stream jetstream.Stream, id uint64) (*jetstream.RawStreamMsg, error) {
	if id == 0 {
		return nil, jetstream.ErrMsgNotFound
	}
	return stream.GetMsg(ctx, id)
}

// RetryParked publishes parked work again on its original subject.
func (s *Server) RetryParked(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.eachParked(q, at, s.republish)
}

// DropParked deletes parked work. The work stays pending in the state, and is published
// again after some time.
func (s *Server) DropParked(q *serve.Request, at bus.API) *lifecycle.Error {
	return s.eachParked(q, at, func(context.Context, *jetstream.RawStreamMsg) *lifecycle.Error { return nil })
}

// eachParked calls do for each piece of parked work, and then deletes it.
func (s *Server) eachParked(q *serve.Request, at bus.API, do func(context.Context, *jetstream.RawStreamMsg) *lifecycle.Error) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.ParkedRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if n := len(r.GetIds()); n == 0 || n > maxParkedIDs {
		return lifecycle.ErrBadRequest("%d ids; a request has 1 to %d", n, maxParkedIDs)
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		stream, fail := s.c.JS.Stream(ctx, bus.ParkedStream(s.Realm))
		if fail != nil {
			return nil, s.ErrJetStream("parked work", fail)
		}
		sees := s.seesParked(q)
		reply := &coppicev1.ParkedReply{}
		for _, id := range r.GetIds() {
			result := &coppicev1.ParkedResult{Id: id}
			if err := s.oneParked(ctx, stream, id, sees, do); err != nil {
				result.Error = err.Status()
			}
			reply.Results = append(reply.Results, result)
		}
		return reply, nil
	})
	return nil
}

func (s *Server) oneParked(
	ctx context.Context, stream jetstream.Stream, id uint64, sees func(subject string) bool, do func(context.Context, *jetstream.RawStreamMsg) *lifecycle.Error,
) *lifecycle.Error {
	m, err := parkedMessage(ctx, stream, id)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && !sees(m.Subject) {
		return &lifecycle.Error{Reason: api.ErrNotFound, Message: fmt.Sprintf("nothing is parked under %d", id)}
	}
	if err != nil {
		return s.ErrJetStream(fmt.Sprintf("parked work %d", id), err)
	}
	if err := do(ctx, m); err != nil {
		return err
	}
	err = stream.DeleteMsg(ctx, id)
	if err == nil {
		return nil
	}
	// Work that is parked again takes the place of what was parked before.
	if _, gone := parkedMessage(ctx, stream, id); errors.Is(gone, jetstream.ErrMsgNotFound) {
		return nil
	}
	return s.ErrJetStream(fmt.Sprintf("parked work %d", id), err)
}

// republish publishes parked work again. The subject on which it is parked decides where it
// is published, and not its content: permissions bind the subject to the worker that parked
// it.
func (s *Server) republish(ctx context.Context, m *jetstream.RawStreamMsg) *lifecycle.Error {
	var p coppicev1.Parked
	subject, ok := bus.Unparked(s.Realm, m.Subject)
	if err := proto.Unmarshal(m.Data, &p); err != nil || !ok || p.GetSubject() != subject {
		return &lifecycle.Error{Reason: api.ErrInvalid, Message: fmt.Sprintf(
			"parked work %d does not come from where it says: it is parked on %s and names %q; drop it", m.Sequence, m.Subject, p.GetSubject())}
	}
	again := &nats.Msg{Subject: subject, Data: p.GetMessage()}
	if _, isQueue := bus.QueueOf(subject); !isQueue {
		again.Header = nats.Header{bus.HeaderContentType: []string{bus.ContentJSON}}
	}
	// Full means that the stream already has a message with this subject.
	if _, err := s.c.JS.PublishMsg(ctx, again); err != nil && bus.Classify(err) != bus.Full {
		return s.ErrJetStream(fmt.Sprintf("parked work %d", m.Sequence), err)
	}
	return nil
}
