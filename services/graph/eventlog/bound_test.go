package eventlog_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// drawNode draws an object with long lists. Every field of a node is set.
func drawNode(t *rapid.T) *lifecycle.Node {
	text := rapid.StringN(0, 253, 253)
	uids := rapid.Custom(func(t *rapid.T) uid.UID { return uid.MustParse(rapid.StringMatching(`[a-z]{1,128}`).Draw(t, "uid")) })
	number := rapid.Int64Range(0, math.MaxInt64)
	seconds := number.Draw(t, "seconds")
	n := &lifecycle.Node{
		UID: uids.Draw(t, "uid"), APIVersion: text.Draw(t, "version"), Kind: text.Draw(t, "kind"), Namespace: text.Draw(t, "namespace"), Name: text.Draw(t, "name"),
		Generation: number.Draw(t, "generation"), CreationTime: math.MaxInt64, DeletionTime: math.MaxInt64, DeletionRevision: math.MaxUint64,
		ImportTime: math.MaxInt64, ImportSession: text.Draw(t, "session"), GracePeriod: &seconds, Grace: &seconds,
		ObservedGeneration: math.MaxInt64, AwaitedGeneration: math.MaxInt64, InitializationFailed: true,
		Finalizers: rapid.SliceOfN(text, 0, 50).Draw(t, "finalizers"), Initializers: rapid.SliceOfN(text, 0, 50).Draw(t, "initializers"),
		Owners: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lifecycle.OwnerReference {
			return lifecycle.OwnerReference{
				APIVersion: text.Draw(t, "version"), Kind: text.Draw(t, "kind"), Name: text.Draw(t, "name"), UID: uids.Draw(t, "uid"),
				Controller: lifecycle.True, Blocking: lifecycle.True,
			}
		}), 0, 50).Draw(t, "owners"),
		Uses: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lifecycle.Use {
			return lifecycle.Use{
				Group: text.Draw(t, "group"), Kind: text.Draw(t, "kind"), Name: text.Draw(t, "name"), Namespace: text.Draw(t, "namespace"), UID: uids.Draw(t, "uid"),
			}
		}), 0, lifecycle.MaxUses).Draw(t, "uses"),
	}
	if rapid.Bool().Draw(t, "protected") {
		n.Protection = &lifecycle.Protection{
			Reason: text.Draw(t, "reason"), Actor: text.Draw(t, "actor"), Time: math.MaxInt64, Policies: rapid.SliceOfN(text, 0, 50).Draw(t, "policies"),
		}
	}
	return n
}

// TestBound: a commit is not larger than what the writer reserves for its events.
func TestBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := eventlog.NewBuilder(eventlog.Header{FirstRevision: 1})
		b.Begin(eventlog.Command{Actor: "ana", Verb: "test"})
		n := drawNode(t)
		e := lifecycle.Event{Type: rapid.SampledFrom([]lifecycle.EventType{lifecycle.ObjectCreated, lifecycle.ObjectUpdated}).Draw(t, "type"), UID: n.UID, Object: lifecycle.Object{Node: n}}
		before := b.Size()
		b.Add(&e, n, "things", nil)
		if grown, bound := b.Size()-before, eventlog.Bound(&e, n, "things", nil); grown > bound {
			t.Fatalf("an object with %d uses, protection %v, made the commit grow by %d bytes, Bound said %d", len(n.Uses), n.Protection, grown, bound)
		}
	})
}

// TestBindingsFit: the commit that creates an object has room for the bindings of the largest
// users that can wait for it, and for the largest object (see services/graph/writer).
func TestBindingsFit(t *testing.T) {
	t.Parallel()
	r := lifecycletest.New()
	pods, nodes := r.Kinds().Resource("pods"), r.Kinds().Resource("nodes")
	long := func(i int) string { return fmt.Sprintf("%03d%s", i, strings.Repeat("x", 250)) }
	for i := range lifecycle.MaxUnresolved {
		m := &coppicev1.ObjectMeta{Name: long(i), Uses: []*coppicev1.Use{{Kind: "Node", Name: "n"}}}
		for k := range lifecycle.MaxUses - 1 {
			group := strings.TrimSuffix(strings.Repeat(strings.Repeat("g", 62)+".", 4), ".")
			m.Uses = append(m.Uses, &coppicev1.Use{Group: group, Kind: strings.Repeat("K", 63), Name: fmt.Sprintf("%03d%s", (i*64+k)%1000, long(i)[:250]), Uid: fmt.Sprintf("%03d%s", k, strings.Repeat("u", 125))})
		}
		at := lifecycle.Key{Kind: pods, Namespace: fmt.Sprint("ns", i), Name: m.Name}
		ctx := r.Context()
		ctx.MaxObject = 0
		out, err := lifecycle.Create(ctx, at, &coppicev1.Object{Metadata: m})
		must.Succeed(t, err)
		r.Apply(out.Events)
	}
	out, err := lifecycle.Create(r.Context(), lifecycle.Key{Kind: nodes, Name: "n"}, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "n"}})
	must.Succeed(t, err)
	size := 0
	for i := range out.Events {
		size += eventlog.Bound(&out.Events[i], out.Events[i].Object.Node, "pods", nil)
	}
	const room = 8<<20 - 8<<10 - 3<<19 // max_payload, without the margin and the largest object
	if len(out.Events) != lifecycle.MaxUnresolved+1 || size > room {
		t.Fatalf("%d events have up to %d bytes; there is room for %d events and %d bytes", len(out.Events), size, lifecycle.MaxUnresolved+1, room)
	}
}
