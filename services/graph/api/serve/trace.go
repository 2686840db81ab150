package serve

import (
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
)

// startSpan starts the span of a request, which Answer ends. A request whose reply is a stream has none,
// since it may last for hours, nor has one that every process gets. An internal request, and one of the scanner, has one only if its sender was
// traced: it would otherwise begin a trace of its own.
func (s *Server) startSpan(q *Request, e *Endpoint) {
	ctx := tracing.Extract(s.Context, nats.Header(q.Headers()))
	sampled := tracing.Sampled(ctx)
	if e.all || bus.IsStream(q.Verb) || !sampled && (e.actors != nil || s.TracerProvider == nil) {
		return
	}
	at, err := bus.ParseAPI(q.Subject())
	if !sampled && at.Actor == bus.RoleScanner {
		return
	}
	_, q.Span = s.tracer.Start(ctx, e.name, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(q.Received))
	if !q.Span.IsRecording() {
		return
	}
	q.Span.SetAttributes(tracing.System, tracing.Realm.String(s.Realm), tracing.Bytes.Int(len(q.Data())))
	if err != nil {
		return
	}
	q.Span.SetAttributes(tracing.Text(tracing.Actor, at.Actor))
	if at.Plural != "" {
		tracing.SetName(q.Span, e.name+" "+Resource(at))
		q.Span.SetAttributes(tracing.Text(tracing.Namespace, at.Namespace), tracing.Text(tracing.Resource, Resource(at)))
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
