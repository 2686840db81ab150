package state_test

import (
	"maps"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// The labels of an encoded body are those that the decoded body has; of one that cannot be decoded there are none.
func TestLabelsOfBody(t *testing.T) {
	t.Parallel()
	for _, b := range []*coppicev1.Body{
		{}, {Labels: map[string]string{"app": "web", "empty": "", "é": "ü"}},
		{
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"app": "other"}, GenerateName: "a-",
			Spec: []byte(`{"a":1}`), Status: []byte(`{}`), InitializersResult: &coppicev1.Status{Message: "x"},
		},
	} {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
		must.Succeed(t, err)
		for n := range len(data) + 1 {
			var decoded coppicev1.Body
			if proto.Unmarshal(data[:n], &decoded) != nil {
				decoded.Labels = nil
			}
			if got := state.LabelsOfBody(data[:n]); !maps.Equal(got, decoded.GetLabels()) {
				t.Errorf("the first %d bytes of %x: %v, want %v", n, data, got, decoded.GetLabels())
			}
		}
	}
	for _, malformed := range [][]byte{{0x0a, 2, 0x08, 1}, {0x0a, 3, 0x0a, 1, 0xff}, {0x0a, 2, 0x1a, 0}} {
		if got := state.LabelsOfBody(malformed); len(got) > 0 {
			t.Errorf("%x: %v, want none", malformed, got)
		}
	}
}
