package restore

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// survivors gives the objects that the cascade has left their references back.
func (b *builder) survivors() {
	for _, u := range slices.Sorted(maps.Keys(b.Unread)) {
		m := b.Cascade.Member(u)
		b.note(Note{Resource: m.Resource, Namespace: m.Namespace, Name: m.Name}, "had %d dependents, too many to look at: of those that exist, only some get their reference to it back", b.Unread[u])
	}
	losses := map[string][]*loss{}
	var uids []string
	for k := range b.Cascade.Lost {
		l := &b.Cascade.Lost[k]
		if losses[l.UID] == nil {
			uids = append(uids, l.UID)
		}
		losses[l.UID] = append(losses[l.UID], l)
	}
	for _, u := range b.Dependents {
		if losses[u] == nil {
			uids = append(uids, u)
		}
	}
	for _, u := range uids {
		if b.Cascade.Member(u) == nil && b.Now[u] != nil {
			b.survivor(b.Now[u], losses[u])
		}
	}
	slices.SortFunc(b.plan.Survivors, func(x, y *Survivor) int {
		p, q := x.Object.GetMetadata(), y.Object.GetMetadata()
		return cmp.Or(cmp.Compare(x.Resource, y.Resource), cmp.Compare(p.GetNamespace(), q.GetNamespace()), cmp.Compare(p.GetName(), q.GetName()))
	})
}

// survivor gives one object its references back.
func (b *builder) survivor(now *coppicev1.GraphNode, lost []*loss) {
	object := proto.CloneOf(now.GetObject())
	m := object.GetMetadata()
	s := &Survivor{Resource: now.GetResource(), Object: object}
	about := Note{Resource: s.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}
	b.still(about, now)
	for _, r := range m.GetOwnerReferences() {
		if to := b.plan.newUID[r.GetUid()]; to != "" {
			r.Uid = to
			s.Back = append(s.Back, r)
			s.Deletion = cmp.Or(s.Deletion, b.removed(r.GetUid()), b.Cascade.Revision)
		}
	}
	for _, l := range lost {
		for _, r := range b.as(l) {
			b.back(about, s, l, r)
		}
	}
	if len(s.Back) == 0 {
		return
	}
	if m.GetDeletionTimestamp() != nil {
		b.note(about, "gets no references back, because it is being deleted")
		return
	}
	b.plan.Survivors = append(b.plan.Survivors, s)
}

// removed returns the revision of the removal of an object, zero if it is no member.
func (b *builder) removed(uid string) uint64 {
	if m := b.Cascade.Member(uid); m != nil {
		return m.Removed
	}
	return 0
}

// as returns the references that an object has lost, as they were before the cascade. A shared event
// may have references of other objects: those that this object did not have are left out. An event
// about this object alone may have references that it got later: these are added.
func (b *builder) as(l *loss) []*client.OwnerReference {
	before := b.Before[l.UID]
	if before == nil {
		return l.References
	}
	var had []*client.OwnerReference
	for _, r := range before.Object.GetMetadata().GetOwnerReferences() {
		if slices.ContainsFunc(l.References, func(o *client.OwnerReference) bool { return sameOwner(r, o) }) {
			had = append(had, r)
		}
	}
	for _, r := range l.References {
		if !l.Shared && !slices.ContainsFunc(had, func(o *client.OwnerReference) bool { return sameOwner(r, o) }) {
			had = append(had, r)
		}
	}
	return had
}

// back gives a survivor one reference back.
func (b *builder) back(about Note, s *Survivor, l *loss, lost *client.OwnerReference) {
	if b.skipped[lost.GetUid()] {
		b.note(about, "does not get its reference to %s/%s back, which is skipped", lost.GetKind(), lost.GetName())
		return
	}
	to := b.plan.newUID[lost.GetUid()]
	if to == "" {
		return
	}
	r := proto.CloneOf(lost)
	r.Uid = to
	m := s.Object.GetMetadata()
	// An object may have several references to the same owner, with different flags.
	if slices.ContainsFunc(m.GetOwnerReferences(), func(has *client.OwnerReference) bool {
		return proto.Equal(has, r) || sameOwner(has, r) && !slices.Contains(s.Back, has)
	}) {
		return
	}
	if has := client.ControllerOf(s.Object); has != nil && r.GetController() {
		b.note(about, "does not get its reference to %s/%s back: %s/%s is its controller now", r.GetKind(), r.GetName(), has.GetKind(), has.GetName())
		return
	}
	m.OwnerReferences = append(m.OwnerReferences, r)
	s.Back = append(s.Back, r)
	s.Deletion = cmp.Or(s.Deletion, l.Revision)
}

// still refuses if the collector has yet to collect or strip an object because of the cascade.
func (b *builder) still(about Note, now *coppicev1.GraphNode) {
	dangling, solid, unknown := false, false, false
	for k, r := range now.GetObject().GetMetadata().GetOwnerReferences() {
		switch now.GetOwners()[k].GetClass() {
		case coppicev1.OwnerClass_OWNER_CLASS_SOLID:
			solid = true
		case coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN:
			unknown = true
		default:
			dangling = dangling || b.Cascade.Member(r.GetUid()) != nil
		}
	}
	m := now.GetObject().GetMetadata()
	switch {
	case !dangling || m.GetDeletionTimestamp() != nil:
	case now.GetBraked():
		b.refuse(about, "the brake of its kind pauses its deletion, so the cascade is not finished; protect it, or release the brake and wait")
	case solid:
		b.refuse(about, "it is about to lose its references, so the cascade is not finished; try again")
	case !unknown && m.GetProtection() == nil:
		b.refuse(about, "it is about to be deleted, so the cascade is not finished; try again")
	}
}

// sameOwner reports whether two references claim the same owner.
func sameOwner(a, b *client.OwnerReference) bool {
	return a.GetUid() == b.GetUid() && a.GetKind() == b.GetKind() && a.GetName() == b.GetName() && api.GroupOf(a.GetApiVersion()) == api.GroupOf(b.GetApiVersion())
}
