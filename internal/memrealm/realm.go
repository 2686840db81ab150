// Package memrealm has a realm in memory, which does what the rules of package lifecycle say:
// it applies events, and does the work of processors, built-in finalizers and the search for
// cycles in one goroutine. It counts dependents by reading them.
//
// Tests of the rules use it as the plain statement of what a [lifecycle.View] returns and
// of what the services achieve together (lifecycletest draws commands for it), and
// client/fake serves requests with it. It has no rules of its own.
package memrealm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Realm is a lifecycle.View over maps. It is not safe for concurrent use.
type Realm struct {
	Revision uint64
	Clock    lifecycle.Time
	// Actor is who sends the commands.
	Actor string
	// UUIDs makes the uids of objects UUIDs, as they are outside of tests.
	UUIDs bool
	// OnChange is called with each event that is applied, and the object before and after
	// it; nil for none. An object that does not exist has no Node.
	OnChange func(e *lifecycle.Event, before, after lifecycle.Object)
	// Plan makes SettleActive leave out unreachable cycles, as a plan does.
	Plan bool

	kinds    *lifecycle.Kinds
	settings lifecycle.Settings
	nodes    map[uid.UID]*lifecycle.Node
	bodies   map[uid.UID]*coppicev1.Body
	removed  map[uid.UID]removal
	sessions map[string]lifecycle.Time // last command of the open ones
	realm    lifecycle.Realm
	brakes   map[string]lifecycle.Brake // by resource
	released map[uid.UID]bool           // let through by the release of a brake
	uids     int
	// Indexes of nodes:
	names      map[name]uid.UID
	dependents map[uid.UID]map[uid.UID]bool // by each owner that is named
	users      map[uid.UID]map[uid.UID]bool // by each object that is used; "" for uses without a uid
	// active are the uids because of which work may be pending: see SettleActive.
	active map[uid.UID]bool
}

type removal struct {
	revision uint64
	c        lifecycle.Coordinates
}

// name is what a name is unique in. A kind may be in a group under one name only.
type name struct{ group, kind, namespace, name string }

func nameOf(n *lifecycle.Node) name { return name{n.Group(), n.Kind, n.Namespace, n.Name} }

var _ lifecycle.View = (*Realm)(nil)

// Start is the time of the clock of a realm that New returns.
var Start = lifecycle.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

// New returns a realm with the built-in kinds, whose clock is at Start.
func New() *Realm { return pristine().Clone() }

// pristine is made once: to parse the built-in kinds takes longer than most tests that need
// a realm.
var pristine = sync.OnceValue(func() *Realm { return NewAt(Start) })

// NewAt is New with another time.
func NewAt(now lifecycle.Time) *Realm {
	r := NewEmpty(now)
	ctx := r.Context()
	at := lifecycle.Key{Kind: r.kinds.Of(lifecycle.Group, "Kind")}
	for _, spec := range lifecycle.BuiltinKinds() {
		out, err := lifecycle.Create(ctx, at, Registration(spec))
		if err != nil {
			panic(err)
		}
		r.Apply(out.Events)
	}
	return r
}

// NewEmpty is NewAt without the built-in kinds: the realm before its first commit.
func NewEmpty(now lifecycle.Time) *Realm {
	return &Realm{
		Clock:      now,
		kinds:      lifecycle.NewKinds(),
		settings:   lifecycle.DefaultSettings(),
		nodes:      map[uid.UID]*lifecycle.Node{},
		bodies:     map[uid.UID]*coppicev1.Body{},
		removed:    map[uid.UID]removal{},
		sessions:   map[string]lifecycle.Time{},
		brakes:     map[string]lifecycle.Brake{},
		released:   map[uid.UID]bool{},
		names:      map[name]uid.UID{},
		dependents: map[uid.UID]map[uid.UID]bool{},
		users:      map[uid.UID]map[uid.UID]bool{},
		active:     map[uid.UID]bool{},
	}
}

// Genesis returns the events that made a new realm what it is.
func (r *Realm) Genesis() []lifecycle.Event {
	var events []lifecycle.Event
	for u, n := range r.nodes {
		events = append(events, lifecycle.Event{
			Type: lifecycle.ObjectCreated, UID: u, Object: lifecycle.Object{Node: n, Body: r.bodies[u]},
		})
	}
	slices.SortFunc(events, func(a, b lifecycle.Event) int { return cmp.Compare(a.Object.Revision, b.Object.Revision) })
	return events
}

// Registration returns the object that registers a kind.
func Registration(spec lifecycle.KindSpec) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: lifecycle.APIVersion, Kind: "Kind",
		Metadata: &coppicev1.ObjectMeta{Name: lifecycle.ResourceName(spec.Group, spec.Plural)},
		Spec:     spec.JSON(),
	}
}

// SettingsObject returns the object that has the realm settings.
func SettingsObject(spec lifecycle.SettingsSpec) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: lifecycle.APIVersion, Kind: "Realm",
		Metadata: &coppicev1.ObjectMeta{Name: lifecycle.SettingsName}, Spec: spec.JSON(),
	}
}

// Clone returns a copy of the realm, without OnChange.
func (r *Realm) Clone() *Realm {
	c := *r
	c.nodes, c.bodies = maps.Clone(r.nodes), maps.Clone(r.bodies)
	c.removed, c.sessions = maps.Clone(r.removed), maps.Clone(r.sessions)
	c.brakes, c.released = maps.Clone(r.brakes), maps.Clone(r.released)
	c.names, c.dependents, c.active = maps.Clone(r.names), map[uid.UID]map[uid.UID]bool{}, maps.Clone(r.active)
	c.users = map[uid.UID]map[uid.UID]bool{}
	for u, set := range r.dependents {
		c.dependents[u] = maps.Clone(set)
	}
	for u, set := range r.users {
		c.users[u] = maps.Clone(set)
	}
	c.OnChange = nil
	return &c
}

// Context returns the context of a command now. Uids are numbered. An update that leaves out
// external finalizers removes them, as in Kubernetes.
func (r *Realm) Context() *lifecycle.Context {
	return &lifecycle.Context{
		View:  r,
		Now:   r.Clock,
		Actor: r.Actor,
		NewUID: func() uid.UID {
			r.uids++
			if r.UUIDs {
				return uid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012x", r.uids))
			}
			return uid.MustParse(fmt.Sprintf("uid-%d", r.uids))
		},
		NewSuffix: func() string {
			r.uids++
			return fmt.Sprintf("%05d", r.uids)
		},
		Trip:      func(k *lifecycle.Kind, b lifecycle.Brake) { r.brakes[k.Resource()] = b },
		MaxObject: 64 << 10,

		RemovesFinalizers: true,
	}
}

// Apply applies events in order, each with the next revision.
func (r *Realm) Apply(events []lifecycle.Event) {
	for i := range events {
		e := &events[i]
		r.Revision++
		before := lifecycle.Object{Node: r.nodes[e.UID], Body: r.bodies[e.UID]}
		after := lifecycle.Object{Node: e.After(before.Node, r.Revision), Body: before.Body}
		if e.Object.Body != nil {
			after.Body = e.Object.Body
		}
		r.brake(e, before.Node, after.Node)
		if before.Node != nil {
			r.remove(before.Node)
		}
		r.activate(before.Node)
		r.activate(after.Node)
		if after.Node == nil {
			after.Body = nil
			r.removed[e.UID] = removal{r.Revision, before.Coordinates()}
			switch {
			case lifecycle.IsRegistration(before.Node):
				delete(r.brakes, r.kinds.RegisteredBy(before.Node).Resource())
				r.kinds = r.kinds.Without(e.UID)
			case lifecycle.IsPolicy(before.Node):
				r.kinds = r.kinds.WithoutPolicy(e.UID)
			case lifecycle.IsSettings(before.Node):
				r.settings = lifecycle.DefaultSettings()
			}
		} else {
			r.add(after)
			if e.Object.Body != nil {
				r.govern(after.Node, e.Object.Body)
			}
		}
		if r.OnChange != nil {
			r.OnChange(e, before, after)
		}
	}
}

// activate notes that an object has changed. If it governs the realm, the pending work
// because of all objects may have changed.
func (r *Realm) activate(n *lifecycle.Node) {
	if n == nil {
		return
	}
	r.active[n.UID] = true
	for i := range n.Owners {
		r.active[n.Owners[i].UID] = true
	}
	for i := range n.Uses {
		r.active[n.Uses[i].UID] = true
	}
	if lifecycle.Governs(n) {
		for _, u := range r.Owners() {
			r.active[u] = true
		}
	}
}

// add adds an object to the maps.
func (r *Realm) add(o lifecycle.Object) {
	r.nodes[o.UID], r.bodies[o.UID] = o.Node, o.Body
	r.names[nameOf(o.Node)] = o.UID
	for i := range o.Owners {
		owner := o.Owners[i].UID
		if r.dependents[owner] == nil {
			r.dependents[owner] = map[uid.UID]bool{}
		}
		r.dependents[owner][o.UID] = true
	}
	for i := range o.Uses {
		used := o.Uses[i].UID
		if r.users[used] == nil {
			r.users[used] = map[uid.UID]bool{}
		}
		r.users[used][o.UID] = true
	}
}

// remove removes an object from the maps.
func (r *Realm) remove(n *lifecycle.Node) {
	delete(r.nodes, n.UID)
	delete(r.bodies, n.UID)
	delete(r.names, nameOf(n))
	for i := range n.Owners {
		owner := n.Owners[i].UID
		if delete(r.dependents[owner], n.UID); len(r.dependents[owner]) == 0 {
			delete(r.dependents, owner)
		}
	}
	for i := range n.Uses {
		delete(r.users[n.Uses[i].UID], n.UID)
	}
}

// govern applies what a registration, or the realm settings, say now.
func (r *Realm) govern(n *lifecycle.Node, body *coppicev1.Body) {
	var err error
	switch {
	case lifecycle.IsRegistration(n):
		r.kinds, err = r.kinds.With(n, body)
	case lifecycle.IsPolicy(n):
		r.kinds, err = r.kinds.WithPolicy(n, body)
	case lifecycle.IsSettings(n):
		before := r.settings
		r.settings, err = lifecycle.SettingsOf(body)
		if r.settings.UnreachableCycles != before.UnreachableCycles {
			for u := range r.nodes {
				r.active[u] = true // the cycles that exist already
			}
		}
	}
	if err != nil {
		panic(err)
	}
}

// TouchSession records that an import session has got a command, or was closed.
func (r *Realm) TouchSession(id string, closed bool) {
	if r.sessions[id] = r.Clock; closed {
		delete(r.sessions, id)
	}
}

// ChangeRealm applies an event about the realm itself.
func (r *Realm) ChangeRealm(event lifecycle.RealmChange) { r.realm = r.realm.After(event, r.Clock) }

// UIDs returns the live objects, sorted.
func (r *Realm) UIDs() []uid.UID { return slices.Sorted(maps.Keys(r.nodes)) }

// Tombstones returns the objects that were removed, and their coordinates.
func (r *Realm) Tombstones() map[uid.UID]lifecycle.Coordinates {
	all := make(map[uid.UID]lifecycle.Coordinates, len(r.removed))
	for u, g := range r.removed {
		all[u] = g.c
	}
	return all
}
