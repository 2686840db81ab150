package lifecycle_test

import (
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// oracle says again, in its own words, what references mean: the definitions of
// A12.6, A16 and of absence. The properties are compared with it.
type oracle struct{ *lifecycletest.Realm }

// owner is the live object that a reference is true of, or nil.
func (o oracle) owner(n *lifecycle.Node, r lifecycle.OwnerReference) *lifecycle.Node {
	owner := o.Node(r.UID)
	if owner == nil || owner.Kind != r.Kind || owner.Name != r.Name || owner.Group() != r.Group() {
		return nil
	}
	if owner.Namespace != "" && owner.Namespace != n.Namespace {
		return nil
	}
	return owner
}

func waits(n *lifecycle.Node) bool {
	return n.DeletionTime != 0 && slices.Contains(n.Finalizers, "foregroundDeletion")
}

// solid reports whether the owner exists and does not wait.
func (o oracle) solid(n *lifecycle.Node, r lifecycle.OwnerReference) bool {
	owner := o.owner(n, r)
	return owner != nil && !waits(owner)
}

// importing reports whether the import session that brought n is open.
func (o oracle) importing(n *lifecycle.Node, now lifecycle.Time) bool {
	return n.ImportSession != "" && o.Session(n.ImportSession).Expires > now
}

// unresolvable reports whether nothing can be known of an owner that does not exist, because of its kind.
func (o oracle) unresolvable(n *lifecycle.Node, r lifecycle.OwnerReference) bool {
	kind := o.Kinds().Of(r.Group(), r.Kind)
	return kind == nil || n.Namespace == "" && kind.Namespaced() || slices.ContainsFunc(n.Owners, func(twin lifecycle.OwnerReference) bool {
		return twin.SameOwner(&r) && !kind.Serves(lifecycle.VersionOf(twin.APIVersion))
	})
}

// moved reports whether a reference is false of its owner only because it names another group.
func (o oracle) moved(n *lifecycle.Node, r lifecycle.OwnerReference) bool {
	owner := o.Node(r.UID)
	if owner == nil || o.owner(n, r) != nil {
		return false
	}
	r.APIVersion = owner.APIVersion
	return o.owner(n, r) == owner
}

// movedFrom reports whether a reference would be true of the owner in its group, and names a registered one.
func (o oracle) movedFrom(n *lifecycle.Node, r lifecycle.OwnerReference, owner *lifecycle.Node) bool {
	return r.UID == owner.UID && o.moved(n, r) && o.Kinds().Of(r.Group(), r.Kind) != nil
}

// movedDependents are the live objects with such a reference to n.
func (o oracle) movedDependents(n *lifecycle.Node) (count int) {
	for _, u := range o.UIDs() {
		d := o.Node(u)
		if slices.ContainsFunc(d.Owners, func(r lifecycle.OwnerReference) bool { return o.movedFrom(d, r, n) }) {
			count++
		}
	}
	return count
}

// unknown reports whether nothing is known of the owner, at the time now.
func (o oracle) unknown(n *lifecycle.Node, r lifecycle.OwnerReference, now lifecycle.Time) bool {
	if owner := o.owner(n, r); owner != nil {
		return waits(owner) && o.importing(owner, now)
	}
	if o.moved(n, r) {
		return true
	}
	session := o.importing(n, now)
	elsewhere, later := o.Node(r.UID) != nil, false
	if !elsewhere {
		for _, namespace := range []string{n.Namespace, ""} {
			at, same := o.Removed(r.UID, lifecycle.Coordinates{Group: r.Group(), Kind: r.Kind, Name: r.Name, Namespace: namespace})
			if same {
				return session && at < n.Revision // it may be restored
			}
			elsewhere = elsewhere || at != 0
			for _, k := range o.Kinds().All() { // only the group may be wrong
				_, other := o.Removed(r.UID, lifecycle.Coordinates{Group: k.Group, Kind: r.Kind, Name: r.Name, Namespace: namespace})
				later = later || other && k.Kind == r.Kind && at > n.Revision
			}
		}
	}
	kind := o.Kinds().Of(r.Group(), r.Kind)
	switch {
	case o.unresolvable(n, r):
		return true
	case elsewhere:
		return session && !later
	case session:
		return true
	case n.ImportTime == 0 && kind.RegisteredAt <= n.CreationTime:
		return false
	}
	return now < max(n.ImportTime, kind.RegisteredAt).Add(o.Settings().OwnerGrace)
}

// collectable reports whether the collector may delete n: it has references,
// and none of its owners keeps it or may keep it.
func (o oracle) collectable(n *lifecycle.Node, now lifecycle.Time) bool {
	return n.DeletionTime == 0 && len(n.Owners) > 0 && !slices.ContainsFunc(n.Owners, func(r lifecycle.OwnerReference) bool {
		return o.solid(n, r) || o.unknown(n, r, now)
	})
}

// dependents are the live objects with a true reference to n, and those of them
// that block it.
func (o oracle) dependents(n *lifecycle.Node) (all, blocking int) {
	for _, u := range o.UIDs() {
		d := o.Node(u)
		has, blocks := false, false
		for _, r := range d.Owners {
			if o.owner(d, r) == n {
				has = true
				blocks = blocks || r.Blocking == lifecycle.True
			}
		}
		if has {
			all++
		}
		if blocks {
			blocking++
		}
	}
	return all, blocking
}

// delaying are the dependents for which n waits when it is deleted in the
// foreground (A13): those that block, and of the others those that are not
// terminating, unless one of their owners is unknown and none keeps the dependent.
func (o oracle) delaying(n *lifecycle.Node) int {
	count := 0
	for _, u := range o.UIDs() {
		d := o.Node(u)
		valid := func(r lifecycle.OwnerReference) bool { return o.owner(d, r) == n }
		if !slices.ContainsFunc(d.Owners, valid) {
			continue
		}
		solid := slices.ContainsFunc(d.Owners, func(r lifecycle.OwnerReference) bool { return o.solid(d, r) })
		unknown := slices.ContainsFunc(d.Owners, func(r lifecycle.OwnerReference) bool { return o.unknown(d, r, o.Clock) })
		switch {
		case slices.ContainsFunc(d.Owners, func(r lifecycle.OwnerReference) bool { return valid(r) && r.Blocking == lifecycle.True }):
			count++
		case d.DeletionTime == 0 && (solid || !unknown):
			count++
		}
	}
	return count
}

// contains reports whether n is in the namespace that c is the object of, or of
// the kind that c registers.
func (o oracle) contains(c, n *lifecycle.Node) bool {
	switch c.APIVersion + " " + c.Kind {
	case "v1 Namespace":
		return n.Namespace == c.Name
	case "coppice.dev/v1 Kind":
		return o.Kinds().OfNode(n).UID == c.UID
	}
	return false
}

// contents is how many objects are in a container.
func (o oracle) contents(c *lifecycle.Node) int {
	count := 0
	for _, u := range o.UIDs() {
		if o.contains(c, o.Node(u)) {
			count++
		}
	}
	return count
}

// drained reports whether n is in a container of a set.
func (o oracle) drained(n *lifecycle.Node, by func(c *lifecycle.Node) bool) bool {
	return slices.ContainsFunc(o.UIDs(), func(u uid.UID) bool { return o.contains(o.Node(u), n) && by(o.Node(u)) })
}

func draining(c *lifecycle.Node) bool {
	return c.DeletionTime != 0 && slices.Contains(c.Finalizers, "coppice.dev/contents")
}

// frozen is everything that a realm is made of, with copies of it.
type frozen struct {
	nodes  map[*lifecycle.Node]lifecycle.Node
	bodies map[*coppicev1.Body]*coppicev1.Body
}

// freeze copies everything in a realm, so that check finds any modification.
func freeze(r *lifecycletest.Realm) frozen {
	f := frozen{map[*lifecycle.Node]lifecycle.Node{}, map[*coppicev1.Body]*coppicev1.Body{}}
	for _, u := range r.UIDs() {
		n := r.Node(u)
		f.nodes[n] = clone(n)
		f.bodies[r.Body(n)] = proto.Clone(r.Body(n)).(*coppicev1.Body)
	}
	return f
}

func clone(n *lifecycle.Node) lifecycle.Node {
	c := *n
	c.Owners, c.Finalizers, c.Initializers = slices.Clone(n.Owners), slices.Clone(n.Finalizers), slices.Clone(n.Initializers)
	if n.GracePeriod != nil {
		c.GracePeriod = proto.Int64(*n.GracePeriod)
	}
	return c
}

// check fails if something that was frozen is not as it was (S13).
func (f frozen) check(t *rapid.T, by string) {
	for n, was := range f.nodes {
		if !reflect.DeepEqual(*n, was) {
			t.Fatalf("%s modified a node: it is %+v, was %+v", by, *n, was)
		}
	}
	for b, was := range f.bodies {
		if !proto.Equal(b, was) {
			t.Fatalf("%s modified a body: it is %v, was %v", by, b, was)
		}
	}
}

func cloneEvents(events []lifecycle.Event) []lifecycle.Event {
	copies := slices.Clone(events)
	for i := range copies {
		e := &copies[i]
		if e.Object.Node != nil {
			n := clone(e.Object.Node)
			e.Object.Node = &n
		}
		if e.Object.Body != nil {
			e.Object.Body = proto.Clone(e.Object.Body).(*coppicev1.Body)
		}
		if e.Mark.GracePeriod != nil {
			e.Mark.GracePeriod = proto.Int64(*e.Mark.GracePeriod)
		}
		e.Mark.Finalizers, e.References, e.Finalizers = slices.Clone(e.Mark.Finalizers), slices.Clone(e.References), slices.Clone(e.Finalizers)
	}
	return copies
}

// history draws a realm with a past. Sometimes its import session is open.
func history(t *rapid.T) *lifecycletest.Realm {
	r := lifecycletest.New()
	r.Latecomers, r.Containers, r.Restless = true, true, true
	return lived(t, r)
}

func lived(t *rapid.T, r *lifecycletest.Realm) *lifecycletest.Realm {
	for range rapid.IntRange(5, 60).Draw(t, "commands") {
		drawSession(t, r)
		r.RandomEvents(t)
	}
	return r
}

func drawSession(t *rapid.T, r *lifecycletest.Realm) {
	switch rapid.IntRange(0, 11).Draw(t, "session") {
	case 0:
		r.TouchSession("session", false)
	case 1:
		r.TouchSession("session", true)
	}
}

// later lets so much time pass that only knowledge can help what is unknown, also
// when options that are being deleted are gone.
func later(r *lifecycletest.Realm) {
	r.TouchSession("session", true)
	r.Clock = r.Clock.Add(10 * max(r.Settings().OwnerGrace, lifecycle.DefaultSettings().OwnerGrace))
}

// TestOracle holds the classes against the oracle's.
func TestOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := history(t)
		o := oracle{r}
		for _, u := range r.UIDs() {
			n := r.Node(u)
			for i, ref := range n.Owners {
				want := lifecycle.Dangling
				switch {
				case o.solid(n, ref):
					want = lifecycle.Solid
				case o.unknown(n, ref, r.Clock):
					want = lifecycle.Unknown
				case o.owner(n, ref) != nil:
					want = lifecycle.Waiting
				}
				c := lifecycle.Classify(r, n, &n.Owners[i], r.Clock)
				if c.Class != want {
					t.Fatalf("%s of %+v is %s, want %s", reference(&n.Owners[i]), n, c.Class, want)
				}
				if c.Until != 0 && (c.Class != lifecycle.Unknown || c.Until <= r.Clock) {
					t.Fatalf("%s of %+v is %s until %s, and it is %s", reference(&n.Owners[i]), n, c.Class, since(c.Until), since(r.Clock))
				}
				if c.Cause > r.Revision || c.Why(r, n, &n.Owners[i]) == "" {
					t.Fatalf("%s of %+v has no reason: %+v", reference(&n.Owners[i]), n, c)
				}
			}
			all, blocking := o.dependents(n)
			if d := lifecycle.Dependents(r, n); d.All != uint64(all) || d.Blocking != uint64(blocking) {
				t.Fatalf("%+v has dependents %+v, want %d, of which %d block", n, d, all, blocking)
			}
		}
	})
}

// owners are the uids that an object refers to.
func owners(n *lifecycle.Node) []uid.UID {
	var list []uid.UID
	for _, r := range n.Owners {
		list = append(list, r.UID)
	}
	return list
}
