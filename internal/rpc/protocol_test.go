package rpc_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Every request message has the field protocol, and nothing else that is sent in
// a message of its own has a number there: so it does not read as a request.
func TestProtocolField(t *testing.T) {
	t.Parallel()
	requests, others := 0, 0
	protoregistry.GlobalFiles.RangeFilesByPackage("coppice.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Messages().Len() {
			m := f.Messages().Get(i)
			name := string(m.Name())
			has := m.Fields().ByNumber(15)
			switch {
			case strings.HasSuffix(name, "Request"):
				requests++
				if has == nil || has.Name() != "protocol" || has.Kind() != protoreflect.Uint32Kind {
					t.Errorf("%s has no field protocol = 15", name)
				}
			case strings.HasSuffix(name, "Reply"), strings.HasSuffix(name, "Batch"), strings.HasSuffix(name, "Chunk"), strings.HasSuffix(name, "Call"),
				name == "Status", name == "Commit", name == "Parked", name == "Warning":
				others++
				// One of bytes is not read as a number.
				if has != nil && has.Kind() != protoreflect.BytesKind {
					t.Errorf("%s has a field 15, as requests have", name)
				}
			}
		}
		return true
	})
	if requests < 20 || others < 20 {
		t.Errorf("%d requests and %d other messages were looked at", requests, others)
	}
}

// An encoded request is never empty, and two of them make one.
func TestEncode(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{&coppicev1.ListRequest{}, &coppicev1.ObjectsRequest{}} {
		data, err := rpc.Encode(m)
		if err != nil || len(data) == 0 {
			t.Fatalf("%x, %v", data, err)
		}
	}
	one, err := rpc.Encode(&coppicev1.GetRequest{Names: []string{"a"}})
	must.Succeed(t, err)
	two, err := rpc.Encode(&coppicev1.GetRequest{Names: []string{"b"}})
	must.Succeed(t, err)
	var both coppicev1.GetRequest
	must.Succeed(t, proto.Unmarshal(append(one, two...), &both))
	if want := (&coppicev1.GetRequest{Names: []string{"a", "b"}, Protocol: bus.Protocol}); !proto.Equal(&both, want) {
		t.Errorf("got %v, want %v", &both, want)
	}
}
