package propagator

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Bounds of traces.
const (
	// maxTraces is the maximum number of rows of which the trace is kept, about 200 bytes each. With more, the
	// trace of a row that was kept longest is dropped.
	maxTraces = 1 << 14
	// maxLinked is the maximum number of requests that the span of a message names.
	maxLinked = 32
)

// traces has, for rows, the context of the last sampled request that changed their object. A message about a row
// continues this trace. It is safe for concurrent use.
type traces struct {
	mu    sync.Mutex
	of    map[uid.UID]rowTrace
	added uint64
	order []addedRow // those of rows that were forgotten are removed when there are many
}

type rowTrace struct {
	trace.SpanContext
	added uint64
}

// addedRow is a row in the order in which traces of rows were added, which added counts.
type addedRow struct {
	uid   uid.UID
	added uint64
}

func newTraces() *traces { return &traces{of: map[uid.UID]rowTrace{}} }

// Trace notes the traces of the rows that a commit changed. changed has those of the objects that the commit changed; related
// has those of their owners and of what they use, whose rows keep the trace that they have. Both are nil for none. Call Trace
// before Notify.
func (p *Propagator) Trace(rows []state.WorkChange, changed, related map[uid.UID]trace.SpanContext) {
	if len(changed) > 0 {
		p.traces.add(rows, changed, related)
	}
}

func (t *traces) add(changes []state.WorkChange, changed, related map[uid.UID]trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range changes {
		u := changes[i].UID
		if !changes[i].Has {
			continue
		}
		row, has := t.of[u]
		c, traced := changed[u]
		if !traced && !has {
			c, traced = related[u]
		}
		if !traced {
			continue
		}
		if !has {
			t.added++
			row.added = t.added
			t.order = append(t.order, addedRow{u, t.added})
		}
		row.SpanContext = c.WithTraceState(trace.TraceState{}) // a client can make it large
		t.of[u] = row
	}
	for len(t.of) > maxTraces {
		if first := t.order[0]; t.current(first) {
			delete(t.of, first.uid)
		}
		t.order = t.order[1:]
	}
	if len(t.order) > 2*maxTraces {
		t.order = slices.DeleteFunc(slices.Clone(t.order), func(a addedRow) bool { return !t.current(a) })
	}
}

// current reports whether a row was not forgotten since it was added.
func (t *traces) current(a addedRow) bool { return t.of[a.uid].added == a.added }

// forget forgets rows that are gone.
func (t *traces) forget(gone []uid.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.of) == 0 {
		return
	}
	for _, u := range gone {
		delete(t.of, u)
	}
	if len(t.of) == 0 {
		t.order = nil
	}
}

// requests returns the contexts of the requests that have caused the work of rows, each once.
func (t *traces) requests(rows iter.Seq[uid.UID]) (list []trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.of) == 0 {
		return nil
	}
	for u := range rows {
		c, traced := t.of[u]
		if traced && !slices.ContainsFunc(list, c.Equal) {
			if list = append(list, c.SpanContext); len(list) == maxLinked {
				break
			}
		}
	}
	return list
}

// messageSpan is the span of a message, from its publication until the stream has it. The zero messageSpan is none.
type messageSpan struct {
	ctx   context.Context //nolint:containedctx // the context of the trace, which the message carries
	spans []trace.Span
}

// startSpan starts the span of a message about rows. If several traces have caused the work, the message
// carries the first of them: its span is linked with the requests of the others, and each of these traces has
// a span that is linked with it.
func (p *Propagator) startSpan(subject string, rows iter.Seq[uid.UID]) (s messageSpan) {
	requests := p.traces.requests(rows)
	if len(requests) == 0 {
		return s
	}
	start := func(of trace.SpanContext, links ...trace.SpanContext) context.Context {
		ctx := trace.ContextWithSpanContext(context.Background(), of)
		ctx, span := p.c.Tracer.Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(tracing.Links(links)...),
			trace.WithAttributes(tracing.System, tracing.Text(tracing.Subject, subject), tracing.Realm.String(p.c.Realm)))
		s.spans = append(s.spans, span)
		return ctx
	}
	s.ctx = start(requests[0], requests[1:]...)
	carried := trace.SpanContextFromContext(s.ctx)
	has := map[trace.TraceID]bool{carried.TraceID(): true}
	for _, r := range requests[1:] {
		if !has[r.TraceID()] {
			has[r.TraceID()] = true
			start(r, carried)
		}
	}
	return s
}

// inject adds the context of the trace to the headers of the message.
func (s messageSpan) inject(h nats.Header) nats.Header {
	if s.ctx == nil {
		return h
	}
	return tracing.Inject(s.ctx, h)
}

func (s messageSpan) end(err error) {
	for _, span := range s.spans {
		tracing.End(span, err)
	}
}

// just returns a sequence of one uid.
func just(u uid.UID) iter.Seq[uid.UID] { return func(yield func(uid.UID) bool) { yield(u) } }
