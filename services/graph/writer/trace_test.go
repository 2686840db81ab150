package writer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/tracing"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// A commit with several sampled requests is a span in the trace of the first, and linked with the others both
// ways. The objects that it changed have the trace of the request that changed them, and those of requests
// that are not sampled have none.
func TestTraceOfCommit(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	traces := make(chan writer.Traces, 100)
	b := start(t, func(c *writer.Config) {
		c.Tracer = tracing.Tracer(provider)
		c.Applied = func(a writer.Applied) {
			if len(a.Traces.Changed) > 0 {
				traces <- a.Traces
			}
		}
	})
	first, release := b.underWay()
	var requests []trace.Span
	var answers []<-chan answer
	for i := range 3 {
		r := create(fmt.Sprint("traced-", i))
		_, r.Span = tracing.Tracer(provider).Start(context.Background(), fmt.Sprint("request ", i))
		requests = append(requests, r.Span)
		answers = append(answers, b.submit(r), b.submit(create(fmt.Sprint("plain-", i))))
	}
	refused := create("traced-0") // it exists by then
	_, refused.Span = tracing.Tracer(provider).Start(context.Background(), "refused")
	answers = append(answers, b.submit(refused))
	testkit.WaitFor(t, b.ctx, "the queue to be taken", func() bool { n, _ := b.w.Queued(); return n == 0 })
	release()
	testkit.Receive(t, b.ctx, "the first answer", first)
	changed := map[uid.UID]trace.SpanContext{}
	for i, a := range answers {
		outcome := testkit.Receive(t, b.ctx, "an answer", a)
		if i == len(answers)-1 {
			continue
		}
		if o := outcome.objects(t)[0].GetObject(); i%2 == 0 {
			u, err := uid.Parse(o.GetMetadata().GetUid())
			if err != nil {
				t.Fatal(err)
			}
			changed[u] = requests[i/2].SpanContext()
		}
	}
	got := testkit.Receive(t, b.ctx, "the traces of the commit", traces).Changed
	if len(got) != len(changed) {
		t.Errorf("%d objects have traces, want %d", len(got), len(changed))
	}
	for u, want := range changed {
		if !got[u].Equal(want) {
			t.Errorf("%s has the trace %v, want %v", u, got[u], want)
		}
	}
	var commits []sdktrace.ReadOnlySpan
	testkit.WaitFor(t, b.ctx, "the span of the commit", func() bool {
		commits = slices.DeleteFunc(recorder.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != "commit" })
		return len(commits) > 0
	})
	if len(commits) != 1 {
		t.Fatalf("%d commits were traced, want 1: the others have no sampled request", len(commits))
	}
	commit := commits[0]
	if !commit.Parent().Equal(requests[0].SpanContext()) {
		t.Errorf("the parent of the commit is %v", commit.Parent())
	}
	if links := commit.Links(); len(links) != 2 || !links[0].SpanContext.Equal(requests[1].SpanContext()) || !links[1].SpanContext.Equal(requests[2].SpanContext()) {
		t.Errorf("the commit is linked with %v", links)
	}
	for i, r := range requests {
		links := r.(sdktrace.ReadOnlySpan).Links()
		if linked := len(links) == 1 && links[0].SpanContext.Equal(commit.SpanContext()); linked != (i > 0) {
			t.Errorf("request %d is linked with %v", i, links)
		}
	}
}

// The span of a request that is dropped, because its client no longer waits, ends with an error.
func TestTraceOfDropped(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	b := start(t, nil)
	_, release := b.underWay()
	r := create("late")
	_, r.Span = tracing.Tracer(provider).Start(context.Background(), "late")
	r.Expires = time.Now().Add(-time.Second)
	b.submit(r)
	release()
	testkit.WaitFor(t, b.ctx, "the span to end", func() bool { return len(recorder.Ended()) == 1 })
	if s := recorder.Ended()[0].Status(); s.Code != codes.Error || !strings.Contains(s.Description, "dropped") {
		t.Errorf("the span ended with %v", s)
	}
}
