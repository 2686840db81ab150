package lifecycle_test

import (
	"fmt"
	"maps"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The commands of the collector and of the built-in finalizers, and what can
// be asked about objects.

func (s *script) did(events []lifecycle.Event) string {
	if len(events) == 0 {
		return "nothing\n"
	}
	return s.applied(events)
}

func (s *script) collect(a *args) string {
	return s.did(lifecycle.Collect(s.realm.Context(), a.node(s, 0)))
}

func (s *script) strip(a *args) string {
	return s.did(lifecycle.Strip(s.realm.Context(), a.node(s, 0)))
}

// orphan is orphan OWNER DEPENDENT.
func (s *script) orphan(a *args) string {
	return s.did(lifecycle.OrphanFrom(s.realm.Context(), a.node(s, 0), a.node(s, 1)))
}

// finish is finish pods/a finalizer=orphan.
func (s *script) finish(a *args) string {
	return s.did(s.realm.Finish(a.node(s, 0), a.text("finalizer")))
}

// drain is drain CONTAINER OBJECT; the namespace is the object's.
func (s *script) drain(a *args) string {
	at := a.key(s, 0)
	at.Namespace = ""
	container, err := lifecycle.Find(s.realm, at)
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
	return s.did(lifecycle.Drain(s.realm.Context(), container, a.node(s, 1)))
}

// unblock is unblock pods/a pods/b: the cycle that was found.
func (s *script) unblock(a *args) string {
	var cycle []*lifecycle.Node
	for i := range a.targets {
		cycle = append(cycle, a.node(s, i))
	}
	return s.did(lifecycle.Unblock(s.realm, cycle))
}

// settle does everything that is pending until nothing is left that can be done
// now. What is printed is what happens in the order of the owners' uids. The work
// is also done in other orders, in which processors and finalizers take turns at
// random; they must leave the same, unless it is said that the order shows (R1):
// settle order=shows.
func (s *script) settle(a *args) string {
	before := s.realm.Clone()
	events := s.realm.Settle(lifecycletest.InOrder)
	want := left(s.realm)
	shows := false
	for seed := range uint64(settleOrders) {
		other := before.Clone()
		other.Settle(lifecycletest.Shuffled(seed))
		if is := left(other); !maps.Equal(is, want) {
			shows = true
			if a.text("order") != "shows" {
				a.d.Fatalf(a.t, "in another order, of seed %d, what is left is\n%v\nnot\n%v", seed, is, want)
			}
		}
	}
	if !shows && a.text("order") == "shows" {
		a.d.Fatalf(a.t, "the order does not show in what is left")
	}
	s.realm = before
	return s.did(events)
}

// settleOrders is how many orders are drawn of what a script settles.
const settleOrders = 50

func (s *script) evaluate(a *args) string {
	j := lifecycle.Evaluate(s.realm, a.node(s, 0), s.realm.Clock)
	text := j.Decision.String()
	switch j.Decision {
	case lifecycle.Keep:
	case lifecycle.Wait:
		if j.Until != 0 {
			text += " until " + since(j.Until)
		}
	default:
		text += because(j.Reason, j.Cause)
	}
	return text + "\n"
}

// classify prints the class of each reference of an object, and why.
func (s *script) classify(a *args) string {
	n := a.node(s, 0)
	text := ""
	for i := range n.Owners {
		r := &n.Owners[i]
		c := lifecycle.Classify(s.realm, n, r, s.realm.Clock)
		text += fmt.Sprintf("%s: %s, %s", reference(r), class(c.Class), c.Why(s.realm, n, r))
		if c.Cause != 0 {
			text += fmt.Sprintf(" (%d)", c.Cause)
		}
		if c.Until != 0 {
			text += "; until " + since(c.Until)
		}
		text += "\n"
	}
	return text
}

func class(c lifecycle.Class) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "OWNER_CLASS_"))
}

// pending prints pending work because of an object, or because of a uid, or
// everything that is.
func (s *script) pending(a *args) string {
	var uids []uid.UID
	switch {
	case len(a.targets) > 0:
		uids = append(uids, a.node(s, 0).UID)
	case a.has("uid"):
		u, err := uid.Parse(a.text("uid"))
		a.must(err)
		uids = append(uids, u)
	default:
		uids = s.realm.Owners()
	}
	text := ""
	for _, u := range uids {
		o, due := lifecycle.PendingWhen(s.realm, u, s.realm.Node(u))
		if o != (lifecycle.Pending{}) {
			text += fmt.Sprintf("%s: %s\n", s.called(u), s.pendingText(o, due))
		}
	}
	if text == "" {
		return "nothing\n"
	}
	return text
}

func (s *script) pendingText(o lifecycle.Pending, due lifecycle.Due) string {
	var all []string
	if o.Evaluate {
		at := "evaluate dependents"
		if o.EvaluateAt != 0 {
			at += " at " + since(o.EvaluateAt)
		}
		if due.Last > due.First && due.Last > s.realm.Clock {
			at += ", all by " + since(due.Last)
		}
		all = append(all, at)
	}
	if o.Orphan {
		all = append(all, "orphan dependents")
	}
	if o.Finish != "" {
		all = append(all, "finish "+o.Finish)
	}
	if o.Examine != 0 {
		all = append(all, fmt.Sprintf("examine %d dependents", o.Examine))
	}
	if o.Blocked {
		all = append(all, "wait for dependents that are being deleted")
	}
	if o.Drain {
		all = append(all, "drain contents")
	}
	if o.Protected {
		all = append(all, "wait for protected dependents")
	}
	if o.Terminate {
		all = append(all, "call the agent")
	}
	if o.Finalize {
		all = append(all, "call finalizers")
	}
	return strings.Join(all, ", ")
}
