package lifecycle

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The two finalizers that a DELETE chooses from (A5, seed names of Kubernetes).
// Coppice answers them itself, as it does FinalizerContents, FinalizerInUse and FinalizerProtection.
const (
	// FinalizerOrphan blocks the removal of an object until its dependents have lost
	// their references to it.
	FinalizerOrphan = "orphan"
	// FinalizerForeground blocks the removal of an object until no dependent delays it
	// (A13).
	FinalizerForeground = "foregroundDeletion"
)

// IsBuiltinFinalizer reports whether Coppice itself answers the finalizer.
func IsBuiltinFinalizer(name string) bool {
	return name == FinalizerOrphan || name == FinalizerForeground || name == FinalizerContents || name == FinalizerInUse || name == FinalizerProtection
}

// Time is a point in time in microseconds since 1970, UTC; zero is none. It is
// the resolution of the log. Clients see whole seconds, as in Kubernetes.
type Time int64

// TimeOf is t as a Time.
func TimeOf(t time.Time) Time { return Time(t.UnixMicro()) }

// Add returns t + d.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Microseconds()) }

// Time returns t as a time.Time in UTC.
func (t Time) Time() time.Time { return time.UnixMicro(int64(t)).UTC() }

func (t Time) proto() *timestamppb.Timestamp {
	if t == 0 {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: int64(t) / 1e6}
}

// timeOfProto converts a time from a client, zero for nil. A time that would be zero becomes 1,
// because zero means that there is none.
func timeOfProto(t *timestamppb.Timestamp) Time {
	if t == nil {
		return 0
	}
	if at := Time(t.GetSeconds()*1e6 + int64(t.GetNanos())/1e3); at != 0 {
		return at
	}
	return 1
}

// Ternary is an optional bool: Kubernetes distinguishes "false" from "not set".
type Ternary uint8

// The values of a Ternary.
const (
	Unsaid Ternary = iota
	False
	True
)

// TernaryOf is p as a Ternary.
func TernaryOf(p *bool) Ternary {
	switch {
	case p == nil:
		return Unsaid
	case *p:
		return True
	}
	return False
}

// Ptr is t as an optional bool.
func (t Ternary) Ptr() *bool {
	if t == Unsaid {
		return nil
	}
	b := t == True
	return &b
}

// OwnerReference is a reference of an object to one of its owners. It need not be true:
// see Classify.
type OwnerReference struct {
	APIVersion string
	Kind       string
	Name       string
	UID        uid.UID
	Controller Ternary
	// Blocking is blockOwnerDeletion.
	Blocking Ternary
}

// Group is the group of the reference's APIVersion; identity is group and
// kind, not version.
func (r *OwnerReference) Group() string { return GroupOf(r.APIVersion) }

// SameOwner reports whether both references claim the same uid with the same
// coordinates. The version, controller and blockOwnerDeletion do not matter.
func (r *OwnerReference) SameOwner(o *OwnerReference) bool {
	return r.UID == o.UID && r.Kind == o.Kind && r.Name == o.Name && r.Group() == o.Group()
}

// Node has the fields of an object that decisions about deletions need, and no others.
// A Node from a View is shared and must not be modified.
type Node struct {
	UID        uid.UID
	APIVersion string
	Kind       string
	Namespace  string // empty for cluster-scoped objects
	Name       string
	// Revision of the object's last change, its resourceVersion.
	Revision     uint64
	Generation   int64
	CreationTime Time
	Owners       []OwnerReference
	Finalizers   []string
	// DeletionTime is zero for an object that is not terminating.
	DeletionTime Time
	// GracePeriod is deletionGracePeriodSeconds; nil until terminating.
	GracePeriod *int64
	// DeletionRevision is the revision at which the object was marked.
	DeletionRevision uint64
	// ImportTime and ImportSession are zero for objects created through the API.
	ImportTime    Time
	ImportSession string
	// Grace is how many seconds a deletion gives the object's agent; nil if
	// no agent has to end it.
	Grace *int64
	// ObservedGeneration is status.observedGeneration. Built-in finalizers
	// wait until it is at least AwaitedGeneration, which is zero if they need not wait.
	ObservedGeneration, AwaitedGeneration int64
	// Initializers are those that have still to act, in order (A8).
	Initializers []string
	// InitializationFailed is set when one of them has failed.
	InitializationFailed bool
	// Uses are the objects that the object uses, each once.
	Uses []Use
	// Protection is set for an object that no DELETE removes (B2).
	Protection *Protection
	// ExpiresAt is when the object expires, in whole seconds; zero for an object that does
	// not (B6).
	ExpiresAt Time
}

// Group is the group of the node's APIVersion.
func (n *Node) Group() string { return GroupOf(n.APIVersion) }

// Version is the version of the node's APIVersion.
func (n *Node) Version() string { return VersionOf(n.APIVersion) }

// Terminating reports whether the object is marked for deletion.
func (n *Node) Terminating() bool { return n.DeletionTime != 0 }

// HasFinalizer reports whether the object has the named finalizer.
func (n *Node) HasFinalizer(name string) bool { return slices.Contains(n.Finalizers, name) }

// Waiting reports whether the object waits for its dependents to be deleted:
// it is terminating and has the foreground finalizer (A12.6).
func (n *Node) Waiting() bool { return n.Terminating() && n.HasFinalizer(FinalizerForeground) }

// Orphaning reports whether the object waits for its dependents to be parted
// from it.
func (n *Node) Orphaning() bool { return n.Terminating() && n.HasFinalizer(FinalizerOrphan) }

// AwaitsSession reports whether the object is being deleted and has a built-in finalizer that begins
// when the import session of the object ends.
func (n *Node) AwaitsSession() bool {
	return n.ImportSession != "" && (n.Orphaning() || n.Waiting() || n.InUse() || n.Draining())
}

// Appeared is when the object came to the realm. The creation time of an
// imported object is that of another clock.
func (n *Node) Appeared() Time {
	if n.ImportTime != 0 {
		return n.ImportTime
	}
	return n.CreationTime
}

// Ending reports whether the object's agent has been given time to end what it
// stands for, and has not confirmed yet.
func (n *Node) Ending() bool { return n.Terminating() && !n.graceOver() }

// Marked returns when the object was marked for deletion: its deletionTimestamp is the end of
// its grace period. Zero if it is not terminating.
func (n *Node) Marked() Time {
	if n.GracePeriod == nil || n.DeletionTime == 0 {
		return n.DeletionTime
	}
	return n.DeletionTime.Add(-time.Duration(*n.GracePeriod) * time.Second)
}

// graceOver reports whether no graceful termination stands between the object
// and its removal: deletionGracePeriodSeconds is absent or zero (A2.10).
func (n *Node) graceOver() bool { return n.GracePeriod == nil || *n.GracePeriod == 0 }

// Coordinates are the group, kind, namespace and name of an owner, or those that a
// reference claims.
type Coordinates struct {
	Group     string
	Kind      string
	Name      string
	Namespace string
}

// Coordinates of the object itself.
func (n *Node) Coordinates() Coordinates {
	return Coordinates{Group: n.Group(), Kind: n.Kind, Name: n.Name, Namespace: n.Namespace}
}

// Claim is what the dependent n claims of its owner: the reference's
// coordinates, in the dependent's own namespace.
func (n *Node) Claim(r *OwnerReference) Coordinates {
	return Coordinates{Group: r.Group(), Kind: r.Kind, Name: r.Name, Namespace: n.Namespace}
}

// Object is a whole object. Body is nil where it was not asked for, or where
// an event leaves it unchanged.
type Object struct {
	*Node
	Body *coppicev1.Body
}

// API returns the object as clients see it. It shares maps and bytes with the
// body, which must not be modified.
func (o Object) API() *coppicev1.Object {
	n, b := o.Node, o.Body
	meta := &coppicev1.ObjectMeta{
		Name:                       n.Name,
		GenerateName:               b.GetGenerateName(),
		Namespace:                  n.Namespace,
		Uid:                        n.UID.String(),
		ResourceVersion:            n.Revision,
		Generation:                 n.Generation,
		CreationTimestamp:          n.CreationTime.proto(),
		DeletionTimestamp:          n.DeletionTime.proto(),
		DeletionGracePeriodSeconds: n.GracePeriod,
		Labels:                     b.GetLabels(),
		Annotations:                b.GetAnnotations(),
		Finalizers:                 n.Finalizers,
		Initializers:               initializersOf(n, b),
		Uses:                       apiUses(n.Uses),
		Protection:                 n.Protection.api(),
		ExpiresAt:                  n.ExpiresAt.proto(),
	}
	for i := range n.Owners {
		r := &n.Owners[i]
		meta.OwnerReferences = append(meta.OwnerReferences, &coppicev1.OwnerReference{
			ApiVersion:         r.APIVersion,
			Kind:               r.Kind,
			Name:               r.Name,
			Uid:                r.UID.String(),
			Controller:         r.Controller.Ptr(),
			BlockOwnerDeletion: r.Blocking.Ptr(),
		})
	}
	return &coppicev1.Object{
		ApiVersion: n.APIVersion,
		Kind:       n.Kind,
		Metadata:   meta,
		Spec:       b.GetSpec(),
		Status:     b.GetStatus(),
		Extra:      b.GetExtra(),
	}
}

// WithoutContents returns the part of an object that watches of the graph send: apiVersion, kind, and
// metadata without annotations, generateName and uses.
func (o Object) WithoutContents() *coppicev1.Object {
	n := *o.Node
	n.Uses = nil
	return Object{Node: &n, Body: &coppicev1.Body{Labels: o.Body.GetLabels()}}.API()
}

// Brief returns the part of an object that replies to commands on many objects have: its
// identity and the state of its deletion. The sender has the rest.
func (o Object) Brief() *coppicev1.Object {
	n := o.Node
	brief := &struct {
		object coppicev1.Object
		meta   coppicev1.ObjectMeta
	}{
		object: coppicev1.Object{ApiVersion: n.APIVersion, Kind: n.Kind},
		meta: coppicev1.ObjectMeta{
			Name:                       n.Name,
			Namespace:                  n.Namespace,
			Uid:                        n.UID.String(),
			ResourceVersion:            n.Revision,
			Generation:                 n.Generation,
			DeletionTimestamp:          n.DeletionTime.proto(),
			DeletionGracePeriodSeconds: n.GracePeriod,
			Finalizers:                 n.Finalizers,
			Protection:                 n.Protection.api(),
		},
	}
	brief.object.Metadata = &brief.meta
	return &brief.object
}

// ownersOf converts owner references that validateOwners has passed.
func ownersOf(refs []*coppicev1.OwnerReference) []OwnerReference {
	if len(refs) == 0 {
		return nil
	}
	owners := make([]OwnerReference, len(refs))
	for i, r := range refs {
		owners[i] = OwnerReference{
			APIVersion: r.GetApiVersion(),
			Kind:       r.GetKind(),
			Name:       r.GetName(),
			UID:        uid.MustParse(r.GetUid()),
			Controller: TernaryOf(r.Controller),
			Blocking:   TernaryOf(r.BlockOwnerDeletion),
		}
	}
	return owners
}

func bodyOf(o *coppicev1.Object) *coppicev1.Body {
	return &coppicev1.Body{
		Labels:       o.GetMetadata().GetLabels(),
		Annotations:  o.GetMetadata().GetAnnotations(),
		GenerateName: o.GetMetadata().GetGenerateName(),
		Spec:         o.GetSpec(),
		Status:       o.GetStatus(),
		Extra:        o.GetExtra(),

		InitializersResult: o.GetMetadata().GetInitializers().GetResult(),
	}
}

// nonEmpty returns the list, nil if it is empty, so that equal nodes have equal lists.
func nonEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

// GroupOf is the group of an apiVersion: "apps" of "apps/v1", empty for "v1".
func GroupOf(apiVersion string) string {
	if i := strings.IndexByte(apiVersion, '/'); i >= 0 {
		return apiVersion[:i]
	}
	return ""
}

// VersionOf is the version of an apiVersion.
func VersionOf(apiVersion string) string {
	return apiVersion[strings.IndexByte(apiVersion, '/')+1:]
}

// APIVersionOf joins group and version.
func APIVersionOf(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}
