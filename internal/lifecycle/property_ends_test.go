package lifecycle_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// podKey is where a pod is.
func podKey(r *lifecycletest.Realm, name string) lifecycle.Key {
	return lifecycle.Key{Kind: r.Kinds().Resource("pods"), Namespace: "shop", Name: name}
}

// podOwners are references to pods whose uids are their names.
func podOwners(t *rapid.T, names []string, blocking bool) []*coppicev1.OwnerReference {
	var refs []*coppicev1.OwnerReference
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "owners") {
		blocks := blocking || rapid.Bool().Draw(t, "blocks")
		refs = append(refs, &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "Pod", Name: name, Uid: name, BlockOwnerDeletion: &blocks})
	}
	return refs
}

// apply applies what was decided.
func apply(t *rapid.T, r *lifecycletest.Realm, out *lifecycle.Outcome, refused *lifecycle.Error) {
	must.Succeed(t, refused)
	r.Apply(out.Events)
}

func deleteWith(t *rapid.T, r *lifecycletest.Realm, at lifecycle.Key, policy string) {
	out, refused := lifecycle.Delete(r.Context(), at, "", &coppicev1.DeleteOptions{PropagationPolicy: policy})
	apply(t, r, out, refused)
}

// TestCyclesEnd has objects that own each other as it happens, and themselves.
//
// L4: those that are deleted in the foreground go, in whatever cycles they are.
func TestCyclesEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := lifecycletest.New()
		names := []string{"a", "b", "c", "d", "e"}[:rapid.IntRange(1, 5).Draw(t, "objects")]
		for _, name := range names {
			out, refused := lifecycle.Import(r.Context(), podKey(r, name), "", &coppicev1.Object{
				Metadata: &coppicev1.ObjectMeta{Name: name, Uid: name, OwnerReferences: podOwners(t, names, true)},
			})
			apply(t, r, out, refused)
		}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).Draw(t, "deleted") {
			if r.Node(uid.MustParse(name)) == nil {
				continue // it went with one before
			}
			deleteWith(t, r, podKey(r, name), lifecycle.Foreground)
			for _, u := range rapid.SliceOfN(rapid.SampledFrom(r.UIDs()), 0, 3).Draw(t, "work") {
				r.Work(u)
			}
		}
		r.Settle(lifecycletest.InOrder)
		for _, u := range r.UIDs() {
			if n := r.Node(u); n.Terminating() {
				t.Fatalf("%+v waits for ever", n)
			}
		}
	})
}

// TestArrival has objects of one session come in two orders, and work done in
// between. In a forest they may have built-in finalizers, and be deleted already;
// elsewhere the result depends on the order (see TestConfluent).
//
// R2: the order in which objects come does not show in what is left.
func TestArrival(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		forest := rapid.Bool().Draw(t, "forest")
		objects := map[string]*coppicev1.Object{}
		for _, name := range names {
			meta := &coppicev1.ObjectMeta{Name: name, Uid: name, OwnerReferences: podOwners(t, append(names, "never"), forest)}
			if len(meta.OwnerReferences) > 0 && rapid.IntRange(0, 3).Draw(t, "lies") == 0 {
				meta.OwnerReferences[0].Name = "other"
			}
			if forest {
				meta.OwnerReferences = meta.OwnerReferences[:min(1, len(meta.OwnerReferences))]
			}
			if f := rapid.SampledFrom([]string{"", custom, "orphan", "foregroundDeletion"}).Draw(t, "finalizer"); forest && f != "" {
				meta.Finalizers = []string{f}
				if rapid.Bool().Draw(t, "deleting") {
					meta.DeletionTimestamp = timestamppb.New(time.Unix(1, 0))
				}
			}
			objects[name] = &coppicev1.Object{Metadata: meta}
		}
		first := ""
		for i := range 2 {
			r := lifecycletest.New()
			r.TouchSession("session", false)
			for _, name := range rapid.Permutation(names).Draw(t, "order") {
				out, refused := lifecycle.Import(r.Context(), podKey(r, name), "session", objects[name])
				apply(t, r, out, refused)
				if rapid.Bool().Draw(t, "work") {
					r.Settle(lifecycletest.InOrder)
				}
			}
			later(r)
			r.Settle(lifecycletest.InOrder)
			all := left(r)
			is := fmt.Sprint(all)
			if i == 0 {
				first = is
			} else if is != first {
				t.Fatalf("left are %s or %s", first, is)
			}
		}
	})
}

// TestForegroundTakesMore deletes one object of a realm in which nothing is left
// to do.
//
// R3: what its deletion in the background takes, one in the foreground takes as well.
// In a forest without finalizers it takes nothing else; but where the background
// leaves an object terminating, such as a namespace that waits for its contents, that
// object still owns its dependents.
func TestForegroundTakesMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := history(t)
		forest := rapid.Bool().Draw(t, "forest")
		if forest {
			for _, u := range r.UIDs() {
				free(r, u)
			}
		}
		later(r)
		r.Settle(lifecycletest.InOrder)
		alive := slices.DeleteFunc(r.UIDs(), func(u uid.UID) bool { return r.Node(u).Terminating() || lifecycle.Governs(r.Node(u)) })
		if len(alive) == 0 {
			return
		}
		deleted := rapid.SampledFrom(alive).Draw(t, "deleted")
		more, _ := taken(t, r, deleted, alive, lifecycle.Foreground)
		least, kept := taken(t, r, deleted, alive, lifecycle.Background)
		for _, u := range least {
			if !slices.Contains(more, u) {
				t.Fatalf("%+v stays when %s is deleted in the foreground", r.Node(u), deleted)
			}
			more = slices.DeleteFunc(more, func(m uid.UID) bool { return m == u })
		}
		if forest && !kept && len(more) > 0 {
			t.Fatalf("%v stay when %s is deleted in the background", more, deleted)
		}
	})
}

// taken are those of the objects that are gone, or going, when one is deleted, and
// whether any is still going.
func taken(t *rapid.T, r *lifecycletest.Realm, deleted uid.UID, of []uid.UID, policy string) (gone []uid.UID, kept bool) {
	after, n := r.Clone(), r.Node(deleted)
	deleteWith(t, after, lifecycle.Key{Kind: r.Kinds().OfNode(n), Namespace: n.Namespace, Name: n.Name}, policy)
	after.Settle(lifecycletest.InOrder)
	for _, u := range of {
		if is := after.Node(u); is == nil || is.Terminating() {
			gone = append(gone, u)
			kept = kept || is != nil
		}
	}
	return gone, kept
}

// free leaves an object one owner, and no finalizers.
func free(r *lifecycletest.Realm, u uid.UID) {
	single(r, u)
	n := *r.Node(u)
	if !n.Terminating() {
		n.Finalizers = nil
		r.Apply([]lifecycle.Event{{Type: lifecycle.ObjectUpdated, UID: u, Object: lifecycle.Object{Node: &n}}})
	}
}
