package serve

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// subject is where the tests' endpoint is.
var subject = bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleReader, Verb: bus.VerbGet, Plural: "pods", Namespace: "shop"}.Subject()

// oneEndpoint is a service with one endpoint, and a client of it.
type oneEndpoint struct {
	t      *testing.T
	ctx    context.Context
	server *Server
	client *nats.Conn
}

func serve(t *testing.T, handle func(*Server, *Request)) *oneEndpoint {
	t.Helper()
	return serveWithin(t, Shares{}, handle)
}

// serveWithin is serve for a service that shares places with those of other realms.
func serveWithin(t *testing.T, shared Shares, handle func(*Server, *Request)) *oneEndpoint {
	t.Helper()
	n := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), MaxPayload: 64 << 10})
	b := &oneEndpoint{t: t, ctx: testkit.Context(t), client: testkit.Conn(t, n, bus.RoleReader)}
	s, err := New(Config{Realm: bus.DefaultRealm, Conn: testkit.Conn(t, n, bus.RoleAnswers), Log: slog.New(slog.DiscardHandler)}, shared, "coppice-test", "a test", "")
	must.Succeed(t, err)
	b.server = s
	t.Cleanup(func() { _ = s.Stop() })
	if _, err := s.Serve(s.Verb(bus.VerbGet, func(q *Request, _ bus.API) *lifecycle.Error { handle(s, q); return nil })); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *oneEndpoint) request(contentType string, data []byte) *nats.Msg {
	b.t.Helper()
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}}
	if contentType != "" {
		m.Header.Set(bus.HeaderContentType, contentType)
	}
	reply, err := b.client.RequestMsgWithContext(b.ctx, m)
	must.Succeed(b.t, err)
	return reply
}

// refused checks an error: its headers, and its body in the encoding of the
// request.
func refused(t *testing.T, m *nats.Msg, contentType, code string, reason lifecycle.Reason, says string) {
	t.Helper()
	h := m.Header
	if h.Get(micro.ErrorCodeHeader) != code || h.Get(bus.HeaderReason) != string(reason) ||
		!strings.Contains(h.Get(micro.ErrorHeader), says) || h.Get(bus.HeaderContentType) != contentType {
		t.Errorf("the headers are %v; want %s %s with %q as %s", h, code, reason, says, contentType)
	}
	var status coppicev1.Status
	err := proto.Unmarshal(m.Data, &status)
	if contentType == bus.ContentJSON {
		err = manifest.UnmarshalMessage(m.Data, &status)
	}
	if err != nil || status.GetReason() != string(reason) || !strings.Contains(status.GetMessage(), says) {
		t.Errorf("the body is %v, %v", &status, err)
	}
}

// A request is answered in its own encoding: protobuf, or JSON.
func TestEncodings(t *testing.T) {
	t.Parallel()
	b := serve(t, func(_ *Server, q *Request) {
		var r coppicev1.GetRequest
		err := q.Read(&r)
		q.Answer(&coppicev1.ObjectsReply{Revision: uint64(len(r.GetNames()))}, err)
	})
	packed, err := proto.Marshal(&coppicev1.GetRequest{Protocol: bus.Protocol, Names: []string{"a", "b"}})
	must.Succeed(t, err)
	later := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	for _, c := range []struct {
		contentType string
		data        []byte
		answer      string
		revision    uint64
	}{
		{"", packed, bus.ContentProtobuf, 2},
		{bus.ContentProtobuf, packed, bus.ContentProtobuf, 2},
		{bus.ContentJSON, []byte(`{"protocol":1,"names":["a","b","c"]}`), bus.ContentJSON, 3},
		{"", append(slices.Clip(packed), later...), bus.ContentProtobuf, 2}, // with a field of a later version
	} {
		m := b.request(c.contentType, c.data)
		var reply coppicev1.ObjectsReply
		err := proto.Unmarshal(m.Data, &reply)
		if c.answer == bus.ContentJSON {
			err = manifest.UnmarshalMessage(m.Data, &reply)
		}
		if got := m.Header.Get(bus.HeaderContentType); err != nil || got != c.answer || reply.GetRevision() != c.revision {
			t.Errorf("%q: %v as %q, %v; want revision %d as %q", c.contentType, &reply, got, err, c.revision, c.answer)
		}
	}
	// A body without the version of its format is no request; an empty body has none.
	for _, c := range []struct {
		contentType, answer string
		data                []byte
	}{
		{"", bus.ContentProtobuf, nil}, {bus.ContentJSON, bus.ContentJSON, []byte(`{}`)}, {bus.ContentJSON, bus.ContentJSON, []byte(`{"names":["a"]}`)},
		{bus.ContentJSON, bus.ContentJSON, []byte(`{"protocol":2,"names":["a"]}`)},
	} {
		refused(t, b.request(c.contentType, c.data), c.answer, "400", api.ErrBadRequest, "protocol")
	}
	refused(t, b.request(bus.ContentJSON, nil), bus.ContentJSON, "400", api.ErrBadRequest, "as JSON")
	refused(t, b.request("", []byte{0xff}), bus.ContentProtobuf, "400", api.ErrBadRequest, "not a coppice.v1.GetRequest as protobuf")
	refused(t, b.request(bus.ContentJSON, []byte(`{"protocol":1,"nanes":["a"]}`)), bus.ContentJSON, "400", api.ErrBadRequest, `unknown field "nanes"`)
	refused(t, b.request(bus.ContentJSON, []byte(`{"names":`)), bus.ContentJSON, "400", api.ErrBadRequest, "not a coppice.v1.GetRequest as JSON")
	refused(t, b.request("text/plain", packed), bus.ContentProtobuf, "400", api.ErrBadRequest, bus.ContentJSON)
}

// An error has its code, its reason and its message in headers, of one line,
// and all of it in the body.
func TestErrorHeaders(t *testing.T) {
	t.Parallel()
	b := serve(t, func(_ *Server, q *Request) {
		q.Answer(nil, &lifecycle.Error{
			Reason: api.ErrTooManyRequests, Message: "two\nlines\x00", RetryAfter: 1500 * time.Millisecond,
			Resource: "pods", Name: "a", Causes: []lifecycle.Cause{{Field: "metadata.name", Message: "no"}},
		})
	})
	m := b.request("", nil)
	if got := m.Header.Get(bus.HeaderRetryAfter); got != "1500" {
		t.Errorf("retry after %q", got)
	}
	refused(t, m, bus.ContentProtobuf, "429", api.ErrTooManyRequests, "two")
	if got := m.Header.Get(micro.ErrorHeader); strings.ContainsAny(got, "\n\x00") {
		t.Errorf("the header has %q", got)
	}
	var status coppicev1.Status
	must.Succeed(t, proto.Unmarshal(m.Data, &status))
	e := api.ErrorOf(&status)
	if e.Name != "a" || len(e.Causes) != 1 || e.Causes[0].Field != "metadata.name" {
		t.Errorf("the body is %+v", e)
	}
}

// A reply that does not fit into a message becomes an error that says so.
func TestReplyTooLarge(t *testing.T) {
	t.Parallel()
	b := serve(t, func(_ *Server, q *Request) {
		q.Answer(&coppicev1.ListReply{Continue: strings.Repeat("x", len(q.Data()))}, nil)
	})
	if m := b.request(bus.ContentJSON, make([]byte, 32<<10)); m.Header.Get(micro.ErrorCodeHeader) != "" {
		t.Errorf("what fits is refused: %v", m.Header)
	}
	refused(t, b.request(bus.ContentJSON, make([]byte, 63<<10+100)), bus.ContentJSON, "413", api.ErrRequestEntityTooLarge, "ask for less")
}

// An error that does not fit into a message is truncated: the client gets its
// reason and the beginning of what it says, in either encoding.
func TestErrorTooLarge(t *testing.T) {
	t.Parallel()
	b := serve(t, func(_ *Server, q *Request) {
		causes := make([]lifecycle.Cause, 1000)
		for i := range causes {
			causes[i] = lifecycle.Cause{Reason: "FieldValueInvalid", Field: "metadata.name", Message: strings.Repeat("\x01", 1<<10)}
		}
		q.Answer(nil, &lifecycle.Error{Reason: api.ErrInvalid, Message: "begins" + strings.Repeat("\x01", 1<<20), Name: strings.Repeat("n", 1<<20), Causes: causes})
	})
	refused(t, b.request("", nil), bus.ContentProtobuf, "422", api.ErrInvalid, "begins")
	refused(t, b.request(bus.ContentJSON, nil), bus.ContentJSON, "422", api.ErrInvalid, "begins")
}

// Reads of one actor run alongside each other, as many as are allowed; one more is
// refused as retryable.
func TestTooManyReads(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	begun := make(chan struct{}, actorReads)
	b := serve(t, func(s *Server, q *Request) {
		s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
			begun <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return &coppicev1.ListReply{}, nil
		})
	})
	replies := make(chan *nats.Msg, actorReads)
	inbox := b.client.NewInbox()
	sub, err := b.client.Subscribe(inbox, func(m *nats.Msg) { replies <- m })
	must.Succeed(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	for range actorReads {
		must.Succeed(t, b.client.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}}))
		testkit.Receive(t, b.ctx, "a read to begin", begun)
	}
	refused(t, b.request("", nil), bus.ContentProtobuf, "429", api.ErrTooManyRequests, "too many reads")
	close(release)
	for range actorReads {
		if m := testkit.Receive(t, b.ctx, "a reply", replies); m.Header.Get(micro.ErrorCodeHeader) != "" {
			t.Errorf("a read was refused: %v", m.Header)
		}
	}
}

// TestStop shows that Stop cancels the context of each running request and waits for it.
func TestStop(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	var ended error
	b := serve(t, func(s *Server, q *Request) {
		s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
			close(begun)
			<-ctx.Done()
			ended = ctx.Err()
			return &coppicev1.ListReply{}, nil
		})
	})
	must.Succeed(t, b.client.PublishMsg(&nats.Msg{Subject: subject, Reply: b.client.NewInbox(), Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}}))
	testkit.Receive(t, b.ctx, "the read to begin", begun)
	must.Succeed(t, b.server.Stop())
	if !errors.Is(ended, context.Canceled) {
		t.Errorf("stopped while a read was under way: %v", ended)
	}
	if b.server.Start(func() { t.Error("something begins after the end") }) {
		t.Error("something may begin after the end")
	}
}
