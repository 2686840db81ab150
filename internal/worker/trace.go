package worker

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coppice-gc/coppice/internal/tracing"
)

// startSpan starts the span of a message that carries the trace of a sampled request. Another message has none: it
// would begin a trace of its own.
func (c *Config) startSpan(ctx context.Context, m *Message) (context.Context, trace.Span) {
	ctx = tracing.Extract(ctx, m.header)
	if !tracing.Sampled(ctx) {
		return ctx, noop.Span{}
	}
	return c.Tracer.Start(ctx, "process", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(tracing.System, tracing.Text(tracing.Subject, m.Subject), tracing.Realm.String(c.Realm), tracing.Attempt.Int64(int64(m.Delivered))))
}
