package mirror

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// model is a mirror that evaluates every definition again from all objects.
type model struct {
	objects map[string]Change // by uid
	gone    map[string]Change // removed, and named by a reference
	loaded  bool
	partial bool
	without string          // a kind that is not registered
	put     map[string]bool // in this round
}

func (w *model) apply(c Change) {
	uid := c.Object.GetMetadata().GetUid()
	switch c.Op {
	case Put:
		w.objects[uid] = c
		w.put[uid] = true
		delete(w.gone, uid)
	case Remove:
		w.remove(uid, c)
	case Restart:
		w.put = map[string]bool{}
	case Synced:
		w.loaded = true
		for _, uid := range slices.Sorted(maps.Keys(w.objects)) {
			if !w.put[uid] {
				delete(w.objects, uid) // it may have been removed, or may not be visible any more
			}
		}
	}
	named := map[string]bool{}
	for _, o := range w.objects {
		for _, r := range refs(o) {
			named[r.GetUid()] = true
		}
	}
	maps.DeleteFunc(w.gone, func(uid string, _ Change) bool { return !named[uid] })
}

func (w *model) remove(uid string, c Change) {
	if is, present := w.objects[uid]; present {
		c = is
	}
	delete(w.objects, uid)
	w.gone[uid] = c
}

func refs(c Change) []*coppicev1.OwnerReference { return c.Object.GetMetadata().GetOwnerReferences() }
func has(c Change, finalizer string) bool {
	return slices.Contains(c.Object.GetMetadata().GetFinalizers(), finalizer)
}
func isTerminating(c Change) bool { return c.Object.GetMetadata().GetDeletionTimestamp() != nil }
func isProtected(c Change) bool   { return c.Object.GetMetadata().GetProtection() != nil }

func agree(o, dependent Change, r *coppicev1.OwnerReference, group bool) bool {
	m := o.Object.GetMetadata()
	return o.Object.GetKind() == r.GetKind() && m.GetName() == r.GetName() && (!group || api.GroupOf(o.Object.GetApiVersion()) == api.GroupOf(r.GetApiVersion())) &&
		(m.GetNamespace() == "" || m.GetNamespace() == dependent.Object.GetMetadata().GetNamespace())
}

func (w *model) class(d Change, r *coppicev1.OwnerReference) class {
	if o, is := w.objects[r.GetUid()]; is {
		switch {
		case agree(o, d, r, true):
			return valid
		case agree(o, d, r, false):
			return unknown
		}
		return dangling
	}
	if o, is := w.gone[r.GetUid()]; is && agree(o, d, r, true) {
		return dangling
	}
	return unknown
}

// absent reports whether an owner that was never seen does not exist.
func (w *model) absent(r *coppicev1.OwnerReference) bool {
	_, is := w.objects[r.GetUid()]
	_, seen := w.gone[r.GetUid()]
	return !is && !seen && w.loaded && !w.partial && r.GetKind() != w.without
}

// counting returns the uids of the owners that count an object as a dependent.
func (w *model) counting(d Change) (uids []string) {
	for _, r := range refs(d) {
		_, present := w.objects[r.GetUid()]
		if (!present || w.class(d, r) == valid) && !slices.Contains(uids, r.GetUid()) {
			uids = append(uids, r.GetUid())
		}
	}
	return uids
}

func (w *model) contains(c, o Change) bool {
	k := kindKey{api.GroupOf(c.Object.GetApiVersion()), c.Object.GetKind()}
	same := c.Object.GetMetadata().GetUid() == o.Object.GetMetadata().GetUid()
	switch name := c.Object.GetMetadata().GetName(); {
	case same:
		return false
	case k == kindKey{"", "Namespace"}:
		return o.Object.GetMetadata().GetNamespace() == name
	case k == registration:
		return o.Resource == name
	}
	return false
}

func (w *model) drained(o Change) bool {
	for _, c := range w.objects {
		if isTerminating(c) && has(c, lifecycle.FinalizerContents) && w.contains(c, o) {
			return true
		}
	}
	return false
}

// condemned is the least set that its definition allows.
func (w *model) condemned() map[string]bool {
	set := map[string]bool{}
	goes := func(o Change) bool {
		if isTerminating(o) || !isProtected(o) && w.drained(o) {
			return true
		}
		if isProtected(o) || len(refs(o)) == 0 {
			return false
		}
		for _, r := range refs(o) {
			switch w.class(o, r) {
			case unknown:
				return false
			case valid:
				if !set[r.GetUid()] || has(w.objects[r.GetUid()], lifecycle.FinalizerOrphan) {
					return false
				}
			}
		}
		return true
	}
	for grows := true; grows; {
		grows = false
		for uid, o := range w.objects {
			if !set[uid] && goes(o) {
				set[uid], grows = true, true
			}
		}
	}
	return set
}

func (w *model) below(uid string) int {
	seen := map[string]bool{uid: true}
	for grows := true; grows; {
		grows = false
		for d, o := range w.objects {
			if !seen[d] && slices.ContainsFunc(w.counting(o), func(u string) bool { return seen[u] }) {
				seen[d], grows = true, true
			}
		}
	}
	return len(seen) - 1
}

// dependents returns the objects whose valid references to an object match.
func (w *model) dependents(uid string, match func(Change, *coppicev1.OwnerReference) bool) (n int) {
	for _, o := range w.objects {
		for _, r := range refs(o) {
			if r.GetUid() == uid && w.class(o, r) == valid && match(o, r) {
				n++
			}
		}
	}
	return n
}

func (w *model) blocked(uid string) bool {
	o := w.objects[uid]
	external := func(f string) bool { return !lifecycle.IsBuiltinFinalizer(f) }
	ofProtected := func(d Change, _ *coppicev1.OwnerReference) bool { return isProtected(d) }
	inProtected := false
	for _, c := range w.objects {
		inProtected = inProtected || isProtected(c) && (w.contains(o, c) || c.Object.GetMetadata().GetUid() == uid && c.Resource == o.Object.GetMetadata().GetName())
	}
	return isTerminating(o) && (slices.ContainsFunc(o.Object.GetMetadata().GetFinalizers(), external) || o.Object.GetMetadata().GetDeletionGracePeriodSeconds() > 0 ||
		has(o, lifecycle.FinalizerForeground) && w.dependents(uid, ofProtected) > 0 || has(o, lifecycle.FinalizerContents) && inProtected)
}

func (w *model) state(uid string) string {
	o, is := w.objects[uid]
	counts := [3]int{}
	for _, r := range refs(o) {
		counts[w.class(o, r)]++
	}
	blocks := func(_ Change, r *coppicev1.OwnerReference) bool { return r.GetBlockOwnerDeletion() }
	switch {
	case !is:
		return Absent
	case isTerminating(o) && (w.blocked(uid) || has(o, lifecycle.FinalizerInUse) || has(o, lifecycle.FinalizerContents) || has(o, lifecycle.FinalizerForeground) && w.dependents(uid, blocks) > 0):
		return Blocked
	case isTerminating(o):
		return Terminating
	case isProtected(o):
		return Protected
	case counts[dangling] > 0 && counts[unknown]+counts[valid] == 0:
		return Garbage
	case counts[unknown] > 0 && counts[valid] == 0 && w.loaded && !w.partial:
		return UnknownOwner
	}
	return Present
}

// compare checks that the mirror says what the model says.
func (w *model) compare(t *rapid.T, m *Mirror, uids []string) {
	if m.Objects() != uint64(len(w.objects)) {
		t.Fatalf("%d objects, want %d", m.Objects(), len(w.objects))
	}
	counts := map[string]uint64{}
	for _, uid := range uids {
		state := w.state(uid)
		counts[state]++
		if got := m.State(uid); got != state {
			t.Fatalf("%s is %s, want %s", uid, got, state)
		}
		w.compareFamily(t, m, uid)
	}
	for state, got := range map[string]uint64{Garbage: m.Garbage(1).Total, UnknownOwner: m.UnknownOwners(1).Total, Terminating: m.Terminating(1).Total - counts[Blocked]} {
		if got != counts[state] && (state != UnknownOwner || !w.partial) {
			t.Fatalf("%d objects in the list of %s, want %d", got, state, counts[state])
		}
	}
	w.compareFinalizers(t, m)
	w.compareDeletions(t, m)
}

func (w *model) compareFamily(t *rapid.T, m *Mirror, uid string) {
	f, known := m.Family(uid, 0, 200)
	dependents := 0
	_, isPresent := w.objects[uid]
	named := isPresent
	var names []string
	for _, o := range w.objects {
		named = named || slices.ContainsFunc(refs(o), func(r *coppicev1.OwnerReference) bool { return r.GetUid() == uid })
		if slices.Contains(w.counting(o), uid) {
			dependents++
			names = append(names, o.Resource+" "+o.Object.GetMetadata().GetNamespace()+" "+o.Object.GetMetadata().GetName())
		}
	}
	if known != named {
		t.Fatalf("%s is known: %v, want %v", uid, known, named)
	}
	if !known {
		return
	}
	if f.Total != dependents || int(f.Self.Below) != w.below(uid) || len(f.Owners) != len(refs(w.objects[uid])) || f.Self.UID != uid {
		t.Fatalf("%s has %d dependents, %d below, %d owners; want %d, %d, %d", uid, f.Total, f.Self.Below, len(f.Owners), dependents, w.below(uid), len(refs(w.objects[uid])))
	}
	var got []string
	for _, d := range f.Dependents {
		got = append(got, d.Resource+" "+d.Namespace+" "+d.Name)
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Fatalf("dependents of %s: %q, want %q", uid, got, names)
	}
	for i, r := range refs(w.objects[uid]) {
		if o := f.Owners[i]; o.UID != r.GetUid() || o.Blocking != r.GetBlockOwnerDeletion() || (o.State == Absent) != (w.class(w.objects[uid], r) == dangling || w.objects[r.GetUid()].Object == nil) {
			t.Fatalf("owner %d of %s is %+v, want %v", i, uid, o, r)
		}
	}
}

func (w *model) compareFinalizers(t *rapid.T, m *Mirror) {
	want, inUse, protectedOnes := map[string]uint64{}, map[string]uint64{}, 0
	for uid, o := range w.objects {
		for _, f := range o.Object.GetMetadata().GetFinalizers() {
			if lifecycle.IsBuiltinFinalizer(f) {
				continue
			}
			inUse[f]++
			if isTerminating(o) {
				want[f]++
			}
		}
		dang, waits, others := 0, 0, 0
		for _, r := range refs(o) {
			owner := w.objects[r.GetUid()]
			switch c := w.class(o, r); {
			case c == dangling:
				dang++
			case c == valid && isTerminating(owner) && has(owner, lifecycle.FinalizerForeground):
				waits++
			default:
				others++
			}
		}
		if w.state(uid) == Protected && (w.drained(o) || waits > 0 || dang > 0 && others == 0) {
			protectedOnes++
		}
	}
	got := map[string]uint64{}
	for _, f := range m.Finalizers(3) {
		got[f.Name] = f.Total
	}
	if !maps.Equal(got, want) {
		t.Fatalf("finalizers %v, want %v", got, want)
	}
	if got := m.FinalizersInUse(); !maps.Equal(got, inUse) {
		t.Fatalf("finalizers in use %v, want %v", got, inUse)
	}
	if got := m.Protected(1).Total; got != uint64(protectedOnes) {
		t.Fatalf("%d protected objects are in the way, want %d", got, protectedOnes)
	}
}

func (w *model) compareDeletions(t *rapid.T, m *Mirror) {
	list, total := m.Deletions(1000)
	set := w.condemned()
	var remaining, blocked uint64
	roots := map[string]view.Deletion{}
	for _, d := range list {
		remaining += d.Remaining
		blocked += d.Blocked
		if !d.Gone {
			roots[d.Root.UID] = d
		}
		if d.Remaining == 0 {
			t.Fatalf("nothing is left of the deletion of %v", d.Root)
		}
	}
	wantBlocked := 0
	for uid := range set {
		if w.blocked(uid) {
			wantBlocked++
		}
		o := w.objects[uid]
		if !isTerminating(o) || w.drained(o) || slices.ContainsFunc(refs(o), func(r *coppicev1.OwnerReference) bool {
			return w.class(o, r) == valid && set[r.GetUid()] || w.class(o, r) == dangling && w.objects[r.GetUid()].Object == nil
		}) {
			continue
		}
		if i := slices.IndexFunc(refs(o), w.absent); i >= 0 { // it goes with the first owner that does not exist
			owner := refs(o)[i].GetUid()
			if d := m.byNumber[m.deletionOf(m.nodes.at(m.find(uid)))]; d.uid.String() != owner || d.root != 0 {
				t.Fatalf("%s goes with %+v, want %s", uid, d, owner)
			}
		} else if _, is := roots[uid]; !is {
			t.Fatalf("%s is no root of a deletion: %+v", uid, list)
		}
	}
	if total != len(list) || remaining != uint64(len(set)) || blocked != uint64(wantBlocked) {
		t.Fatalf("deletions have %d objects, of which %d are blocked; want %d (%v), %d", remaining, blocked, len(set), set, wantBlocked)
	}
	m.check(t)
}

// check compares what the deletions count with the objects that belong to them.
func (m *Mirror) check(t *rapid.T) {
	remaining, refs := map[uint32]uint64{}, map[uint32]uint32{}
	for id := uint32(1); id <= m.nodes.last; id++ {
		n := m.nodes.at(id)
		if n.flags&condemned != 0 {
			remaining[m.deletionOf(n)]++
		}
	}
	uses := map[uint32]uint32{}
	for id := uint32(1); id <= m.nodes.last; id++ {
		n := m.nodes.at(id)
		refs[n.deletion]++ // deletionOf has changed some
		if n.finalizers != 0 {
			uses[n.finalizers]++
		}
	}
	for text, id := range m.names.lists.of {
		if e := m.names.lists.entries[id]; e.text != text || e.uses != uses[id] {
			t.Fatalf("the list of finalizers %q has %d uses, want %d", text, e.uses, uses[id])
		}
		delete(uses, id)
	}
	if len(uses) > 0 {
		t.Fatalf("lists of finalizers that objects have are missing: %v", uses)
	}
	m.checkCatalog(t)
	for number, d := range m.byNumber {
		refs[d.into]++
		if d.into == 0 && d.remaining != remaining[number] {
			t.Fatalf("the deletion of %v counts %d objects and has %d", d.ref, d.remaining, remaining[number])
		}
	}
	for root, number := range m.byRoot {
		if d := m.byNumber[number]; d == nil || d.uid != root {
			t.Fatalf("the deletion %d that began with %s is %+v", number, root, d)
		}
	}
	for number, d := range m.byNumber {
		if d.refs != refs[number] {
			t.Fatalf("deletion %d counts %d names and has %d", number, d.refs, refs[number])
		}
	}
}
