// Package lifecycletest has a realm in memory, for tests of the rules and as
// the plain statement of what a View answers: it counts by looking at every
// object. It is for one goroutine.
package lifecycletest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Realm is a lifecycle.View over maps.
type Realm struct {
	Revision uint64
	Clock    lifecycle.Time
	// Latecomers lets RandomCommand register a kind that references have
	// named before.
	Latecomers bool
	// Restless lets RandomCommand change the realm settings.
	Restless bool
	// UUIDs makes the uids of objects UUIDs, as they are outside of tests.
	UUIDs bool
	// Containers lets it make Namespace objects, and withdraw that kind.
	Containers bool

	kinds    *lifecycle.Kinds
	settings lifecycle.Settings
	nodes    map[uid.UID]*lifecycle.Node
	bodies   map[uid.UID]*coppicev1.Body
	removed  map[uid.UID]removal
	sessions map[string]lifecycle.Session
	uids     int
}

type removal struct {
	revision uint64
	c        lifecycle.Coordinates
}

var _ lifecycle.View = (*Realm)(nil)

// Start is the time at which a new realm's clock stands.
var Start = lifecycle.TimeOf(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))

// New returns a realm that knows the built-in kinds.
func New() *Realm {
	r := &Realm{
		Clock:    Start,
		kinds:    lifecycle.NewKinds(),
		settings: lifecycle.DefaultSettings(),
		nodes:    map[uid.UID]*lifecycle.Node{},
		bodies:   map[uid.UID]*coppicev1.Body{},
		removed:  map[uid.UID]removal{},
		sessions: map[string]lifecycle.Session{},
	}
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

// Genesis is the events that made a new realm what it is.
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

// Registration is the object that registers a kind.
func Registration(spec lifecycle.KindSpec) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: lifecycle.APIVersion, Kind: "Kind",
		Metadata: &coppicev1.ObjectMeta{Name: lifecycle.ResourceName(spec.Group, spec.Plural)},
		Spec:     spec.JSON(),
	}
}

// SettingsObject is the object that has the realm settings.
func SettingsObject(spec lifecycle.SettingsSpec) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: lifecycle.APIVersion, Kind: "Realm",
		Metadata: &coppicev1.ObjectMeta{Name: lifecycle.SettingsName}, Spec: spec.JSON(),
	}
}

// Clone returns a realm that goes its own way from here.
func (r *Realm) Clone() *Realm {
	c := *r
	c.nodes, c.bodies = maps.Clone(r.nodes), maps.Clone(r.bodies)
	c.removed, c.sessions = maps.Clone(r.removed), maps.Clone(r.sessions)
	return &c
}

// Context is the context of a command now. Uids are numbered.
func (r *Realm) Context() *lifecycle.Context {
	return &lifecycle.Context{
		View: r,
		Now:  r.Clock,
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
		MaxObject: 64 << 10,
	}
}

// Apply applies events in order, each with the next revision.
func (r *Realm) Apply(events []lifecycle.Event) {
	for i := range events {
		e := &events[i]
		r.Revision++
		before := r.nodes[e.UID]
		after := e.After(before, r.Revision)
		if after == nil {
			r.removed[e.UID] = removal{r.Revision, before.Coordinates()}
			delete(r.nodes, e.UID)
			delete(r.bodies, e.UID)
			switch {
			case lifecycle.IsRegistration(before):
				r.kinds = r.kinds.Without(e.UID)
			case lifecycle.IsSettings(before):
				r.settings = lifecycle.DefaultSettings()
			}
			continue
		}
		r.nodes[e.UID] = after
		if e.Object.Body != nil {
			r.bodies[e.UID] = e.Object.Body
			r.govern(after, e.Object.Body)
		}
	}
}

// govern goes by what a kind, or the settings, say now.
func (r *Realm) govern(n *lifecycle.Node, body *coppicev1.Body) {
	var err error
	switch {
	case lifecycle.IsRegistration(n):
		r.kinds, err = r.kinds.With(n, body)
	case lifecycle.IsSettings(n):
		r.settings, err = lifecycle.SettingsOf(body)
	}
	if err != nil {
		panic(err)
	}
}

// SetSession sets an import session; the zero Session closes it.
func (r *Realm) SetSession(id string, s lifecycle.Session) { r.sessions[id] = s }

// UIDs are the live objects, sorted.
func (r *Realm) UIDs() []uid.UID { return slices.Sorted(maps.Keys(r.nodes)) }

// Kinds implements lifecycle.View.
func (r *Realm) Kinds() *lifecycle.Kinds { return r.kinds }

// Node implements lifecycle.View.
func (r *Realm) Node(u uid.UID) *lifecycle.Node { return r.nodes[u] }

// Lookup implements lifecycle.View.
func (r *Realm) Lookup(kind *lifecycle.Kind, namespace, name string) uid.UID {
	for u, n := range r.nodes {
		if n.Name == name && n.Namespace == namespace && n.Kind == kind.Kind && n.Group() == kind.Group {
			return u
		}
	}
	return ""
}

// Body implements lifecycle.View.
func (r *Realm) Body(n *lifecycle.Node) *coppicev1.Body { return r.bodies[n.UID] }

// claimants returns what dependents claim of u, with their counts.
func (r *Realm) claimants(u uid.UID) map[lifecycle.Coordinates]lifecycle.Claimed {
	found := map[lifecycle.Coordinates]lifecycle.Claimed{}
	for _, n := range r.nodes {
		own := map[lifecycle.Coordinates]bool{} // blocking
		for i := range n.Owners {
			if o := &n.Owners[i]; o.UID == u {
				own[n.Claim(o)] = own[n.Claim(o)] || o.Blocking == lifecycle.True
			}
		}
		for c, blocking := range own {
			f := found[c]
			f.Coordinates = c
			f.All++
			if n.Terminating() {
				f.Terminating++
			}
			if blocking {
				f.Blocking++
			}
			if f.All == 1 || n.ImportTime < f.FirstImport {
				f.FirstImport = n.ImportTime
			}
			f.LastImport = max(f.LastImport, n.ImportTime)
			found[c] = f
		}
	}
	return found
}

// Count implements lifecycle.View.
func (r *Realm) Count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	var sum lifecycle.Counts
	for c, f := range r.claimants(owner) {
		if claims == (lifecycle.Claims{}) || claims.Contains(c) {
			sum = sum.Plus(f.Counts)
		}
	}
	return sum
}

// ClaimsOn implements lifecycle.View.
func (r *Realm) ClaimsOn(owner uid.UID, limit int) []lifecycle.Claimed {
	all := slices.SortedFunc(maps.Values(r.claimants(owner)), func(a, b lifecycle.Claimed) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(limit, len(all))]
}

// Removed implements lifecycle.View.
func (r *Realm) Removed(u uid.UID, c lifecycle.Coordinates) (uint64, bool) {
	g, ok := r.removed[u]
	return g.revision, ok && g.c == c
}

// AnyOf implements lifecycle.View.
func (r *Realm) AnyOf(k *lifecycle.Kind) string {
	return r.any(func(n *lifecycle.Node) bool { return r.kinds.OfNode(n) == k })
}

// AnyIn implements lifecycle.View.
func (r *Realm) AnyIn(namespace string) string {
	return r.any(func(n *lifecycle.Node) bool { return n.Namespace == namespace })
}

func (r *Realm) any(matches func(*lifecycle.Node) bool) string {
	for _, u := range r.UIDs() {
		if n := r.nodes[u]; matches(n) {
			return r.kinds.OfNode(n).Resource() + "/" + n.Name
		}
	}
	return ""
}

// Session implements lifecycle.View.
func (r *Realm) Session(id string) lifecycle.Session { return r.sessions[id] }

// Settings implements lifecycle.View.
func (r *Realm) Settings() lifecycle.Settings { return r.settings }
