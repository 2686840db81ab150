package objectcodec_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

var (
	// Most messages have nothing that the generated code is asked for.
	text = rapid.Custom(func(t *rapid.T) string {
		if rarely.Draw(t, "not UTF-8") {
			return "bad \xff utf-8"
		}
		return rapid.OneOf(rapid.StringMatching(`[a-zé./-]{0,20}`), rapid.StringN(150, 300, -1)).Draw(t, "text")
	})
	unknown = rapid.Custom(func(t *rapid.T) []byte {
		if rarely.Draw(t, "unknown") {
			return []byte{0xf8, 0x07, 0x01}
		}
		return nil
	})
	rarely  = rapid.Map(rapid.IntRange(0, 200), func(n int) bool { return n == 123 })
	content = rapid.SliceOfN(rapid.Byte(), 0, 200)
	entries = rapid.MapOfN(text, text, 0, 4)
	list    = rapid.SliceOfN(text, 0, 3)
	bit     = rapid.Ptr(rapid.Bool(), true)
	moment  = rapid.Custom(func(t *rapid.T) *timestamppb.Timestamp {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &timestamppb.Timestamp{Seconds: rapid.Int64().Draw(t, "seconds"), Nanos: rapid.Int32().Draw(t, "nanos")}
	})
	owner = rapid.Custom(func(t *rapid.T) *coppicev1.OwnerReference {
		o := &coppicev1.OwnerReference{
			ApiVersion: text.Draw(t, "apiVersion"), Kind: text.Draw(t, "kind"), Name: text.Draw(t, "name"), Uid: text.Draw(t, "uid"),
			Controller: bit.Draw(t, "controller"), BlockOwnerDeletion: bit.Draw(t, "blocks"),
		}
		o.ProtoReflect().SetUnknown(unknown.Draw(t, "unknown"))
		return o
	})
	status = rapid.Custom(func(t *rapid.T) *coppicev1.Status {
		if !rarely.Draw(t, "failed") {
			return nil
		}
		return &coppicev1.Status{Code: 409, Message: text.Draw(t, "message")}
	})
	object = rapid.Custom(func(t *rapid.T) *coppicev1.Object {
		o := &coppicev1.Object{
			ApiVersion: text.Draw(t, "apiVersion"), Kind: text.Draw(t, "kind"),
			Spec: content.Draw(t, "spec"), Status: content.Draw(t, "status"), Extra: content.Draw(t, "extra"),
		}
		o.ProtoReflect().SetUnknown(unknown.Draw(t, "unknown"))
		if rarely.Draw(t, "bare") {
			return o
		}
		o.Metadata = &coppicev1.ObjectMeta{
			Name: text.Draw(t, "name"), GenerateName: text.Draw(t, "generateName"), Namespace: text.Draw(t, "namespace"), Uid: text.Draw(t, "uid"),
			ResourceVersion: rapid.Uint64().Draw(t, "resourceVersion"), Generation: rapid.Int64().Draw(t, "generation"),
			CreationTimestamp: moment.Draw(t, "created"), DeletionTimestamp: moment.Draw(t, "deleted"),
			DeletionGracePeriodSeconds: rapid.Ptr(rapid.Int64(), true).Draw(t, "grace"),
			Labels:                     entries.Draw(t, "labels"), Annotations: entries.Draw(t, "annotations"),
			OwnerReferences: rapid.SliceOfN(owner, 0, 3).Draw(t, "owners"), Finalizers: list.Draw(t, "finalizers"),
		}
		if rarely.Draw(t, "uninitialized") {
			o.Metadata.Initializers = &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: text.Draw(t, "initializer")}}}
		}
		if rarely.Draw(t, "applied") {
			o.Metadata.Applied = content.Draw(t, "applied")
		}
		if rarely.Draw(t, "user") {
			o.Metadata.Uses = []*coppicev1.Use{{Group: text.Draw(t, "group"), Kind: text.Draw(t, "used kind"), Name: text.Draw(t, "used name"), Uid: text.Draw(t, "used uid")}}
		}
		return o
	})
	result = rapid.Custom(func(t *rapid.T) *coppicev1.Result {
		return &coppicev1.Result{
			Code: rapid.Uint32().Draw(t, "code"), Object: object.Draw(t, "object"), Error: status.Draw(t, "error"), Warnings: list.Draw(t, "warnings"),
		}
	})
)

// agree checks that both codecs read and write the message alike.
func agree(t *rapid.T, m, ours, theirs proto.Message) {
	want, wantErr := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	got, err := objectcodec.Marshal(m)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("Marshal: %v, want %v", err, wantErr)
	}
	if err != nil {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("Marshal gives %d bytes, want %d", len(got), len(want))
	}
	read(t, got, ours, theirs)
	if !proto.Equal(ours, m) {
		t.Fatalf("Unmarshal gives %v, want %v", ours, m)
	}
}

func read(t interface {
	Fatalf(string, ...any)
}, b []byte, ours, theirs proto.Message) {
	wantErr := proto.Unmarshal(b, theirs)
	if err := objectcodec.Unmarshal(b, ours); (err == nil) != (wantErr == nil) {
		t.Fatalf("Unmarshal: %v, want %v", err, wantErr)
	}
	if wantErr == nil && !proto.Equal(ours, theirs) {
		t.Fatalf("Unmarshal gives %v, want %v", ours, theirs)
	}
}

// TestAgreesWithGeneratedCode draws one after the other: generators that are
// shared are not for several goroutines.
func TestAgreesWithGeneratedCode(t *testing.T) {
	t.Parallel()
	for _, property := range []func(*rapid.T){agreeRequests, agreeReplies, agreeSizes, agreeBodies} {
		rapid.Check(t, property)
	}
}

func agreeRequests(t *rapid.T) {
	m := &coppicev1.ObjectsRequest{
		Objects: rapid.SliceOfN(object, 0, 3).Draw(t, "objects"), Atomic: rapid.Bool().Draw(t, "atomic"), DryRun: rapid.Bool().Draw(t, "dry run"), ReturnObjects: rapid.Bool().Draw(t, "return objects"),
		StrictOwners: rapid.Bool().Draw(t, "strict owners"),
		Protocol:     rapid.Uint32().Draw(t, "protocol"),
	}
	agree(t, m, &coppicev1.ObjectsRequest{DryRun: true}, &coppicev1.ObjectsRequest{})
}

func agreeReplies(t *rapid.T) {
	m := &coppicev1.ObjectsReply{Results: rapid.SliceOfN(result, 0, 3).Draw(t, "results"), Revision: rapid.Uint64().Draw(t, "revision"), Grant: rapid.SliceOfN(rapid.Byte(), -1, 2).Draw(t, "grant")}
	if len(m.Grant) == 0 {
		m.Grant = nil // as it is decoded
	}
	agree(t, m, &coppicev1.ObjectsReply{Revision: 1}, &coppicev1.ObjectsReply{})
}

func agreeSizes(t *rapid.T) {
	r := result.Draw(t, "result")
	if r.GetObject() != nil {
		r.Object.ProtoReflect().SetUnknown(nil)
		for _, o := range r.GetObject().GetMetadata().GetOwnerReferences() {
			o.ProtoReflect().SetUnknown(nil)
		}
	}
	if got, want := objectcodec.ResultSize(r), proto.Size(r); got != want {
		t.Fatalf("ResultSize = %d, want %d", got, want)
	}
	if got, want := objectcodec.Size(r.GetObject()), proto.Size(r.GetObject()); got != want {
		t.Fatalf("Size = %d, want %d", got, want)
	}
}

func agreeBodies(t *rapid.T) {
	m := &coppicev1.Body{
		Labels: entries.Draw(t, "labels"), Annotations: entries.Draw(t, "annotations"), GenerateName: text.Draw(t, "generateName"),
		Spec: content.Draw(t, "spec"), Status: content.Draw(t, "status"), Extra: content.Draw(t, "extra"), InitializersResult: status.Draw(t, "result"),
		Applied: content.Draw(t, "applied"),
	}
	m.ProtoReflect().SetUnknown(unknown.Draw(t, "unknown"))
	want, wantErr := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	got, err := objectcodec.MarshalBody(m)
	if !bytes.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && got == nil {
		t.Fatalf("MarshalBody gives %x, %v, want %x, %v", got, err, want, wantErr)
	}
}

func TestMissingElements(t *testing.T) {
	t.Parallel()
	for _, m := range []*coppicev1.ObjectsRequest{
		nil,
		{Objects: []*coppicev1.Object{nil}},
		{Objects: []*coppicev1.Object{{Metadata: &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{nil}}}}},
	} {
		want, _ := proto.Marshal(m)
		if got, err := objectcodec.Marshal(m); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: Marshal gives %x, %v, want %x", m, got, err, want)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	seed := func(m proto.Message) {
		b, err := proto.Marshal(m)
		must.Succeed(f, err)
		f.Add(b)
		f.Add(append(b, b...))
	}
	o := &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Spec: []byte(`{}`), Metadata: &coppicev1.ObjectMeta{
		Name: "a", Labels: map[string]string{"app": "web", "": ""}, Finalizers: []string{"x/y"}, CreationTimestamp: &timestamppb.Timestamp{Seconds: 1},
		OwnerReferences: []*coppicev1.OwnerReference{{Uid: "u", Controller: new(true)}}, DeletionGracePeriodSeconds: new(int64(-1)),
	}}
	seed(&coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{o, o}, Atomic: true})
	seed(&coppicev1.ObjectsReply{Results: []*coppicev1.Result{{Code: 201, Object: o, Warnings: []string{"w"}}}, Revision: 7})
	for _, b := range []string{
		"\x0a\x04\x1a\x00\x1a\x00",                 // metadata twice
		"\x0a\x02\x08\x01",                         // a number for a text
		"\x0a\x04\x1a\x02\x0a\x05",                 // cut off
		"\x0d\x01\x02\x03\x04",                     // a fixed32 field
		"\x8a\x80\x00\x02\x0a\x00",                 // a tag that is longer than needed
		"\x10\xff\xff\xff\xff\xff\xff\xff\xff",     // a number without end
		"\x0a\x08\x1a\x06\x52\x04\x0a\x02\xff\xfe", // not UTF-8
		"\x02\x00", // number 0
	} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		read(t, b, &coppicev1.ObjectsRequest{}, &coppicev1.ObjectsRequest{})
		read(t, b, &coppicev1.ObjectsReply{}, &coppicev1.ObjectsReply{})
	})
}

func batch() *coppicev1.ObjectsRequest {
	m := &coppicev1.ObjectsRequest{}
	for range 500 {
		m.Objects = append(m.Objects, &coppicev1.Object{ApiVersion: "v1", Kind: "Pod", Spec: bytes.Repeat([]byte("x"), 200), Metadata: &coppicev1.ObjectMeta{
			Name: "0123456789abcdef01234567", Labels: map[string]string{"app": "bench", "fate": "kept"},
			OwnerReferences: []*coppicev1.OwnerReference{{
				ApiVersion: "apps/v1", Kind: "Deployment", Name: "0123456789abcdef01234567", Uid: "01890a5d-ac96-774b-bcce-b302099a8057",
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		}})
	}
	return m
}

// BenchmarkMarshal and BenchmarkUnmarshal are of requests with 500 objects.
func BenchmarkMarshal(b *testing.B) {
	m := batch()
	for name, marshal := range map[string]func(proto.Message) ([]byte, error){"ours": objectcodec.Marshal, "generated": proto.Marshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := marshal(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMarshalBody(b *testing.B) {
	o := batch().GetObjects()[0]
	body := &coppicev1.Body{Labels: o.GetMetadata().GetLabels(), Spec: o.GetSpec()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := objectcodec.MarshalBody(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	enc, err := proto.Marshal(batch())
	must.Succeed(b, err)
	for name, unmarshal := range map[string]func([]byte, proto.Message) error{"ours": objectcodec.Unmarshal, "generated": proto.Unmarshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must.Succeed(b, unmarshal(enc, &coppicev1.ObjectsRequest{}))
			}
		})
	}
}
