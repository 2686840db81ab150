package restore

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// build computes the plan of a restoration from what was read. It reads and changes nothing else.
func build(in *input) *Plan {
	b := &builder{input: in, plan: &Plan{newUID: map[string]string{}}, refused: map[string]bool{}, skipped: map[string]bool{}, gone: map[string]bool{}, names: map[[2]string]bool{}, expected: map[identity]string{}}
	b.expect()
	for _, m := range in.Cascade.Members {
		b.member(m)
	}
	for _, i := range b.plan.Objects {
		b.connect(i)
	}
	b.survivors()
	b.order()
	return b.plan
}

type builder struct {
	*input
	plan    *Plan
	refused map[string]bool // old uids of members that refuse the restoration
	skipped map[string]bool // old uids of objects whose name is taken
	gone    map[string]bool
	names   map[[2]string]bool // resource and name of each restored object
	// expected are uids that objects which were restored before have in references.
	expected map[identity]string
}

func (b *builder) refuse(of Note, format string, args ...any) {
	of.Text = fmt.Sprintf(format, args...)
	b.plan.Refusals = append(b.plan.Refusals, of)
}

func (b *builder) note(of Note, format string, args ...any) {
	of.Text = fmt.Sprintf(format, args...)
	b.plan.Notes = append(b.plan.Notes, of)
}

// member decides whether an object is restored.
func (b *builder) member(m *member) {
	about := Note{Resource: m.Resource, Namespace: m.Namespace, Name: m.Name}
	before := b.Before[m.UID]
	refusals := len(b.plan.Refusals)
	defer func() { b.refused[m.UID] = len(b.plan.Refusals) > refusals }()
	switch {
	case m.Removed == 0:
		b.refuse(about, "it is still being deleted, so the cascade is not finished; 'coppice explain' says what it waits for")
		return
	case before == nil && m.Created:
		b.note(about, "not restored: it was created after the deletion had begun")
		return
	case before == nil:
		b.refuse(about, "neither the log nor the archive has it as it was before revision %d", m.Deletion)
		return
	case before.Object.GetMetadata().GetDeletionTimestamp() != nil:
		b.refuse(about, "it was being deleted before revision %d already; restore the deletion that began first", b.Cascade.Revision)
		return
	}
	if u := b.earlier(m); u != "" {
		b.plan.newUID[m.UID] = u
		b.note(about, "restored before, with the uid %s", u)
		return
	}
	if taken := b.Taken[objectName{m.Resource, m.Namespace, m.Name}]; taken != "" {
		if !b.Options.SkipExisting {
			b.refuse(about, "another object has the name now, with the uid %s; delete that, or use --skip-existing", taken)
			return
		}
		b.skipped[m.UID] = true
		b.note(about, "skipped: another object has the name now")
		return
	}
	if t := before.Object.GetMetadata().GetExpiresAt(); t != nil && !t.AsTime().After(b.Time) && b.Options.Expires == nil {
		b.refuse(about, "its expiresAt, %s, has passed, so it would be deleted at once; use --expires", t.AsTime().Format(time.RFC3339))
		return
	}
	i := &Item{Resource: m.Resource, Old: m.UID, Object: b.again(about, before.Object, b.uidOf(m)), Deletion: m.Removed}
	b.plan.newUID[m.UID] = i.Object.GetMetadata().GetUid()
	b.plan.Objects = append(b.plan.Objects, i)
	b.names[[2]string{i.Resource, i.Object.GetMetadata().GetName()}] = true
}

// sameName reports whether two objects have the same kind, namespace and name. The cause in the
// log of a restored object is what the restoring client has sent, so it may be that of another
// object.
func sameName(a, b *client.Object) bool {
	return a.GetApiVersion() == b.GetApiVersion() && a.GetKind() == b.GetKind() &&
		a.GetMetadata().GetNamespace() == b.GetMetadata().GetNamespace() && a.GetMetadata().GetName() == b.GetMetadata().GetName()
}

// earlier returns the uid under which a member was restored before and exists, empty if it does not.
func (b *builder) earlier(m *member) string {
	before := b.Before[m.UID]
	for _, u := range slices.Backward(b.Cascade.Restored(m)) {
		if now := b.Now[u].GetObject(); before != nil && now != nil && sameName(now, before.Object) {
			return u
		}
	}
	return ""
}

// identity is what a reference says about an object, except the uid.
type identity struct{ group, kind, namespace, name string }

// expect collects the uids by which objects that were restored before refer to others that do not
// exist: an interrupted restoration of a cycle creates some members with references to others.
func (b *builder) expect() {
	expect := func(u, group, kind, namespace, name string) {
		if u != "" && b.Now[u] == nil {
			b.expected[identity{group, kind, namespace, name}] = u
		}
	}
	for _, m := range b.Cascade.Members {
		o := b.Now[b.earlier(m)].GetObject()
		ns := o.GetMetadata().GetNamespace()
		for _, r := range o.GetMetadata().GetOwnerReferences() {
			for _, in := range []string{ns, ""} { // where an owner can be
				expect(r.GetUid(), api.GroupOf(r.GetApiVersion()), r.GetKind(), in, r.GetName())
			}
		}
		for _, u := range o.GetMetadata().GetUses() {
			for _, in := range []string{cmp.Or(u.GetNamespace(), ns), ""} {
				expect(u.GetUid(), u.GetGroup(), u.GetKind(), in, u.GetName())
			}
		}
	}
}

// uidOf returns the uid under which a member is created: one that an object which was restored before
// expects, unless that was used already.
func (b *builder) uidOf(m *member) string {
	o := b.Before[m.UID].Object
	u := b.expected[identity{api.GroupOf(o.GetApiVersion()), o.GetKind(), o.GetMetadata().GetNamespace(), o.GetMetadata().GetName()}]
	if u == "" || b.Cascade.Used(u) {
		return b.NewUID()
	}
	return u
}

// again returns the object as it is created with a uid, with its old references.
func (b *builder) again(about Note, was *client.Object, uid string) *client.Object {
	o := proto.CloneOf(was)
	m := o.Metadata
	if m.GetProtection() != nil {
		b.note(about, "its protection is not restored; 'coppice protect' protects it")
	}
	m.Uid = uid
	m.ResourceVersion, m.CreationTimestamp, m.Initializers, m.Protection = 0, nil, nil, nil
	if t := m.GetExpiresAt(); t != nil && !t.AsTime().After(b.Time) && b.Options.Expires != nil {
		if m.ExpiresAt = nil; !b.Options.Expires.IsZero() {
			m.ExpiresAt = timestamppb.New(*b.Options.Expires)
		}
	}
	if !b.Options.WithStatus {
		o.Status = nil
	}
	return o
}

// connect points the references of a restored object to the new uids.
func (b *builder) connect(i *Item) {
	m := i.Object.GetMetadata()
	about := Note{Resource: i.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}
	before := b.Before[i.Old]
	if why := b.Unplaced(i.Object, b.restores); why != "" {
		b.refuse(about, "%s", why)
	}
	refusals := len(b.plan.Refusals)
	var owners []*client.OwnerReference
	for k, r := range m.GetOwnerReferences() {
		unknown := k < len(before.Classes) && before.Classes[k] == coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN
		if to, keep := b.target(about, r.GetUid(), "its owner "+r.GetKind()+"/"+r.GetName(), unknown); keep {
			r.Uid = to
			owners = append(owners, r)
		}
	}
	if len(owners) == 0 && len(m.GetOwnerReferences()) > 0 && len(b.plan.Refusals) == refusals {
		b.note(about, "it has no owner after the restoration")
	}
	m.OwnerReferences = owners
	var uses []*coppicev1.Use
	for k, u := range m.GetUses() {
		if !b.shared(about, u) {
			continue
		}
		ineffective := u.GetUid() == "" || k < len(before.UseStates) && before.UseStates[k] != "resolved"
		if to, keep := b.target(about, u.GetUid(), "the object that it uses, "+u.GetKind()+"/"+u.GetName(), ineffective); keep {
			u.Uid = to
			uses = append(uses, u)
		}
	}
	m.Uses = uses
}

// shared reports whether a use can be written again: the realm settings may have stopped sharing the
// namespace of the used object.
func (b *builder) shared(about Note, u *coppicev1.Use) bool {
	ns := u.GetNamespace()
	if ns == "" || b.Shared == nil || b.Shared(ns) {
		return true
	}
	what := fmt.Sprintf("%s/%s in namespace %s, which sharedNamespaces in the realm settings does not name", u.GetKind(), u.GetName(), ns)
	if b.Options.DropDangling {
		b.note(about, "loses its use of %s", what)
	} else {
		b.refuse(about, "it uses %s; name it there, or use --drop-dangling", what)
	}
	return false
}

// restores reports whether an object is restored.
func (b *builder) restores(resource, name string) bool {
	return b.names[[2]string{resource, name}]
}

// target returns the uid to which a reference to a uid points after the restoration, and whether
// the reference is kept. If kept is true, a reference to a uid that does not exist stays as it is.
func (b *builder) target(about Note, u, what string, kept bool) (to string, keep bool) {
	if to := b.plan.newUID[u]; to != "" {
		return to, true
	}
	if b.refused[u] {
		return u, true // that is said already
	}
	if b.skipped[u] {
		b.note(about, "loses its reference to %s, which is skipped", what)
		return "", false
	}
	now := b.Now[u]
	terminating := now.GetObject().GetMetadata().GetDeletionTimestamp() != nil
	if now != nil && !terminating || now == nil && kept {
		return u, true
	}
	if now == nil && !b.gone[u] {
		b.gone[u] = true
		b.plan.Gone = append(b.plan.Gone, u)
	}
	switch {
	case b.Options.DropDangling:
		b.note(about, "loses its reference to %s, which is gone", what)
	case terminating:
		b.refuse(about, "%s is being deleted; wait until that is over, or use --drop-dangling", what)
	case b.Options.WithOwners:
		b.refuse(about, "%s (uid %s) is gone, and neither the log nor the archive has its deletion; use --drop-dangling", what, u)
	default:
		b.refuse(about, "%s (uid %s) is gone and not restored; use --with-owners or --drop-dangling", what, u)
	}
	return "", false
}
