package propagator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// traced notes a request of a new trace for a row.
func traced(p *Propagator, u uid.UID) trace.Span {
	_, span := p.c.Tracer.Start(context.Background(), "request")
	p.Trace([]state.WorkChange{{UID: u, Has: true}}, map[uid.UID]trace.SpanContext{u: span.SpanContext()}, nil)
	return span
}

// A message about the work of several traces carries the first. Its span is linked with the other requests, and each of
// the other traces has a span that is linked with it.
func TestMessageOfSeveralTraces(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	p := New(Config{Tracer: tracing.Tracer(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))})
	first, second := traced(p, "a"), traced(p, "c")
	_, sameTrace := p.c.Tracer.Start(trace.ContextWithSpan(context.Background(), first), "request")
	p.Trace([]state.WorkChange{{UID: "d", Has: true}, {UID: "gone"}}, map[uid.UID]trace.SpanContext{
		"d": sameTrace.SpanContext(), "gone": second.SpanContext(), "without a row": second.SpanContext(),
	}, nil)
	p.Trace([]state.WorkChange{{UID: "a", Has: true}, {UID: "owner", Has: true}}, map[uid.UID]trace.SpanContext{"x": second.SpanContext()},
		map[uid.UID]trace.SpanContext{"a": second.SpanContext(), "owner": second.SpanContext()})
	if got := p.traces.requests(just("owner")); len(got) != 1 || !got[0].Equal(second.SpanContext()) {
		t.Errorf("the row of an owner has the trace %v", got)
	}
	p.traces.forget([]uid.UID{"owner"})
	if n := len(p.traces.of); n != 3 {
		t.Errorf("%d rows have a trace, want 3", n)
	}
	s := p.startSpan("work", slices.Values([]uid.UID{"a", "untraced", "a", "c", "d", "gone"}))
	h := s.inject(nil)
	s.end(errors.New("refused"))
	ended := recorder.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans, want one in each trace", len(ended))
	}
	main, other := ended[0], ended[1]
	if !main.Parent().Equal(first.SpanContext()) || !other.Parent().Equal(second.SpanContext()) {
		t.Errorf("the parents are %v and %v", main.Parent(), other.Parent())
	}
	if l := main.Links(); len(l) != 2 || !l[0].SpanContext.Equal(second.SpanContext()) || !l[1].SpanContext.Equal(sameTrace.SpanContext()) {
		t.Errorf("the span is linked with %v", l)
	}
	if l := other.Links(); len(l) != 1 || !l[0].SpanContext.Equal(main.SpanContext()) {
		t.Errorf("the span of the other trace is linked with %v", l)
	}
	if got := trace.SpanContextFromContext(tracing.Extract(context.Background(), h)); got.SpanID() != main.SpanContext().SpanID() {
		t.Errorf("the message carries %v", got)
	}
	if main.Status().Description != "refused" {
		t.Errorf("the span ended with %v", main.Status())
	}
	if s := p.startSpan("work", just("untraced")); s.inject(nil) != nil {
		t.Error("a message without a trace has headers")
	}
}

// The traces of rows take a bounded amount of memory: those that were kept longest are dropped.
func TestTracesAreBounded(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	of := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
	const extra = 10
	for i := range maxTraces + extra {
		u := uid.UID(fmt.Sprint(i))
		p.Trace([]state.WorkChange{{UID: u, Has: true}}, map[uid.UID]trace.SpanContext{u: of}, nil)
	}
	for i, want := range map[int]bool{extra - 1: false, extra: true, maxTraces + extra - 1: true} {
		if has := len(p.traces.requests(just(uid.UID(fmt.Sprint(i))))) > 0; has != want {
			t.Errorf("row %d has a trace: %t", i, has)
		}
	}
	for i := range 5 * maxTraces {
		u := uid.UID(fmt.Sprint("short-", i%3)) // the same ones again and again
		p.Trace([]state.WorkChange{{UID: u, Has: true}}, map[uid.UID]trace.SpanContext{u: of}, nil)
		p.traces.forget([]uid.UID{u})
	}
	if n := len(p.traces.order); n > 2*maxTraces || len(p.traces.of) > maxTraces {
		t.Errorf("%d traces in an order of %d", len(p.traces.of), n)
	}
}
