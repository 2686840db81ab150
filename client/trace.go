package client

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/tracing"
)

// startSpan starts the span of a request, which lasts until the last of its attempts has ended.
func (c *Client) startSpan(ctx context.Context, a bus.API) (context.Context, trace.Span) {
	if c.tracer == nil {
		return ctx, noop.Span{}
	}
	name := a.Verb
	if a.Plural != "" {
		name += " " + Resource{Group: a.Group, Plural: a.Plural}.String()
	}
	ctx, span := c.tracer.Start(ctx, a.Verb, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		tracing.SetName(span, name)
		span.SetAttributes(tracing.System, tracing.Realm.String(a.Realm), tracing.Text(tracing.Actor, a.Actor), tracing.Text(tracing.Namespace, a.Namespace))
	}
	return ctx, span
}

// startBatch starts the span of a batch, in the trace of the first caller that is traced. It is linked with the other callers.
// If no caller is sampled, the request says so.
func (c *Client) startBatch(b *batchOf) (context.Context, trace.Span) {
	var callers []trace.SpanContext
	ctx := b.ctx
	for _, m := range b.members {
		if m.trace.IsSampled() {
			callers = append(callers, m.trace)
		} else if m.trace.IsValid() && ctx == b.ctx {
			ctx = trace.ContextWithSpanContext(b.ctx, m.trace) // so that the service does not begin another trace
		}
	}
	if len(callers) == 0 {
		return ctx, noop.Span{}
	}
	ctx = trace.ContextWithSpanContext(b.ctx, callers[0])
	if c.tracer == nil {
		return ctx, noop.Span{}
	}
	return c.tracer.Start(ctx, "batch", trace.WithLinks(tracing.Links(callers[1:])...),
		trace.WithAttributes(tracing.Objects.Int(len(b.members))))
}
