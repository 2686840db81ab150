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
	ctx, span := c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(tracing.System, tracing.Realm.String(a.Realm), tracing.Actor.String(a.Actor), tracing.Namespace.String(a.Namespace))
	}
	return ctx, span
}

// startBatch starts the span of a batch, in the trace of the first caller that is traced. It is linked with the other callers.
func (c *Client) startBatch(b *batchOf) (context.Context, trace.Span) {
	var callers []trace.SpanContext
	for _, m := range b.members {
		if m.trace.IsSampled() {
			callers = append(callers, m.trace)
		}
	}
	if len(callers) == 0 {
		return b.ctx, noop.Span{}
	}
	ctx := trace.ContextWithSpanContext(b.ctx, callers[0])
	if c.tracer == nil {
		return ctx, noop.Span{}
	}
	return c.tracer.Start(ctx, "batch", trace.WithLinks(tracing.Links(callers[1:])...),
		trace.WithAttributes(tracing.Objects.Int(len(b.members))))
}
