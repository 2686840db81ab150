package traces

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
)

// span is a span that a process has exported.
type span struct {
	ptrace.Span
	service string // service.name
}

func (s span) attribute(key string) string {
	v, _ := s.Attributes().Get(key)
	return v.AsString()
}

// receiver is a collector that keeps what it receives.
type receiver struct {
	ptraceotlp.UnimplementedGRPCServer
	http, grpc string // URLs

	mu    sync.Mutex
	spans []span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		request := ptraceotlp.NewExportRequest()
		if err == nil {
			err = request.UnmarshalProto(body)
		}
		if err != nil || q.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", q.URL, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.add(request)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(g, r)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	r.http, r.grpc = server.URL, "http://"+listener.Addr().String()
	return r
}

// Export receives spans over gRPC.
func (r *receiver) Export(_ context.Context, request ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	r.add(request)
	return ptraceotlp.NewExportResponse(), nil
}

func (r *receiver) add(request ptraceotlp.ExportRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range request.Traces().ResourceSpans().All() {
		name, _ := of.Resource().Attributes().Get("service.name")
		for _, scope := range of.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				r.spans = append(r.spans, span{s, name.AsString()})
			}
		}
	}
}

// trace returns the spans of a trace, by their ids.
func (r *receiver) trace(id string) map[string]span {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[string]span{}
	for _, s := range r.spans {
		if s.TraceID().String() == id {
			found[s.SpanID().String()] = s
		}
	}
	return found
}
