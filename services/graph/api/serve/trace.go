package serve

import (
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
)

// startSpan starts the span of a request, which Answer ends. A request whose reply is a stream has none,
// since it may last for hours. An internal request has one only if its sender was traced: it would
// otherwise begin a trace of its own.
func (s *Server) startSpan(q *Request, e *Endpoint) {
	internal := e.actors != nil
	ctx := tracing.Extract(s.Context, nats.Header(q.Headers()))
	if bus.IsStream(q.Verb) || !tracing.Sampled(ctx) && (internal || s.TracerProvider == nil) {
		return
	}
	_, q.Span = s.tracer.Start(ctx, e.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(q.Received))
	if !q.Span.IsRecording() {
		return
	}
	q.Span.SetAttributes(tracing.System, tracing.Realm.String(s.Realm), tracing.Bytes.Int(len(q.Data())))
	at, err := bus.ParseAPI(q.Subject())
	if err != nil {
		return
	}
	q.Span.SetAttributes(tracing.Actor.String(at.Actor))
	if at.Plural != "" {
		q.Span.SetName(e.name + " " + Resource(at))
		q.Span.SetAttributes(tracing.Namespace.String(at.Namespace), tracing.Resource.String(Resource(at)))
	}
}

// endSpan ends the span of the request, if it has one.
func (q *Replier) endSpan(err *lifecycle.Error) {
	switch {
	case q.Span == nil:
	case err != nil:
		tracing.End(q.Span, err)
	default:
		tracing.End(q.Span, nil)
	}
}
