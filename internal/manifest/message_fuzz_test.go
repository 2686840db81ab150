package manifest_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// requests has the messages that clients send.
func requests() []proto.Message {
	return []proto.Message{
		&coppicev1.ObjectsRequest{}, &coppicev1.PatchRequest{}, &coppicev1.ImportRequest{}, &coppicev1.DeleteRequest{},
		&coppicev1.DeleteCollectionRequest{}, &coppicev1.RemoveFinalizerRequest{}, &coppicev1.GetRequest{}, &coppicev1.ListRequest{},
		&coppicev1.WatchRequest{}, &coppicev1.ResolveObjectsRequest{},
	}
}

// A request that was read from JSON is the same after it is written and read again.
func FuzzUnmarshalMessage(f *testing.F) {
	for _, seed := range []string{
		`{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}]}`,
		`{"patches":[{"name":"a","patch":{"metadata":{"labels":null}}}]}`,
		`{"session":"s","objects":[{"metadata":{"uid":"u"}}],"close":true}`,
		`{"names":["a"],"options":{"propagationPolicy":"Foreground","gracePeriodSeconds":"0","preconditions":{"uid":"u"}}}`,
		`{"labelSelector":"a=b","limit":10,"continue":"x"}`, `{"objects":[{"name":"a"}],"reason":"r"}`, `{}`, `[]`, `null`,
	} {
		for i := range requests() {
			f.Add(i, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which int, data []byte) {
		list := requests()
		m := list[uint(which)%uint(len(list))]
		if manifest.UnmarshalMessage(data, m) != nil {
			return
		}
		enc, err := manifest.MarshalMessage(m)
		if err != nil {
			t.Fatalf("%q was read, but is not written: %v", data, err)
		}
		again := m.ProtoReflect().New().Interface()
		if err := manifest.UnmarshalMessage(enc, again); err != nil || !proto.Equal(m, again) {
			t.Fatalf("%q became %q: %v, %v", data, enc, again, err)
		}
	})
}
