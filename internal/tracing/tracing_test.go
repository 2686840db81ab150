package tracing_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-gc/coppice/internal/tracing"
)

// A context survives a message. Headers that are invalid count as none, and a tracestate that is longer than 512 bytes is
// dropped.
func TestHeaders(t *testing.T) {
	t.Parallel()
	const parent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	for name, c := range map[string]struct {
		h       nats.Header
		sampled bool
		state   string
	}{
		"none":         {nats.Header{}, false, ""},
		"parent":       {nats.Header{"traceparent": {parent}}, true, ""},
		"state":        {nats.Header{"traceparent": {parent}, "tracestate": {"a=1,b=2"}}, true, "a=1,b=2"},
		"long state":   {nats.Header{"traceparent": {parent}, "tracestate": {"a=" + strings.Repeat("1", 255) + ",b=" + strings.Repeat("2", 255)}}, true, ""},
		"not sampled":  {nats.Header{"traceparent": {parent[:53] + "00"}}, false, ""},
		"invalid":      {nats.Header{"traceparent": {"00-00-00-01"}}, false, ""},
		"empty":        {nats.Header{"traceparent": {""}}, false, ""},
		"another case": {nats.Header{"Traceparent": {parent}}, false, ""},
	} {
		ctx := tracing.Extract(context.Background(), c.h)
		of := trace.SpanContextFromContext(ctx)
		if tracing.Sampled(ctx) != c.sampled || of.TraceState().String() != c.state {
			t.Errorf("%s: %v with the state %q", name, of, of.TraceState())
		}
		again := trace.SpanContextFromContext(tracing.Extract(context.Background(), tracing.Inject(ctx, nil)))
		if !again.Equal(of) {
			t.Errorf("%s: %v became %v", name, of, again)
		}
	}
	if h := tracing.Inject(context.Background(), nil); h != nil {
		t.Errorf("a message without a trace has the headers %v", h)
	}
}
