package nodecodec_test

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/codec/nodecodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// generated is n as the generated code has it.
func generated(n *lifecycle.Node) *coppicev1.Node {
	p := &coppicev1.Node{
		Uid: []byte(n.UID), ApiVersion: n.APIVersion, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name,
		Generation: n.Generation, CreationTime: int64(n.CreationTime), Finalizers: n.Finalizers,
		DeletionTime: int64(n.DeletionTime), DeletionGracePeriod: n.GracePeriod, DeletionRevision: n.DeletionRevision,
		ImportTime: int64(n.ImportTime), ImportSession: n.ImportSession,
		Grace: n.Grace, ObservedGeneration: n.ObservedGeneration, AwaitedGeneration: n.AwaitedGeneration,
		Initializers: n.Initializers, InitializationFailed: n.InitializationFailed,
		ExpiresAt: int64(n.ExpiresAt),
	}
	if q := n.Protection; q != nil {
		p.Protection = &coppicev1.NodeProtection{Reason: q.Reason, Actor: q.Actor, Time: int64(q.Time), Policies: q.Policies}
	}
	for _, o := range n.Owners {
		p.Owners = append(p.Owners, &coppicev1.NodeOwner{
			ApiVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, Uid: []byte(o.UID),
			Controller: o.Controller.Ptr(), BlockOwnerDeletion: o.Blocking.Ptr(),
		})
	}
	for _, u := range n.Uses {
		p.Uses = append(p.Uses, &coppicev1.NodeUse{Group: u.Group, Kind: u.Kind, Name: u.Name, Namespace: u.Namespace, Uid: []byte(u.UID)})
	}
	return p
}

func draw(t *rapid.T) *lifecycle.Node {
	text := rapid.StringMatching(`[a-z./-]{0,20}`)
	u := rapid.Custom(func(t *rapid.T) uid.UID {
		if rapid.Bool().Draw(t, "uuid") {
			return uid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")
		}
		return uid.MustParse(rapid.StringMatching(`[A-Za-z0-9-]{1,40}`).Draw(t, "uid"))
	})
	ternary := rapid.SampledFrom([]lifecycle.Ternary{lifecycle.Unsaid, lifecycle.False, lifecycle.True})
	n := &lifecycle.Node{
		UID: u.Draw(t, "uid"), APIVersion: text.Draw(t, "apiVersion"), Kind: text.Draw(t, "kind"),
		Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"),
		Generation:       rapid.Int64().Draw(t, "generation"),
		CreationTime:     lifecycle.Time(rapid.Int64().Draw(t, "creation")),
		DeletionTime:     lifecycle.Time(rapid.Int64().Draw(t, "deletion")),
		ExpiresAt:        lifecycle.Time(rapid.Int64().Draw(t, "expiry")),
		GracePeriod:      rapid.Ptr(rapid.Int64(), true).Draw(t, "grace"),
		DeletionRevision: rapid.Uint64().Draw(t, "deletion revision"),
		ImportTime:       lifecycle.Time(rapid.Int64().Draw(t, "import")),
		ImportSession:    text.Draw(t, "session"),
		Grace:            rapid.Ptr(rapid.Int64(), true).Draw(t, "agent's grace"),

		ObservedGeneration: rapid.Int64().Draw(t, "observed"),
		AwaitedGeneration:  rapid.Int64().Draw(t, "awaited"),

		InitializationFailed: rapid.Bool().Draw(t, "failed"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "uses") {
		use := lifecycle.Use{Group: text.Draw(t, "group"), Kind: text.Draw(t, "used kind"), Name: text.Draw(t, "used name"), Namespace: text.Draw(t, "used namespace")}
		if rapid.Bool().Draw(t, "resolved") {
			use.UID = u.Draw(t, "used uid")
		}
		n.Uses = append(n.Uses, use)
	}
	for range rapid.IntRange(0, 3).Draw(t, "owners") {
		n.Owners = append(n.Owners, lifecycle.OwnerReference{
			APIVersion: text.Draw(t, "owner apiVersion"), Kind: text.Draw(t, "owner kind"), Name: text.Draw(t, "owner name"),
			UID: u.Draw(t, "owner uid"), Controller: ternary.Draw(t, "controller"), Blocking: ternary.Draw(t, "blocking"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "finalizers") {
		n.Finalizers = append(n.Finalizers, text.Draw(t, "finalizer"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "initializers") {
		n.Initializers = append(n.Initializers, text.Draw(t, "initializer"))
	}
	if rapid.Bool().Draw(t, "protected") {
		n.Protection = &lifecycle.Protection{
			Reason: text.Draw(t, "reason"), Actor: text.Draw(t, "actor"), Time: lifecycle.Time(rapid.Int64().Draw(t, "since")),
		}
		for range rapid.IntRange(0, 2).Draw(t, "policies") {
			n.Protection.Policies = append(n.Protection.Policies, text.Draw(t, "policy"))
		}
	}
	return n
}

func TestAgreesWithGeneratedCode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := draw(t)
		ours := nodecodec.Append(nil, n)
		var p coppicev1.Node
		must.Succeed(t, proto.Unmarshal(ours, &p))
		if !proto.Equal(&p, generated(n)) {
			t.Fatalf("generated code reads %v, want %v", &p, generated(n))
		}
		theirs, err := proto.Marshal(generated(n))
		must.Succeed(t, err)
		for name, b := range map[string][]byte{"ours": ours, "theirs": theirs} {
			got, err := nodecodec.Decode(b)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !reflect.DeepEqual(got, n) {
				t.Fatalf("%s: Decode = %+v, want %+v", name, got, n)
			}
			used := draw(t)
			if err := nodecodec.DecodeInto(used, b, string(b)); err != nil || !reflect.DeepEqual(used, n) {
				t.Fatalf("%s: DecodeInto = %+v, %v, want %+v", name, used, err, n)
			}
			if got := nodecodec.UID(b); got != n.UID {
				t.Fatalf("%s: UID = %s, want %s", name, got, n.UID)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(nodecodec.Append(nil, &lifecycle.Node{UID: uid.MustParse("a"), Owners: []lifecycle.OwnerReference{{UID: uid.MustParse("b"), Blocking: lifecycle.True}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := nodecodec.Decode(b)
		if err != nil {
			return
		}
		again, err := nodecodec.Decode(nodecodec.Append(nil, n))
		if err != nil || !reflect.DeepEqual(again, n) {
			t.Fatalf("%+v does not survive: %+v, %v", n, again, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	enc := nodecodec.Append(nil, &lifecycle.Node{
		UID: uid.New(), APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-7d4f9c-x2x5p",
		Generation: 1, CreationTime: 1700000000000000,
		Owners: []lifecycle.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4f9c", UID: uid.New(), Controller: lifecycle.True, Blocking: lifecycle.True}},
	})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := nodecodec.Decode(enc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	n := &lifecycle.Node{
		UID: uid.New(), APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web-7d4f9c-x2x5p",
		Generation: 1, CreationTime: 1700000000000000,
		Owners: []lifecycle.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4f9c", UID: uid.New(), Controller: lifecycle.True, Blocking: lifecycle.True}},
	}
	var enc []byte
	b.ReportAllocs()
	for b.Loop() {
		enc = nodecodec.Append(enc[:0], n)
	}
}
