package serve

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Request is a request with the encoding that its sender prefers.
type Request struct {
	micro.Request
	Replier
	// Received is when the request was received, and Expires when the sender stops waiting for the reply; zero if
	// it does not say so.
	Received, Expires time.Time
	// Rules are what the users file allows the actor; nil if it does not name the actor, and for internal operations.
	Rules *access.Rules

	rulesNow func() *access.Rules // nil for internal operations
}

// Replier is what is needed of a request to reply to it. It does not refer to the body, so
// that a command whose reply is due does not keep it in memory.
type Replier struct {
	// Verb is the verb or operation.
	Verb string
	// JSON is set if the sender wants JSON.
	JSON bool
	// MaxPayload is the maximum size of a message in bytes.
	MaxPayload int
	// Span is the span of the request; nil if it has none. Answer ends it.
	Span trace.Span

	nc      *nats.Conn
	reply   string // subject
	subject string
	actor   string                                             // of an operation, for refused; empty for the one that the subject names
	refused func(actor, verb string, reason api.Reason, n int) // nil for none
}

func (s *Server) newRequest(r micro.Request) (*Request, *lifecycle.Error) {
	q := &Request{Request: r, Received: time.Now(), Replier: Replier{
		nc: s.Conn, Verb: bus.RequestName(r.Subject()), reply: r.Reply(), MaxPayload: int(s.Conn.MaxPayload()), subject: r.Subject(), refused: s.Refused,
	}}
	switch t := r.Headers().Get(bus.HeaderContentType); t {
	case "", bus.ContentProtobuf:
	case bus.ContentJSON:
		q.JSON = true
	default:
		return q, lifecycle.ErrBadRequest("%s: %q is not supported; use %s or %s", bus.HeaderContentType, t, bus.ContentProtobuf, bus.ContentJSON)
	}
	if text := r.Headers().Get(bus.HeaderTimeout); text != "" {
		ms, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return q, lifecycle.ErrBadRequest("%s: %q is not a number of milliseconds", bus.HeaderTimeout, text)
		}
		if ms <= maxTimeout {
			q.Expires = q.Received.Add(time.Duration(ms) * time.Millisecond)
		}
	}
	return q, nil
}

// maxTimeout is the timeout in milliseconds from which on a request does not expire: a day.
const maxTimeout = 24 * 60 * 60 * 1000

// Versioned is the message of a request, which has the version of its format.
type Versioned interface {
	proto.Message
	GetProtocol() uint32
}

// Read decodes the body. A body without the version of its format is refused, and so is an
// empty body: it is the reply to another request, or a mistake.
func (q *Request) Read(m Versioned) *lifecycle.Error {
	var err error
	if q.JSON {
		err = manifest.UnmarshalMessage(q.Data(), m)
	} else {
		err = objectcodec.Unmarshal(q.Data(), m)
	}
	if err != nil {
		encoding := "protobuf"
		if q.JSON {
			encoding = "JSON"
		}
		return lifecycle.ErrBadRequest("the request is not a %s as %s: %v", m.ProtoReflect().Descriptor().FullName(), encoding, err)
	}
	if m.GetProtocol() != bus.Protocol {
		return lifecycle.ErrBadRequest("protocol: %d; a %s has protocol %d", m.GetProtocol(), m.ProtoReflect().Descriptor().FullName(), bus.Protocol)
	}
	return nil
}

// CommandID returns the id of the command, zero if the sender set none. now is the server's
// time.
func (q *Request) CommandID(now time.Time) (id state.CommandID, err *lifecycle.Error) {
	text := q.Headers().Get(bus.HeaderCommand)
	if text == "" {
		return id, nil
	}
	u, fail := uuid.Parse(text)
	if fail != nil || u == uuid.Nil {
		return id, writer.ErrCommandID(lifecycle.TimeOf(now), "%s: %q is not a UUID", bus.HeaderCommand, text)
	}
	return state.CommandID(u), nil // the writer knows whether it accepts the time in it
}

// Answer sends a reply, or an error if err is not nil. If a reply is larger than the bus
// allows, it sends an error; an error that is larger is truncated. For a verb whose reply
// is a stream, Answer sends the only message of the stream and ends it.
func (q *Replier) Answer(m proto.Message, err *lifecycle.Error) {
	if bus.IsStream(q.Verb) {
		defer q.End()
	}
	defer func() { q.endSpan(err) }()
	if err == nil {
		data, fail := q.Encode(m)
		switch {
		case fail != nil:
			err = &lifecycle.Error{Reason: api.ErrInternalError, Message: "the reply cannot be encoded: " + fail.Error()}
		case len(data) > q.MaxPayload-ReplyMargin:
			err = ErrReplyTooLarge()
		default:
			q.countResults(m)
			q.send(nats.Header{}, data)
			return
		}
	}
	q.count(err.Reason, 1)
	err = lifecycle.Truncate(err, q.MaxError())
	data, _ := q.Encode(err.Status())
	header := nats.Header{
		micro.ErrorCodeHeader: []string{strconv.Itoa(int(err.Reason.Code()))},
		micro.ErrorHeader:     []string{oneLine(err.Message)},
		bus.HeaderReason:      []string{string(err.Reason)},
	}
	if !err.ServerTime.IsZero() {
		header[bus.HeaderTime] = []string{strconv.FormatInt(err.ServerTime.UnixMilli(), 10)}
	}
	if err.RetryAfter > 0 {
		header[bus.HeaderRetryAfter] = []string{strconv.FormatInt(err.RetryAfter.Milliseconds(), 10)}
	}
	q.send(header, data)
}

// count reports refusals of the request.
func (q *Replier) count(reason api.Reason, n int) {
	if q.refused == nil || reason.Code()/100 != 4 {
		return
	}
	actor := q.actor
	if t := strings.SplitN(q.subject, ".", 5); actor == "" && len(t) > 3 {
		actor = t[3]
	}
	q.refused(actor, q.Verb, reason, n)
}

// countResults reports the refusals of objects in a reply.
func (q *Replier) countResults(m proto.Message) {
	r, ok := m.(*coppicev1.ObjectsReply)
	if !ok || q.refused == nil {
		return
	}
	var counts map[string]int
	for _, result := range r.GetResults() {
		if result.GetError() == nil {
			continue
		}
		if counts == nil {
			counts = map[string]int{}
		}
		counts[result.GetError().GetReason()]++
	}
	for reason, n := range counts {
		q.count(api.Reason(reason), n)
	}
}

// ErrReplyTooLarge returns the error for a reply that does not fit into a message.
func ErrReplyTooLarge() *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: "the reply does not fit into a message; ask for less at once"}
}

// MaxError returns the maximum size of an error's text in bytes. Escaped as JSON the text
// can be six times as long, and must fit into a message.
func (q *Replier) MaxError() int { return min(q.MaxPayload/8, 64<<10) }

// send sends a reply. Only the handler's goroutine may call the methods of a micro.Request,
// and most replies are sent by other goroutines.
func (q *Replier) send(header nats.Header, data []byte) {
	header[bus.HeaderContentType] = []string{q.contentType()}
	// If this fails, the client has no reply, and its request times out.
	_ = q.nc.PublishMsg(&nats.Msg{Subject: q.reply, Header: header, Data: data})
}

// End ends a reply that is a stream, by an empty message without headers. If the request
// came from another account, the NATS server then removes the mapping of its reply subject.
func (q *Replier) End() { _ = q.nc.Publish(q.reply, nil) }

// ReplyMargin is room for the headers of a reply.
const ReplyMargin = 1 << 10

func (q *Replier) contentType() string {
	if q.JSON {
		return bus.ContentJSON
	}
	return bus.ContentProtobuf
}

// Encode encodes a message as the client asks for it.
func (q *Replier) Encode(m proto.Message) ([]byte, error) {
	if q.JSON {
		return manifest.MarshalMessage(m)
	}
	return objectcodec.Marshal(m)
}

// oneLine returns a message without the characters that a header cannot have.
func oneLine(s string) string {
	const longest = 1024
	b := make([]byte, 0, min(len(s), longest))
	for i := 0; i < len(s) && len(b) < longest; i++ {
		if c := s[i]; c >= ' ' && c != 0x7f {
			b = append(b, c)
		} else {
			b = append(b, ' ')
		}
	}
	return string(b)
}
