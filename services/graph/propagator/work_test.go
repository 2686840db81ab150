package propagator_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// work is a message that was published: how it is printed, and what a worker does
// with it; nil for the call of an external finalizer. Chunks are sorted.
type work struct {
	text string
	do   func(*statetest.Realm)
}

func read(t *testing.T, m *nats.Msg) work {
	t.Helper()
	switch m.Subject {
	case bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty):
		var c coppicev1.DirtyChunk
		decode(t, m, &c)
		sorted(c.GetGroups())
		return work{"dirty: " + groups(t, c.GetGroups()), func(r *statetest.Realm) {
			for _, g := range c.GetGroups() {
				r.Work(unpack(t, g.GetDependents()), evaluate)
			}
		}}
	case bus.WorkSubject(bus.DefaultRealm, bus.QueueOrphan):
		var c coppicev1.OrphanChunk
		decode(t, m, &c)
		sorted(c.GetGroups())
		return work{"orphan: " + groups(t, c.GetGroups()), func(r *statetest.Realm) {
			for _, g := range c.GetGroups() {
				r.Work(unpack(t, g.GetDependents()), func(ctx *lifecycle.Context, n *lifecycle.Node) []lifecycle.Event {
					return lifecycle.OrphanFrom(ctx, ctx.Node(uid.UID(g.GetOwner())), n)
				})
			}
		}}
	case bus.WorkSubject(bus.DefaultRealm, bus.QueueDrain):
		var c coppicev1.DrainChunk
		decode(t, m, &c)
		sorted(c.GetGroups())
		return work{"drain: " + groups(t, c.GetGroups()), func(r *statetest.Realm) {
			for _, g := range c.GetGroups() {
				r.Work(unpack(t, g.GetDependents()), func(ctx *lifecycle.Context, n *lifecycle.Node) []lifecycle.Event {
					return lifecycle.Drain(ctx, ctx.Node(uid.UID(g.GetOwner())), n)
				})
			}
		}}
	case bus.WorkSubject(bus.DefaultRealm, bus.QueueFinish):
		var c coppicev1.FinishChunk
		decode(t, m, &c)
		uids := unpack(t, c.GetUids())
		slices.Sort(uids)
		return work{fmt.Sprintf("finish %s: %s", c.GetFinalizer(), list(uids)), func(r *statetest.Realm) {
			r.Work(uids, func(ctx *lifecycle.Context, n *lifecycle.Node) []lifecycle.Event {
				return lifecycle.Finish(ctx, n, c.GetFinalizer(), kept(ctx, r, n))
			})
		}}
	}
	return work{text: call(t, m)}
}

// kept is what the writer's API finds out of an owner's dependents.
func kept(ctx *lifecycle.Context, r *statetest.Realm, n *lifecycle.Node) []uid.UID {
	snap := r.Snapshot()
	defer snap.Close()
	found, err := resolve.DelayOf(context.Background(), snap, n, ctx.Now)
	if err != nil || found.Delayed || found.TooMany {
		return nil
	}
	return found.Kept
}

// evaluate is what a processor and the writer together do with a dirty object.
func evaluate(ctx *lifecycle.Context, n *lifecycle.Node) []lifecycle.Event {
	switch lifecycle.Evaluate(ctx, n, ctx.Now).Decision {
	case lifecycle.CollectObject, lifecycle.CollectForeground:
		return lifecycle.Collect(ctx, n)
	case lifecycle.StripReferences:
		return lifecycle.Strip(ctx, n)
	}
	return nil
}

// call prints the call of an external finalizer, whose subject names it.
func call(t *testing.T, m *nats.Msg) string {
	t.Helper()
	var c coppicev1.FinalizeCall
	must.Succeed(t, manifest.UnmarshalMessage(m.Data, &c))
	group, plural, _ := strings.Cut(c.GetResource(), ".")
	group, plural = plural, group
	meta := c.GetObject().GetMetadata()
	want := bus.Finalize{Realm: bus.DefaultRealm, Group: group, Plural: plural, UID: meta.GetUid(), Finalizer: c.GetFinalizer()}.Subject()
	if m.Subject != want || m.Header.Get(bus.HeaderContentType) != bus.ContentJSON {
		t.Errorf("a call of %v came on %s as %q; want %s as JSON", &c, m.Subject, m.Header.Get(bus.HeaderContentType), want)
	}
	return fmt.Sprintf("call %s: %s/%s@%d", c.GetFinalizer(), c.GetResource(), meta.GetName(), c.GetRevision())
}

func decode(t *testing.T, m *nats.Msg, into proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(m.Data, into); err != nil {
		t.Fatalf("%s: %v", m.Subject, err)
	}
}

func sorted(groups []*coppicev1.DependentsOf) {
	slices.SortFunc(groups, func(a, b *coppicev1.DependentsOf) int { return bytes.Compare(a.GetOwner(), b.GetOwner()) })
}

func groups(t *testing.T, all []*coppicev1.DependentsOf) string {
	t.Helper()
	var parts []string
	for _, g := range all {
		parts = append(parts, fmt.Sprintf("%s of %s@%d", list(unpack(t, g.GetDependents())), uid.UID(g.GetOwner()), g.GetRevision()))
	}
	return strings.Join(parts, ", ")
}

func unpack(t *testing.T, packed []byte) []uid.UID {
	t.Helper()
	uids, err := uid.Unpack(nil, packed)
	must.Succeed(t, err)
	return uids
}

// list prints uids, of many only how many and the ends.
func list(uids []uid.UID) string {
	var names []string
	for _, u := range uids {
		names = append(names, u.String())
	}
	if n := len(names); n > 8 {
		return fmt.Sprintf("[%s ... %s, %d in all]", names[0], names[n-1], n)
	}
	return "[" + strings.Join(names, " ") + "]"
}
