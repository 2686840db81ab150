package lifecycle

import (
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// An object may declare that it uses others. A used object that is being deleted keeps the
// in-use finalizer until its last user is removed (B3.1). Uses never cascade.

// FinalizerInUse blocks the removal of an object until no other object uses it. Only the
// commit that marks the object sets it, and only Coppice removes it.
const FinalizerInUse = Group + "/in-use"

// MaxUses is the maximum number of uses of an object.
const MaxUses = 64

// MaxUnresolved is the maximum number of objects that wait for one name with uses without a
// uid: the commit that creates the object binds them all. Those of a cluster-scoped object,
// or of a kind that is not registered, are counted in all namespaces.
const MaxUnresolved = 100

// maxBound is the maximum number of objects that one commit binds. More than MaxUnresolved
// wait only if a kind was registered again, as cluster-scoped. The next update of a user
// binds what is left.
const maxBound = 10 * MaxUnresolved

// maxWaiting is the maximum size of the metadata of an object that waits, in bytes, so that
// MaxUnresolved of them fit into the commit that binds them, next to the largest object.
const maxWaiting = 56 << 10

// Use is a use of one object by another. It need not be valid: see StateOf.
type Use struct {
	Group string
	Kind  string
	Name  string
	// Namespace is empty for the namespace of the user, and for a cluster-scoped object.
	Namespace string
	// UID is empty while no object of that name exists. The use then has no effect.
	UID uid.UID
}

// Use returns the coordinates that the user n claims of the object that it uses.
func (n *Node) Use(u *Use) Coordinates {
	c := Coordinates{Group: u.Group, Kind: u.Kind, Name: u.Name, Namespace: u.Namespace}
	if c.Namespace == "" {
		c.Namespace = n.Namespace
	}
	return c
}

// Uses reports whether n has a use of the object, with the object's uid and coordinates
// (B3.3).
func Uses(n, used *Node) bool { return useOf(n, used) >= 0 }

// CallsFinalizers reports whether the external finalizers of a terminating object are called:
// not while others use the object (B3.6), and not while it waits for its dependents if its
// kind says so (B3.7).
func CallsFinalizers(kind *Kind, n *Node) bool {
	return !n.InUse() && (!n.Waiting() || kind == nil || !kind.FinalizeAfterDependents)
}

// CallsAgent reports whether the agent of the object is called: it has to end the object,
// and no other object uses it (B3.6).
func CallsAgent(n *Node) bool { return n.Ending() && !n.InUse() }

// UserName names a user of an object, "pods/web", with its namespace if the object is in another.
func UserName(v View, used, user *Node) string {
	name := v.Kinds().OfNode(user).Resource() + "/" + user.Name
	if used.Namespace != "" && user.Namespace != "" && user.Namespace != used.Namespace {
		name += " (" + user.Namespace + ")"
	}
	return name
}

// useOf returns the index of the use that n has of the object, -1 if it has none.
func useOf(n, used *Node) int {
	valid := ValidClaims(used)
	return slices.IndexFunc(n.Uses, func(u Use) bool { return u.UID == used.UID && valid.Contains(n.Use(&u)) })
}

// InUse reports whether the object is being deleted and keeps the in-use finalizer.
func (n *Node) InUse() bool { return n.Terminating() && n.HasFinalizer(FinalizerInUse) }

// withInUse adds the in-use finalizer to the list of an object that is marked, if another
// object uses it (B3.1).
func withInUse(v View, n *Node, list []string) []string {
	if n.Terminating() || v.Users(n).All == 0 {
		return list
	}
	return addInUse(list)
}

func addInUse(list []string) []string {
	if slices.Contains(list, FinalizerInUse) {
		return list
	}
	return slices.Concat(list, []string{FinalizerInUse})
}

// leavesInUse reports whether a DELETE leaves the in-use finalizer on an object with
// dependents. Such an object is deleted in the foreground instead of the background,
// because a user that it waits for may be one of its dependents (B3.2).
func leavesInUse(v View, n *Node, finalizers []string) bool {
	return slices.Contains(finalizers, FinalizerInUse) && Dependents(v, n).All > 0
}

// waitsForUsers reports whether n is being deleted and waits for its users.
func waitsForUsers(v View, n *Node) bool { return n.InUse() && v.Users(n).All > 0 }

// keepsUsers reports whether n waits for its users and is a solid owner of dependents that
// are not terminating. One of them may be a user, or own one, so that n would wait for ever
// for what it keeps (B3.2). n has got such dependents since it was marked, was imported with
// them, or a client has removed its foreground finalizer.
func keepsUsers(v View, n *Node) bool {
	return waitsForUsers(v, n) && !n.Waiting() && !n.Orphaning() && Dependents(v, n).Pending() > 0
}

// foregroundForUsers returns the event by which an object that keeps its users waits for its
// dependents, as after a repeated DELETE.
func foregroundForUsers(n *Node) Event {
	return Event{
		Type: DeletionMarked, UID: n.UID, Reason: coppicev1.Reason_REASON_CYCLE, Cause: n.DeletionRevision,
		Mark: Mark{
			Time: n.DeletionTime, GracePeriod: n.GracePeriod, Generation: n.Generation, AwaitedGeneration: n.AwaitedGeneration,
			Finalizers: deletionFinalizers(n.Finalizers, FinalizerForeground),
		},
	}
}

// UseState says what a use does.
type UseState string

// The states of a use.
const (
	// UseResolved: the object exists, and is removed only after its user.
	UseResolved UseState = "resolved"
	// UseUnresolved: the use has no uid, and no object of that name exists.
	UseUnresolved UseState = "unresolved"
	// UseAbsent: no object with this uid exists.
	UseAbsent UseState = "absent"
	// UseMismatched: the object with this uid has another kind, name or namespace.
	UseMismatched UseState = "mismatched"
)

// StateOf returns the state of a use of n (B3.3).
func StateOf(v View, n *Node, u *Use) UseState {
	if u.UID == "" {
		return UseUnresolved
	}
	used := v.Node(u.UID)
	switch {
	case used == nil:
		return UseAbsent
	case !ValidClaims(used).Contains(n.Use(u)):
		return UseMismatched
	}
	return UseResolved
}

// usesOf converts uses that validateUses has passed.
func usesOf(list []*coppicev1.Use) []Use {
	if len(list) == 0 {
		return nil
	}
	uses := make([]Use, len(list))
	for i, u := range list {
		uses[i] = Use{Group: u.GetGroup(), Kind: u.GetKind(), Name: u.GetName(), Namespace: u.GetNamespace()}
		if u.GetUid() != "" {
			uses[i].UID = uid.MustParse(u.GetUid())
		}
	}
	return uses
}

func apiUses(list []Use) []*coppicev1.Use {
	if len(list) == 0 {
		return nil
	}
	uses := make([]*coppicev1.Use, len(list))
	for i := range list {
		u := &list[i]
		uses[i] = &coppicev1.Use{Group: u.Group, Kind: u.Kind, Name: u.Name, Namespace: u.Namespace, Uid: u.UID.String()}
	}
	return uses
}

// validateUses checks uses on their face. Whether the object exists is not checked here.
func validateUses(list []*coppicev1.Use) []Cause {
	if len(list) > MaxUses {
		return []Cause{tooMany("metadata.uses", len(list), MaxUses)}
	}
	var causes []Cause
	type named struct{ group, kind, name, namespace string }
	seen := make(map[named]bool, len(list))
	for i, u := range list {
		field := func(of string) string { return fmt.Sprintf("metadata.uses[%d]%s", i, of) }
		if u.GetGroup() != "" {
			causes = append(causes, checkSubdomain(field(".group"), u.GetGroup())...)
		}
		if !kindPattern.MatchString(u.GetKind()) {
			causes = append(causes, invalidValue(field(".kind"), u.GetKind(), "must consist of letters and digits and start with a letter"))
		}
		if u.GetName() == "" {
			causes = append(causes, required(field(".name"), ""))
		} else {
			causes = append(causes, checkName(field(".name"), u.GetName())...)
		}
		if u.GetNamespace() != "" {
			causes = append(causes, checkLabel(field(".namespace"), u.GetNamespace())...)
		}
		if u.GetUid() != "" {
			if _, err := uid.Parse(u.GetUid()); err != nil {
				causes = append(causes, invalidValue(field(".uid"), u.GetUid(), err.Error()))
			}
		}
		key := named{u.GetGroup(), u.GetKind(), u.GetName(), u.GetNamespace()}
		if seen[key] {
			causes = append(causes, Cause{Reason: "FieldValueDuplicate", Field: field(""), Message: fmt.Sprintf("Duplicate value: %s %q is used twice", APIVersionOf(key.group, key.kind), key.name)})
		}
		seen[key] = true
	}
	return causes
}

// bindUses binds the uses of the node that is stored, and checks those that it did not have
// before (B3.3, B3.4, B3.5, B3.10). was is the node before the command, nil for a creation. It modifies
// node.Uses, which must not be shared.
func bindUses(ctx *Context, at Key, was, node *Node, imported bool) *Error {
	for i := range node.Uses {
		if err := bindUse(ctx, at, was, node, i, imported); err != nil {
			return err
		}
	}
	same := map[Use]bool{}
	node.Uses = slices.DeleteFunc(node.Uses, func(u Use) bool {
		again := same[u]
		same[u] = true
		return again
	})
	return checkWaiting(at, was, node)
}

// checkWaiting refuses an object that waits and is too large for the commit that binds it.
func checkWaiting(at Key, was, node *Node) *Error {
	if !waits(node) {
		return nil
	}
	size := waitingSize(node)
	if size <= maxWaiting || was != nil && waits(was) && size <= waitingSize(was) {
		return nil
	}
	return at.err(api.ErrRequestEntityTooLarge, "%s has %d bytes of uses, owner references, finalizers and initializers; an object that uses one which does not exist yet has at most %d: create the used object first",
		at, size, maxWaiting)
}

// waits reports whether an object has a use without a uid.
func waits(n *Node) bool {
	return slices.ContainsFunc(n.Uses, func(u Use) bool { return u.UID == "" })
}

// waitingSize returns an upper bound of the size of the event that binds the uses of an
// object, without the numbers and the names that every object has, in bytes.
func waitingSize(n *Node) (size int) {
	const each = 16 // of a string
	for i := range n.Uses {
		u := &n.Uses[i]
		size += 6*each + len(u.Group) + len(u.Kind) + len(u.Name) + len(u.Namespace) + uid.MaxLength
	}
	for i := range n.Owners {
		r := &n.Owners[i]
		size += 2*each + len(r.APIVersion) + len(r.Kind) + len(r.Name) + len(r.UID)
	}
	for _, list := range [][]string{n.Finalizers, n.Initializers} {
		for _, s := range list {
			size += each + len(s)
		}
	}
	return size
}

func bindUse(ctx *Context, at Key, was, node *Node, i int, imported bool) *Error {
	v := ctx.View
	u := &node.Uses[i]
	field := fmt.Sprintf("metadata.uses[%d]", i)
	kind := v.Kinds().Of(u.Group, u.Kind)
	if u.Namespace == node.Namespace || kind != nil && !kind.Namespaced() {
		u.Namespace = "" // one spelling
	}
	if u.Group == node.Group() && u.Kind == node.Kind && u.Name == at.Name && u.Namespace == "" {
		return invalid(at, []Cause{invalidValue(field, u.Name, "an object cannot use itself")})
	}
	if u.UID == "" && kind != nil {
		namespace := node.Use(u).Namespace
		if !kind.Namespaced() {
			namespace = ""
		}
		u.UID = v.Lookup(kind, namespace, u.Name)
	}
	if was != nil && slices.Contains(was.Uses, *u) {
		return nil
	}
	if err := checkAcross(at, v.Settings(), u, field+".namespace", ctx.Across || imported); err != nil {
		return err
	}
	if u.UID == "" {
		claims := Claims{Coordinates: node.Use(u), AnyNamespace: kind == nil || !kind.Namespaced()}
		if v.UnresolvedCount(claims) >= MaxUnresolved {
			return errConflict(at, "%d objects already use %s %q, which does not exist; create it, and try again", MaxUnresolved, u.Kind, u.Name)
		}
		return nil
	}
	used := v.Node(u.UID)
	if used == nil || !used.Terminating() || StateOf(v, node, u) != UseResolved || imported && (used.InUse() || sameSession(used, node)) {
		return nil
	}
	return errConflict(at, "%s: %s is being deleted; an object cannot begin to use it", field, KeyOf(v, used))
}

// sameSession reports whether one import session has brought both objects.
func sameSession(a, b *Node) bool { return a.ImportSession != "" && a.ImportSession == b.ImportSession }

// usedInSession returns the events by which objects that the import session of node has brought while
// they were being deleted get the in-use finalizer, because node, which the session brings now, uses
// them. They would have it if they were imported after node (R2).
func usedInSession(v View, was, node *Node) (events []Event) {
	if node.ImportSession == "" {
		return nil
	}
	for i := range node.Uses {
		u := &node.Uses[i]
		used := v.Node(u.UID)
		if used == nil || !used.Terminating() || used.InUse() || !sameSession(used, node) || StateOf(v, node, u) != UseResolved ||
			was != nil && slices.Contains(was.Uses, *u) {
			continue
		}
		after := *used
		after.Finalizers = addInUse(used.Finalizers)
		events = append(events, Event{
			Type: ObjectUpdated, UID: used.UID, Reason: coppicev1.Reason_REASON_REQUESTED, Object: Object{Node: &after},
		})
	}
	return events
}

// checkAcross refuses a new use of an object in another namespace if the realm does not share that
// namespace, or the actor may not write such uses (B3.10).
func checkAcross(at Key, s Settings, u *Use, field string, may bool) *Error {
	why := ""
	switch {
	case u.Namespace == "":
		return nil
	case !s.Shared.Has(u.Namespace):
		why = "an object uses objects of its own namespace and cluster-scoped objects, and those of the namespaces that sharedNamespaces in the realm settings names; name it there to share it"
	case !may:
		why = "this verb writes no use of an object in another namespace; applyacross does, which is a permission of its own: see `coppice apply --across`"
	default:
		return nil
	}
	return invalid(at, []Cause{forbidden(field, fmt.Sprintf("%s %q is in namespace %q: %s", u.Kind, u.Name, u.Namespace, why))})
}

// bound returns the events that bind the uses without a uid that wait for an object which
// is created by the same command (B3.3).
func bound(v View, n *Node) []Event {
	var events []Event
	valid := ValidClaims(n)
	for _, u := range v.Unresolved(n.Coordinates(), maxBound) {
		user := *v.Node(u)
		user.Uses = slices.Clone(user.Uses)
		for i := range user.Uses {
			if use := &user.Uses[i]; use.UID == "" && valid.Contains(user.Use(use)) {
				use.UID = n.UID
			}
		}
		events = append(events, Event{
			Type: ObjectUpdated, UID: u, Reason: coppicev1.Reason_REASON_USE_BOUND, Object: Object{Node: &user},
		})
	}
	return events
}

// keepInUse adds the in-use finalizer to the list that a client sends for an object that
// has it: a client that has not seen the finalizer does not intend to remove it.
func keepInUse(was *Node, list []string) []string {
	if !was.HasFinalizer(FinalizerInUse) || slices.Contains(list, FinalizerInUse) {
		return nonEmpty(list)
	}
	return slices.Concat(list, []string{FinalizerInUse})
}

// validateInUseFinalizer refuses the in-use finalizer from clients. was is the node before
// an update, nil for a creation.
func validateInUseFinalizer(was *Node, list []string) []Cause {
	i := slices.Index(list, FinalizerInUse)
	if i < 0 || was != nil && was.HasFinalizer(FinalizerInUse) {
		return nil
	}
	return []Cause{forbidden(fmt.Sprintf("metadata.finalizers[%d]", i), FinalizerInUse+" is set by the deletion of an object that others use")}
}

// checkUnused refuses to take the in-use finalizer from an object that others use.
func checkUnused(v View, at Key, n *Node, finalizer string) *Error {
	if finalizer != FinalizerInUse || !n.HasFinalizer(finalizer) {
		return nil
	}
	if users := v.Users(n).All; users > 0 {
		return errConflict(at, "finalizer %s goes with the last user; %d objects still use %s: see `coppice used-by`", finalizer, users, at)
	}
	return nil
}
