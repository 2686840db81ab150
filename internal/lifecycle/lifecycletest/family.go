package lifecycletest

import (
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Family is a small graph of objects in one namespace in which nothing is to be
// done until Root is deleted: every owner is there, or is unknown.
type Family struct {
	Members []Member
	Root    int
	Policy  string
}

// Member is an object of a Family.
type Member struct {
	Resource   string
	Name       string
	Finalizers []string
	Owners     []Bond
	Uses       []int // other members
}

// Bond is an owner reference of a Member.
type Bond struct {
	To       int // a member, also a later one or itself, or Unheard
	Blocking bool
}

// Unheard is an owner of a kind that is not registered.
const Unheard = -1

// ServedFinalizer is the external finalizer of families. The test that plays one removes
// it from objects that are being deleted.
const ServedFinalizer = "families.example.com/served"

// DrawFamily draws a family of two to seven members. intn draws from 0 up to n.
func DrawFamily(intn func(n int) int) Family {
	f := Family{Members: make([]Member, 2+intn(6))}
	for i := range f.Members {
		m := &f.Members[i]
		m.Resource = []string{"deployments.apps", "replicasets.apps", "pods", "configmaps"}[intn(4)]
		m.Name = fmt.Sprintf("m%d", i)
		switch intn(10) {
		case 0, 1:
			m.Finalizers = []string{lifecycle.FinalizerOrphan}
		case 2:
			m.Finalizers = []string{lifecycle.FinalizerForeground}
		case 3, 4:
			m.Finalizers = []string{ServedFinalizer}
		}
		for range []int{0, 1, 1, 1, 2, 2, 3}[intn(7)] {
			to := Unheard
			switch d := intn(12); {
			case d == 0:
			case d < 3:
				to = intn(len(f.Members)) // which makes cycles
			case i > 0:
				to = intn(i)
			default:
				continue
			}
			if !slices.ContainsFunc(m.Owners, func(b Bond) bool { return b.To == to }) {
				m.Owners = append(m.Owners, Bond{To: to, Blocking: intn(2) == 0})
			}
		}
	}
	if intn(3) == 0 {
		for i := range f.Members {
			for range []int{0, 0, 1, 2}[intn(4)] {
				if to := intn(len(f.Members)); to != i && !slices.Contains(f.Members[i].Uses, to) {
					f.Members[i].Uses = append(f.Members[i].Uses, to)
				}
			}
		}
	}
	f.Root = intn(min(2, len(f.Members)))
	f.Policy = []string{lifecycle.Foreground, lifecycle.Foreground, lifecycle.Foreground, lifecycle.Background, lifecycle.Orphan}[intn(5)]
	return f
}

// Object is a member, as its creator sends it: with references to those of its
// owners whose uids are known.
func (f Family) Object(i int, uids []string) *coppicev1.Object {
	m := f.Members[i]
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: m.Name, Finalizers: m.Finalizers}}
	for _, b := range m.Owners {
		ref := &coppicev1.OwnerReference{ApiVersion: "example.com/v1", Kind: "Unheard", Name: "x", Uid: "unheard"}
		if b.To != Unheard {
			if uids[b.To] == "" {
				continue
			}
			owner := f.Members[b.To]
			kind := familyKinds[owner.Resource]
			ref = &coppicev1.OwnerReference{ApiVersion: kind[0], Kind: kind[1], Name: owner.Name, Uid: uids[b.To]}
		}
		if b.Blocking {
			ref.BlockOwnerDeletion = &b.Blocking
		}
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, ref)
	}
	for _, to := range m.Uses { // by name: they are bound when the member is created
		kind := familyKinds[f.Members[to].Resource]
		o.Metadata.Uses = append(o.Metadata.Uses, &coppicev1.Use{Group: lifecycle.GroupOf(kind[0]), Kind: kind[1], Name: f.Members[to].Name})
	}
	return o
}

// familyKinds has the apiVersion and the kind of the resources of members.
var familyKinds = map[string][2]string{
	"deployments.apps": {"apps/v1", "Deployment"}, "replicasets.apps": {"apps/v1", "ReplicaSet"}, "pods": {"v1", "Pod"}, "configmaps": {"v1", "ConfigMap"},
}

// Late reports whether a member has an owner that is created after it, so that it
// gets its references by an update.
func (f Family) Late(i int) bool {
	return slices.ContainsFunc(f.Members[i].Owners, func(b Bond) bool { return b.To >= i })
}

// Settled is what is left of each member at last, "" of one that is removed: its
// owners by name, and whether it is terminating.
type Settled map[string]string

// LeftOf is what Settled says about an object.
func LeftOf(o *coppicev1.ObjectMeta) string {
	text := "there"
	if o.GetDeletionTimestamp() != nil {
		return "terminating" // its references depend on the order of the work, and do not matter
	}
	for _, r := range o.GetOwnerReferences() {
		text += " " + r.GetName()
	}
	return text
}

// Play creates a family in a new realm. uids are those of its members, and past the
// events of the realm from its beginning.
func (f Family) Play() (r *Realm, uids []string, past []lifecycle.Event) {
	const namespace = "default"
	r = New()
	past = r.Genesis()
	uids = make([]string, len(f.Members))
	act := func(out *lifecycle.Outcome, err *lifecycle.Error) *lifecycle.Outcome {
		if err != nil {
			panic(err)
		}
		r.Apply(out.Events)
		past = append(past, out.Events...)
		return out
	}
	for i, m := range f.Members {
		at := lifecycle.Key{Kind: r.Kinds().Resource(m.Resource), Namespace: namespace}
		uids[i] = created(act(lifecycle.Create(r.Context(), at, f.Object(i, uids))))
	}
	for i, m := range f.Members {
		if f.Late(i) {
			at := lifecycle.Key{Kind: r.Kinds().Resource(m.Resource), Namespace: namespace}
			act(lifecycle.Update(r.Context(), at, f.Object(i, uids)))
		}
	}
	return r, uids, past
}

// Delete deletes the root of the family in a realm in which it was played.
func (f Family) Delete(r *Realm, uids []string) {
	n := r.Node(uid.MustParse(uids[f.Root]))
	out, err := lifecycle.Delete(r.Context(), lifecycle.KeyOf(r, n), "", &coppicev1.DeleteOptions{PropagationPolicy: f.Policy})
	if err != nil {
		panic(err)
	}
	r.Apply(out.Events)
}

// Finish does the work of processors, of finalizers and of the controller that serves
// ServedFinalizer, in an order, until nothing is left to do, and returns what is
// left. With late, external finalizers are answered only when nothing else is left
// to do, as a plan has it.
func (f Family) Finish(r *Realm, uids []string, order Order, late bool) Settled {
	for {
		if late {
			r.Settle(order)
		}
		var answers []Job
		for _, u := range uids {
			answers = append(answers, Job{Name: "serve " + u, Do: func() []lifecycle.Event { return r.serve(uid.MustParse(u)) }})
		}
		if len(r.Round(order, answers...)) == 0 {
			break
		}
	}
	left := Settled{}
	for i, u := range uids {
		left[f.Members[i].Name] = ""
		if n := r.Node(uid.MustParse(u)); n != nil {
			left[f.Members[i].Name] = LeftOf(lifecycle.Object{Node: n, Body: r.Body(n)}.API().GetMetadata())
		}
	}
	return left
}

// serve removes ServedFinalizer from an object that is being deleted.
func (r *Realm) serve(u uid.UID) []lifecycle.Event {
	n := r.Node(u)
	if n == nil || !n.Terminating() || !n.HasFinalizer(ServedFinalizer) || !lifecycle.CallsFinalizers(r.Kinds().OfNode(n), n) {
		return nil
	}
	out, err := lifecycle.RemoveFinalizer(r.Context(), lifecycle.KeyOf(r, n), ServedFinalizer, nil)
	if err != nil {
		panic(err)
	}
	r.Apply(out.Events)
	return out.Events
}

// created returns the uid of the object that an outcome creates: its last event does.
func created(out *lifecycle.Outcome) string { return out.Events[len(out.Events)-1].UID.String() }
