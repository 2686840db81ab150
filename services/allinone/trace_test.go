package allinone_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	"github.com/coppice-gc/coppice/services/allinone"
)

// runBucket runs the finalizer example.com/bucket until end is called. Its calls send the context of their trace.
func runBucket(t *testing.T, c *client.Client) (inCall <-chan trace.SpanContext, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	calls, ended := make(chan trace.SpanContext, 1), make(chan error, 1)
	go func() {
		ended <- c.RunFinalizer(ctx, "example.com/bucket", func(ctx context.Context, _ *client.Call) error {
			calls <- trace.SpanContextFromContext(ctx)
			return nil
		})
	}()
	return calls, func() {
		t.Helper()
		cancel()
		must.Succeed(t, testkit.Receive(t, testkit.Context(t), "the end of the finalizer", ended))
	}
}

// TestTraceOfCascade deletes an owner in the foreground: three generations, of which the last has an external
// finalizer. All that follows is one trace, down to the commit that removes the owner.
func TestTraceOfCascade(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	s := stack.Start(t, allinone.Config{TracerProvider: provider})
	c := client.New(s.Conn(), client.WithTracerProvider(provider))
	ctx := s.Ctx
	inCall, end := runBucket(t, c)
	defer end()
	// Named's references block.
	owner := s.Create(configMaps, "shop", named("owner"))
	middle := s.Create(configMaps, "shop", named("middle", owner))
	leaf := named("leaf", middle)
	leaf.Metadata.Finalizers = []string{"example.com/bucket"}
	s.Create(configMaps, "shop", leaf)

	before := len(recorder.Ended())
	rooted, root := provider.Tracer("test").Start(ctx, "root")
	_, err := c.Resource(configMaps, "shop").Delete(rooted, "owner", client.Foreground)
	must.Succeed(t, err)
	root.End()
	call := testkit.Receive(t, ctx, "the call of the finalizer", inCall)
	if call.TraceID() != root.SpanContext().TraceID() {
		t.Errorf("the finalizer is called in the trace %s, want %s", call.TraceID(), root.SpanContext().TraceID())
	}
	s.Gone(configMaps, "shop", "owner")
	want := []string{
		"client delete configmaps", "server delete configmaps", "internal commit", "producer publish", "consumer process",
		"server resolve", "server propose", "server finish", "client get configmaps", "client removefinalizer configmaps", "server removefinalizer configmaps",
	}
	var spans []sdktrace.ReadOnlySpan
	var names []string
	defer func() {
		if t.Failed() {
			t.Logf("%q", names)
		}
	}()
	testkit.WaitFor(t, ctx, "the spans", func() bool {
		spans, names = nil, nil
		for _, span := range recorder.Ended()[before:] {
			if span.SpanContext().TraceID() == root.SpanContext().TraceID() {
				spans = append(spans, span)
				names = append(names, fmt.Sprintf("%s %s", span.SpanKind(), span.Name()))
			}
		}
		return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) })
	})
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, span := range spans {
		byID[span.SpanContext().SpanID()] = span
	}
	parentOf := map[string]string{
		"server delete configmaps": "client delete configmaps", "internal commit": "server", "producer publish": "server", "consumer process": "producer publish",
		"server resolve": "consumer process", "server propose": "consumer process", "server finish": "consumer process",
		"client removefinalizer configmaps": "consumer process", "server removefinalizer configmaps": "client removefinalizer configmaps",
	}
	for i, span := range spans {
		if span.SpanContext().SpanID() == root.SpanContext().SpanID() {
			continue
		}
		parent := byID[span.Parent().SpanID()]
		if parent == nil {
			t.Errorf("%s has a parent that is not in the trace", names[i])
			continue
		}
		if is := fmt.Sprintf("%s %s", parent.SpanKind(), parent.Name()); !strings.HasPrefix(is, parentOf[names[i]]) {
			t.Errorf("the parent of %q is %q, want %q", names[i], is, parentOf[names[i]])
		}
		if span.Status().Description != "" {
			t.Errorf("%s failed: %s", names[i], span.Status().Description)
		}
	}
}

// Without a provider requests and calls still carry the trace of their client, and nothing else is recorded.
func TestTracePassesThrough(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, allinone.Config{})
	c := client.New(s.Conn())
	ctx := s.Ctx
	inCall, end := runBucket(t, c)
	defer end()
	o := named("a")
	o.Metadata.Finalizers = []string{"example.com/bucket"}
	s.Create(configMaps, "shop", o)
	of := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	_, err := c.Resource(configMaps, "shop").Delete(trace.ContextWithSpanContext(ctx, of), "a")
	must.Succeed(t, err)
	if got := testkit.Receive(t, ctx, "the call", inCall); got.TraceID() != of.TraceID() || got.SpanID() != of.SpanID() || !got.IsSampled() {
		t.Errorf("the call carries %v, want %v", got, of)
	}
}

// A request whose subject is no UTF-8 has a span that can be exported: an exporter drops all spans of a batch with one that cannot.
func TestTraceOfInvalidText(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	s := stack.Start(t, allinone.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))})
	const subject = "coppice.default.api.ana\xff.get._.configmaps\xfe.ns\xfd"
	_, err := s.Conn().RequestMsgWithContext(s.Ctx, &nats.Msg{Subject: subject, Header: nats.Header{bus.HeaderRequest: {bus.VerbGet}}})
	must.Succeed(t, err)
	var texts []string
	testkit.WaitFor(t, s.Ctx, "the span", func() bool {
		for _, span := range recorder.Ended() {
			if strings.HasPrefix(span.Name(), bus.VerbGet) {
				texts = append(texts, span.Name(), span.Status().Description)
				for _, a := range span.Attributes() {
					texts = append(texts, a.Value.AsString())
				}
			}
		}
		return len(texts) > 0
	})
	for _, text := range texts {
		if !utf8.ValidString(text) {
			t.Errorf("the span has %q", text)
		}
	}
}

// Requests of callers that are not sampled begin no trace, also if they share a request. One with sampled callers is in the trace of
// the first of them, and linked with the others.
func TestTraceOfBatch(t *testing.T) {
	t.Parallel()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	s := stack.Start(t, allinone.Config{TracerProvider: provider})
	c := client.New(s.Conn(), client.WithTracerProvider(provider))
	round := 0
	create := func(caller func(context.Context) context.Context) {
		round++
		var callers sync.WaitGroup
		for i := range 64 { // many more than the requests that are in flight at the same time
			callers.Go(func() {
				if _, err := c.Resource(configMaps, "shop").Create(caller(s.Ctx), named(fmt.Sprintf("c-%d-%d", round, i))); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	}
	unsampled := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	for range 5 {
		create(func(ctx context.Context) context.Context { return trace.ContextWithSpanContext(ctx, unsampled) })
	}
	if spans := recorder.Started(); len(spans) > 0 {
		t.Errorf("callers that are not sampled have %d spans, such as %q", len(spans), spans[0].Name())
	}
	var batch sdktrace.ReadOnlySpan
	testkit.WaitFor(t, s.Ctx, "a batch of several callers", func() bool {
		create(func(ctx context.Context) context.Context {
			ctx, span := provider.Tracer("test").Start(ctx, "caller")
			span.End()
			return ctx
		})
		for _, span := range recorder.Ended() {
			if span.Name() == "batch" && len(span.Links()) > 0 {
				batch = span
			}
		}
		return batch != nil
	})
	callers := map[trace.SpanID]bool{}
	for _, span := range recorder.Ended() {
		if span.Name() == "caller" {
			callers[span.SpanContext().SpanID()] = true
		}
	}
	for _, of := range append([]trace.SpanContext{batch.Parent()}, batch.Links()[0].SpanContext) {
		if !callers[of.SpanID()] {
			t.Errorf("the batch belongs to %v, which is no caller", of)
		}
	}
}
