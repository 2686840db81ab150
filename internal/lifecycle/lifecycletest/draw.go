package lifecycletest

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The world in which RandomCommand plays is small, so that names are taken
// again, references collide and cycles close.
var (
	resources  = []string{"deployments.apps", "replicasets.apps", "pods", "jobs.batch", "events", "nodes"}
	namespaces = []string{"a", "b"}
	names      = []string{"x", "y", "z"}
	external   = []string{"example.com/one", "example.com/two"}

	initializers = []string{"one.example.com", "two.example.com"}
)

// latecomer is a kind that references name before it is registered, if it ever
// is: see Realm.Latecomers.
var latecomer = lifecycle.KindSpec{
	Group: "example.com", Kind: "Latecomer", Plural: "latecomers", Scope: lifecycle.ScopeNamespaced,
	Versions: []lifecycle.KindVersion{{Name: "v1"}},
}

// legacy is a kind of an old group, whose objects have moved to another one or will move: references
// may name either group. It is registered as latecomer is.
var legacy = lifecycle.KindSpec{
	Group: "extensions", Kind: "ReplicaSet", Plural: "replicasets", Scope: lifecycle.ScopeNamespaced,
	Versions: []lifecycle.KindVersion{{Name: "v1"}},
}

// unregistered returns those of latecomer and legacy that are not registered.
func (r *Realm) unregistered() (list []lifecycle.KindSpec) {
	for _, spec := range []lifecycle.KindSpec{latecomer, legacy} {
		if r.Kinds().Of(spec.Group, spec.Kind) == nil {
			list = append(list, spec)
		}
	}
	return list
}

// latecomer returns the kind, nil as long as it is not registered.
func (r *Realm) latecomer() *lifecycle.Kind { return r.Kinds().Of(latecomer.Group, latecomer.Kind) }

// drawNode draws a live object that is not the registration of a kind; nil if
// there is none.
func (r *Realm) drawNode(t *rapid.T) *lifecycle.Node {
	uids := slices.DeleteFunc(r.UIDs(), func(u uid.UID) bool { return lifecycle.IsRegistration(r.Node(u)) })
	if len(uids) == 0 {
		return nil
	}
	return r.Node(rapid.SampledFrom(uids).Draw(t, "object"))
}

// drawContainer draws a namespace or a kind that is being deleted with what is
// in it; nil if there is none.
func (r *Realm) drawContainer(t *rapid.T) *lifecycle.Node {
	containers := slices.DeleteFunc(r.UIDs(), func(u uid.UID) bool { return !r.Node(u).Draining() })
	if len(containers) == 0 {
		return nil
	}
	return r.Node(rapid.SampledFrom(containers).Draw(t, "container"))
}

// drawKey draws the key of an object: mostly of one that is there.
func (r *Realm) drawKey(t *rapid.T) lifecycle.Key {
	if n := r.drawNode(t); n != nil && rapid.IntRange(0, 3).Draw(t, "any") > 0 {
		return lifecycle.KeyOf(r, n)
	}
	at, o := r.drawObject(t)
	at.Name = o.GetMetadata().GetName()
	return at
}

// drawChanged draws an object that a client sends back: mostly one that is
// there, of which something differs.
func (r *Realm) drawChanged(t *rapid.T) (lifecycle.Key, *coppicev1.Object) {
	at, drawn := r.drawObject(t)
	n := r.drawNode(t)
	if n == nil || rapid.IntRange(0, 3).Draw(t, "any") == 0 {
		return at, drawn
	}
	o := proto.Clone(lifecycle.Object{Node: n, Body: r.Body(n)}.API()).(*coppicev1.Object)
	switch rapid.IntRange(0, 5).Draw(t, "change") {
	case 0:
		o.Spec = drawn.Spec
	case 1:
		o.Metadata.OwnerReferences = drawn.Metadata.OwnerReferences
	case 2:
		o.Metadata.Finalizers = drawn.Metadata.Finalizers
	case 3:
		o.Metadata.Finalizers = nil
	case 4:
		o.Metadata.Labels = map[string]string{"app": rapid.SampledFrom(names).Draw(t, "label")}
	case 5:
		o.Metadata.Uses = drawn.Metadata.Uses
	}
	if rapid.IntRange(0, 2).Draw(t, "initializers") == 0 && o.Metadata.Initializers != nil {
		drawInitialized(t, o.Metadata.Initializers)
	}
	return lifecycle.Key{Kind: r.Kinds().OfNode(n), Namespace: n.Namespace}, o
}

// drawInitialized draws what an initializer does: mostly that it is done.
func drawInitialized(t *rapid.T, in *coppicev1.Initializers) {
	switch n := len(in.GetPending()); rapid.IntRange(0, 4).Draw(t, "initialized") {
	case 0:
		in.Result = &coppicev1.Status{Status: "Failure", Message: rapid.SampledFrom(names).Draw(t, "failure")}
	case 1:
		in.Pending = in.GetPending()[:max(n-1, 0)] // out of order, unless it is the only one
	default:
		in.Pending = in.GetPending()[min(n, 1):]
	}
}

func (r *Realm) drawObject(t *rapid.T) (lifecycle.Key, *coppicev1.Object) {
	list := slices.Clone(resources)
	if k := r.latecomer(); k != nil {
		list = append(list, k.Resource())
	}
	if k := r.Kinds().Of(legacy.Group, legacy.Kind); k != nil {
		list = append(list, k.Resource())
	}
	if r.Containers {
		list = append(list, "namespaces")
	}
	kind := r.Kinds().Resource(rapid.SampledFrom(list).Draw(t, "resource"))
	at := lifecycle.Key{Kind: kind}
	if kind.Namespaced() {
		at.Namespace = rapid.SampledFrom(namespaces).Draw(t, "namespace")
	}
	pool := names
	if kind.Resource() == "namespaces" {
		pool = namespaces
	}
	finalizers := append([]string{lifecycle.FinalizerForeground, lifecycle.FinalizerOrphan}, external...)
	o := &coppicev1.Object{
		ApiVersion: kind.APIVersion(), Kind: kind.Kind,
		Metadata: &coppicev1.ObjectMeta{
			Name:       rapid.SampledFrom(pool).Draw(t, "name"),
			Finalizers: rapid.SliceOfN(rapid.SampledFrom(finalizers), 0, 2).Draw(t, "finalizers"),
		},
		Spec: drawJSON(t, "spec"),
	}
	if rapid.IntRange(0, 4).Draw(t, "uninitialized") == 0 {
		o.Metadata.Initializers = &coppicev1.Initializers{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(initializers), 0, 2).Draw(t, "pending") {
			o.Metadata.Initializers.Pending = append(o.Metadata.Initializers.Pending, &coppicev1.Initializer{Name: name})
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "owners") {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, r.drawReference(t))
	}
	if r.Using {
		for range rapid.IntRange(0, 2).Draw(t, "uses") {
			o.Metadata.Uses = append(o.Metadata.Uses, r.drawUse(t))
		}
	}
	return at, o
}

// drawUse draws a use: of an object that is there, with its uid or by its name, of one that
// may come, or with a wrong name.
func (r *Realm) drawUse(t *rapid.T) *coppicev1.Use {
	if rapid.IntRange(0, 2).Draw(t, "by name") == 0 {
		kind := r.Kinds().Resource(rapid.SampledFrom(resources).Draw(t, "used resource"))
		return &coppicev1.Use{Group: kind.Group, Kind: kind.Kind, Name: rapid.SampledFrom(names).Draw(t, "used name")}
	}
	u := r.drawUID(t)
	use := &coppicev1.Use{Group: "apps", Kind: "ReplicaSet", Name: "x", Uid: u.String()}
	if n := r.Node(u); n != nil {
		use.Group, use.Kind, use.Name = n.Group(), n.Kind, n.Name
		if rapid.Bool().Draw(t, "namespace of the use") {
			use.Namespace = n.Namespace
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "wrong use") {
	case 0:
		use.Name = rapid.SampledFrom(names).Draw(t, "used name")
	case 1:
		use.Uid = ""
	}
	return use
}

func drawJSON(t *rapid.T, what string) []byte {
	return fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 2).Draw(t, what))
}

// drawReference draws an owner reference: mostly a valid one, sometimes one that does not
// fit its owner, or names an object that does not exist, a version that is not served, or
// a kind that is not registered.
func (r *Realm) drawReference(t *rapid.T) *coppicev1.OwnerReference {
	u := r.drawUID(t)
	ref := &coppicev1.OwnerReference{ApiVersion: "apps/v1", Kind: "ReplicaSet", Name: "x", Uid: u.String()}
	if n := r.Node(u); n != nil {
		ref.ApiVersion, ref.Kind, ref.Name = n.APIVersion, n.Kind, n.Name
	}
	switch rapid.IntRange(0, 9).Draw(t, "lie") {
	case 0:
		ref.Name = rapid.SampledFrom(names).Draw(t, "owner name")
	case 1:
		ref.ApiVersion, ref.Kind = lifecycle.APIVersionOf(latecomer.Group, "v1"), latecomer.Kind
	case 2:
		ref.ApiVersion = "apps/v9"
	case 3:
		ref.ApiVersion = rapid.SampledFrom([]string{"extensions/v1", "apps/v1"}).Draw(t, "owner group")
	}
	blocking := rapid.Bool().Draw(t, "blocking")
	ref.BlockOwnerDeletion = &blocking
	return ref
}

// drawUID draws the uid of an object that is there, was there, or might come.
func (r *Realm) drawUID(t *rapid.T) uid.UID {
	var uids []uid.UID
	for _, u := range r.UIDs() {
		if !lifecycle.IsRegistration(r.Node(u)) {
			uids = append(uids, u)
		}
	}
	for u := range r.Tombstones() {
		uids = append(uids, u)
	}
	slices.Sort(uids)
	uids = append(uids, uid.MustParse("imported-1"), uid.MustParse("imported-2"))
	return rapid.SampledFrom(slices.Compact(uids)).Draw(t, "uid")
}

// drawImport draws the import of an object: of one that is restored, of the
// owner that a reference has named all the time, or of any.
func (r *Realm) drawImport(t *rapid.T) Command {
	at, o := r.drawObject(t)
	u := r.drawUID(t)
	known := r.known(u)
	if len(known) > 0 && rapid.IntRange(0, 2).Draw(t, "stranger") > 0 {
		c := rapid.SampledFrom(known).Draw(t, "coordinates")
		kind := r.Kinds().Of(c.Group, c.Kind)
		at = lifecycle.Key{Kind: kind, Namespace: c.Namespace}
		o.ApiVersion, o.Kind, o.Metadata.Name = kind.APIVersion(), kind.Kind, c.Name
	}
	o.Metadata.Uid = u.String()
	o.Metadata.CreationTimestamp = timestamppb.New(r.Clock.Add(-time.Hour).Time())
	if rapid.IntRange(0, 2).Draw(t, "terminating") == 0 {
		o.Metadata.DeletionTimestamp = timestamppb.New(r.Clock.Time())
	}
	return r.objects(VerbImport, at, o, func(ctx *lifecycle.Context, at lifecycle.Key, o *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Import(ctx, at, "session", o)
	})
}

// known returns the coordinates that the object with this uid has or had, and those that
// references claim, unless no such object can exist.
func (r *Realm) known(u uid.UID) []lifecycle.Coordinates {
	var list []lifecycle.Coordinates
	if n := r.Node(u); n != nil {
		list = append(list, n.Coordinates())
	}
	if c, ok := r.Tombstones()[u]; ok {
		list = append(list, c)
	}
	for _, c := range r.ClaimsOn(u, 1<<10) {
		list = append(list, c.Coordinates)
	}
	list = append(list, r.ClaimsOfUsers(u)...)
	return slices.DeleteFunc(list, func(c lifecycle.Coordinates) bool {
		kind := r.Kinds().Of(c.Group, c.Kind)
		return kind == nil || kind.Namespaced() != (c.Namespace != "")
	})
}
