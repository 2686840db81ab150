package restore_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// failer is a testing.T or a rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ failer = (*testing.T)(nil)

// world is a realm in memory with its log.
type world struct {
	*memrealm.Realm
	t       failer
	log     []restore.Event
	command uint32
}

func newWorld(t failer) *world {
	w := &world{Realm: memrealm.New(), t: t}
	w.UUIDs = true
	w.OnChange = w.record
	return w
}

// record adds an event to the log.
func (w *world) record(e *lifecycle.Event, before, after lifecycle.Object) {
	n := cmp.Or(after.Node, before.Node)
	types := map[lifecycle.EventType]string{
		lifecycle.ObjectCreated: "ObjectCreated", lifecycle.ObjectUpdated: "ObjectUpdated", lifecycle.DeletionMarked: "DeletionMarked",
		lifecycle.OwnerReferencesRemoved: "OwnerReferencesRemoved", lifecycle.FinalizerRemoved: "FinalizerRemoved", lifecycle.ObjectDeleted: "ObjectDeleted",
	}
	event := client.LogEvent{
		Revision: w.Revision, Type: types[e.Type], Resource: w.resource(n), Namespace: n.Namespace, Name: n.Name, UID: n.UID.String(),
		Reason: e.Reason, Cause: e.Cause,
	}
	for i := range e.References {
		r := &e.References[i]
		event.References = append(event.References, &client.OwnerReference{ApiVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, Uid: r.UID.String()})
	}
	w.log = append(w.log, restore.Event{LogEvent: event, Command: w.command})
}

func (w *world) resource(n *lifecycle.Node) string {
	if lifecycle.IsRegistration(n) {
		return client.KindsResource.String()
	}
	return w.Kinds().OfNode(n).Resource()
}

func (w *world) key(resource, namespace, name string) lifecycle.Key {
	return lifecycle.Key{Kind: w.Kinds().Resource(resource), Namespace: namespace, Name: name}
}

// do carries out a command.
func (w *world) do(out *lifecycle.Outcome, err *lifecycle.Error) *lifecycle.Outcome {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	w.command++
	w.Apply(out.Events)
	return out
}

// create creates an object, and returns its uid.
func (w *world) create(resource string, o *client.Object) uid.UID {
	w.t.Helper()
	at := w.key(resource, o.GetMetadata().GetNamespace(), "")
	o.ApiVersion, o.Kind = at.Kind.APIVersion(), at.Kind.Kind
	w.do(lifecycle.Create(w.Context(), at, o))
	return w.find(resource, o.GetMetadata().GetNamespace(), o.GetMetadata().GetName())
}

func (w *world) find(resource, namespace, name string) uid.UID {
	return w.Lookup(w.key(resource, namespace, name).Kind, namespace, name)
}

// remove deletes an object, and returns the revision of the DELETE.
func (w *world) remove(resource, namespace, name, policy string) uint64 {
	w.t.Helper()
	out := w.do(lifecycle.Delete(w.Context(), w.key(resource, namespace, name), "", &coppicev1.DeleteOptions{PropagationPolicy: policy}))
	return w.Revision - uint64(len(out.Events)) + 1
}

// finish does all pending work, and what external finalizers have to do.
func (w *world) finish(order memrealm.Order) {
	for again := true; again; {
		w.command++
		again = len(w.Settle(order)) > 0
		for _, u := range w.UIDs() {
			n := w.Node(u)
			if n == nil || !n.Terminating() || !lifecycle.CallsFinalizers(w.Kinds().OfNode(n), n) {
				continue
			}
			for _, f := range slices.Clone(n.Finalizers) {
				if n = w.Node(u); n != nil && !lifecycle.IsBuiltinFinalizer(f) {
					w.do(lifecycle.RemoveFinalizer(w.Context(), w.key(w.resource(n), n.Namespace, n.Name), f, nil))
					again = true
				}
			}
		}
	}
}

// object returns an object as clients see it.
func object(r *memrealm.Realm, u uid.UID) *client.Object {
	n := r.Node(u)
	return lifecycle.Object{Node: n, Body: r.Body(n)}.API()
}

var classes = map[lifecycle.Class]coppicev1.OwnerClass{
	lifecycle.Solid: coppicev1.OwnerClass_OWNER_CLASS_SOLID, lifecycle.Waiting: coppicev1.OwnerClass_OWNER_CLASS_WAITING,
	lifecycle.Dangling: coppicev1.OwnerClass_OWNER_CLASS_DANGLING, lifecycle.Unknown: coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN,
}

func classesOf(r *memrealm.Realm, n *lifecycle.Node) (list []coppicev1.OwnerClass) {
	for i := range n.Owners {
		list = append(list, classes[lifecycle.Classify(r, n, &n.Owners[i], r.Clock).Class])
	}
	return list
}

// cascade returns the cascade of the DELETE at a revision.
func (w *world) cascade(revision uint64) *restore.Cascade {
	w.t.Helper()
	c := restore.NewCascade(revision)
	for i := 0; i < len(w.log); {
		k := i
		for k < len(w.log) && w.log[k].Command == w.log[i].Command {
			k++
		}
		if w.log[k-1].Revision >= revision {
			if err := c.AddEvents(w.log[i:k]); err != nil {
				w.t.Fatalf("%v", err)
			}
		}
		i = k
	}
	return c
}

// input reads what the plan of a restoration needs: before is the realm before the DELETE.
func (w *world) input(c *restore.Cascade, before *memrealm.Realm, o restore.Options) *restore.Input {
	in := &restore.Input{
		Cascade: c, Options: o, Time: w.Clock.Time(), NewUID: func() string { return w.Context().NewUID().String() },
		Before: map[string]*restore.FormerObject{}, Now: map[string]*coppicev1.GraphNode{}, Taken: map[restore.ObjectName]string{},
		Unplaced: func(o *client.Object, _ func(string, string) bool) string {
			if w.Kinds().Of(lifecycle.GroupOf(o.GetApiVersion()), o.GetKind()) == nil {
				return "its kind is not registered"
			}
			return ""
		},
	}
	for _, u := range before.UIDs() {
		n := before.Node(u)
		b := &restore.FormerObject{Object: object(before, u), Classes: classesOf(before, n)}
		for i := range n.Uses {
			b.UseStates = append(b.UseStates, string(lifecycle.StateOf(before, n, &n.Uses[i])))
		}
		in.Before[u.String()] = b
		for i := range n.Owners {
			if c.Member(n.Owners[i].UID.String()) != nil && c.Member(u.String()) == nil && !slices.Contains(in.Dependents, u.String()) {
				in.Dependents = append(in.Dependents, u.String())
			}
		}
	}
	for _, u := range w.UIDs() {
		n := w.Node(u)
		node := &coppicev1.GraphNode{Resource: w.resource(n), Object: object(w.Realm, u)}
		for _, class := range classesOf(w.Realm, n) {
			node.Owners = append(node.Owners, &coppicev1.GraphOwner{Class: class})
		}
		in.Now[u.String()] = node
		in.Taken[restore.ObjectName{Resource: w.resource(n), Namespace: n.Namespace, Name: n.Name}] = u.String()
	}
	return in
}

const session = "restoration"

// carryOut does what a plan says, and between its objects calls meanwhile.
func (w *world) carryOut(p *restore.Plan, meanwhile func()) {
	w.t.Helper()
	w.TouchSession(session, false)
	give := func(resource string, o *client.Object, deletion uint64) {
		at := w.key(resource, o.GetMetadata().GetNamespace(), "")
		if at.Kind == nil {
			w.t.Fatalf("no kind %s", resource)
		}
		w.do(lifecycle.Restore(w.Context(), at, session, o, deletion))
		meanwhile()
	}
	for _, i := range p.Objects {
		give(i.Resource, i.Object, i.Deletion)
	}
	for _, s := range p.Survivors {
		s.Object.Metadata.ResourceVersion = w.Node(uid.MustParse(s.Object.GetMetadata().GetUid())).Revision
		give(s.Resource, s.Object, s.Deletion)
	}
	w.TouchSession(session, true)
}

// graph describes all objects without uids.
func graph(r *memrealm.Realm, resource func(*lifecycle.Node) string) string {
	name := func(u uid.UID) string {
		if n := r.Node(u); n != nil {
			return n.Kind + "/" + n.Namespace + "/" + n.Name
		}
		return u.String()
	}
	var lines []string
	for _, u := range r.UIDs() {
		n, b := r.Node(u), r.Body(r.Node(u))
		if lifecycle.IsRegistration(n) {
			continue
		}
		var edges []string
		for i := range n.Owners {
			o := &n.Owners[i]
			edges = append(edges, fmt.Sprintf("owner %s %s %s as %s controller %d blocking %d", o.APIVersion, o.Kind, o.Name, name(o.UID), o.Controller, o.Blocking))
		}
		for i := range n.Uses {
			o := &n.Uses[i]
			edges = append(edges, fmt.Sprintf("use %s %s %s as %s", o.Group, o.Kind, o.Name, name(o.UID)))
		}
		slices.Sort(edges)
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(b.GetLabels())) {
			labels = append(labels, k+"="+b.GetLabels()[k])
		}
		lines = append(lines, fmt.Sprintf("%s %s/%s labels %v finalizers %v protected %t terminating %t spec %s\n\t%s\n",
			resource(n), n.Namespace, n.Name, labels, n.Finalizers, n.Protected(), n.Terminating(), b.GetSpec(), strings.Join(edges, "\n\t")))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
