// Package tracing carries OpenTelemetry's trace context in the headers of NATS messages, and names
// the spans of Coppice. It uses OpenTelemetry's API only: a program that configures an SDK passes
// its TracerProvider to the client or to the services, and without one no span is recorded.
//
// A trace begins with a request of a client. Its context travels in the headers traceparent and
// tracestate (W3C Trace Context):
//
//	client ─ request ─► writer ─ commit ─► propagator ─ work, call ─► processor, finalizers, program
//	                      ▲                                                │
//	                      └──────────────── request ───────────────────────┘
//
// so that one trace has the requests, commits and messages of a whole cascade. The context of
// pending work is in the memory of the writer's process only, and bounded: losing it, as at a
// fail-over, ends the trace early and has no other effect.
//
// The functions are safe for concurrent use.
package tracing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coppice-gc/coppice/client/api"
)

// Scope is the name of the instrumentation scope of all spans of Coppice.
const Scope = "github.com/coppice-gc/coppice"

// The attributes of spans.
const (
	Realm     = attribute.Key("coppice.realm")
	Resource  = attribute.Key("coppice.resource")
	Namespace = attribute.Key("coppice.namespace")
	Finalizer = attribute.Key("coppice.finalizer")
	UID       = attribute.Key("coppice.uid")
	Actor     = attribute.Key("coppice.actor")
	Reason    = attribute.Key("coppice.reason")   // of a refusal, such as NotFound
	Revision  = attribute.Key("coppice.revision") // after a commit
	Sequence  = attribute.Key("coppice.sequence") // of a commit
	Events    = attribute.Key("coppice.events")   // number of events of a commit
	Requests  = attribute.Key("coppice.requests") // number of requests that a commit answers
	Objects   = attribute.Key("coppice.objects")  // number of objects of a message
	Subject   = attribute.Key("messaging.destination.name")
	Attempt   = attribute.Key("messaging.nats.delivered") // number of deliveries of a message
	Bytes     = attribute.Key("messaging.message.body.size")
)

// maxText is the maximum length of a text in a span, in bytes.
const maxText = 1 << 10

// Text returns an attribute with a text of a client. What is not UTF-8 is replaced: an exporter would drop all spans
// of a batch with it.
func Text(key attribute.Key, text string) attribute.KeyValue { return key.String(valid(text)) }

// SetName names a span, also after a text of a client.
func SetName(span trace.Span, name string) { span.SetName(valid(name)) }

func valid(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
}

// System names NATS in the spans of messages.
var System = attribute.String("messaging.system", "nats")

// Tracer returns the tracer of Coppice's spans. Without a provider, which may be nil, its spans
// record nothing, and contexts pass through them.
func Tracer(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		p = noop.NewTracerProvider()
	}
	return p.Tracer(Scope)
}

// The headers of a message that carry its trace context. NATS headers are case-sensitive.
const (
	HeaderParent = "traceparent"
	HeaderState  = "tracestate"
)

// maxState is the longest tracestate that is passed on, in bytes. W3C Trace Context asks for 512.
const maxState = 512

// carrier has the trace context of a message.
type carrier nats.Header

func (c carrier) Get(key string) string {
	v := nats.Header(c).Get(key)
	if key == HeaderState && len(v) > maxState {
		return ""
	}
	return v
}

func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }

func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }

var headers propagation.TraceContext

// Inject adds the trace context of ctx to the headers of a message, if there is one, and returns
// them. It may change h, which may be nil.
func Inject(ctx context.Context, h nats.Header) nats.Header {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return h
	}
	if h == nil {
		h = nats.Header{}
	}
	headers.Inject(ctx, carrier(h))
	return h
}

// Extract returns ctx with the trace context of a message, or ctx itself if the message has none, or
// one that is invalid.
func Extract(ctx context.Context, h nats.Header) context.Context {
	if len(h[HeaderParent]) == 0 {
		return ctx
	}
	return headers.Extract(ctx, carrier(h))
}

// Sampled reports whether spans with the context of ctx as their parent are recorded by default.
func Sampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// End ends a span. An error sets its status and, if it is a refusal, its reason.
func End(span trace.Span, err error) {
	if err != nil && span.IsRecording() {
		span.SetStatus(codes.Error, valid(err.Error()))
		var e *api.Error
		if errors.As(err, &e) {
			span.SetAttributes(Reason.String(string(e.Reason)))
		}
	}
	span.End()
}

// Links returns links to the contexts of other traces.
func Links(contexts []trace.SpanContext) []trace.Link {
	links := make([]trace.Link, 0, len(contexts))
	for _, c := range contexts {
		links = append(links, trace.Link{SpanContext: c})
	}
	return links
}
