package writer

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
)

// traced has the traces of a commit: the sampled requests that it has decided, and the objects that they
// have changed. The zero traced has none.
type traced struct {
	requests []trace.Span
	current  trace.Span // of the request that is being decided; nil unless it is sampled
	of       Traces
}

// Traces has the traces of the sampled requests of a commit by the uids of objects.
type Traces struct {
	// Changed are the objects that a request has changed.
	Changed map[uid.UID]trace.SpanContext
	// Related are their owners and what they use: a change of an object may be all that their work waits for.
	Related map[uid.UID]trace.SpanContext
}

// begin begins a request.
func (t *traced) begin(r *Request) {
	t.current = nil
	if r.Span != nil && r.Span.SpanContext().IsSampled() {
		t.current = r.Span
	}
}

// added notes that the commit has the command of the current request. This note, and that of changed, stay if the
// change is rolled back: the trace of a request then names a commit that has nothing of it.
func (t *traced) added() {
	if t.current != nil {
		t.requests = append(t.requests, t.current)
	}
}

// changed notes that the current request has changed an object, which has a node.
func (t *traced) changed(u uid.UID, n *lifecycle.Node) {
	if t.current == nil {
		return
	}
	if t.of.Changed == nil {
		t.of = Traces{map[uid.UID]trace.SpanContext{}, map[uid.UID]trace.SpanContext{}}
	}
	of := t.current.SpanContext()
	t.of.Changed[u] = of
	for i := range n.Owners {
		t.of.Related[n.Owners[i].UID] = of
	}
	for i := range n.Uses {
		t.of.Related[n.Uses[i].UID] = of
	}
}

// startSpan starts the span of a commit. It belongs to the trace of the first sampled request of the
// commit, and is linked with the others. Without a sampled request it records nothing.
func (w *Writer) startSpan(f *inFlightCommit) trace.Span {
	requests := f.d.traced.requests
	if len(requests) == 0 {
		return noop.Span{}
	}
	var others []trace.SpanContext
	for _, r := range requests[1:] {
		others = append(others, r.SpanContext())
	}
	ctx := trace.ContextWithSpanContext(context.Background(), requests[0].SpanContext())
	_, span := w.c.Tracer.Start(ctx, "commit", trace.WithTimestamp(f.sent.Add(-f.decideTook)), trace.WithLinks(tracing.Links(others)...),
		trace.WithAttributes(tracing.Realm.String(w.c.Realm), tracing.Sequence.Int64(int64(f.chain.Sequence)),
			tracing.Revision.Int64(int64(f.chain.Revision)), tracing.Events.Int64(int64(f.events)),
			tracing.Requests.Int(len(f.outcomes)), tracing.Bytes.Int(f.size)))
	for _, r := range requests[1:] {
		r.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return span
}
