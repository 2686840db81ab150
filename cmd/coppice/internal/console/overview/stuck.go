package overview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The blockers of view.Stuck.
const (
	Finalizer      = "Finalizer"
	Agent          = "Agent"
	UnknownOwner   = "UnknownOwner"
	OtherNamespace = "OtherNamespace"
	Cycle          = "Cycle"
	Parked         = "Parked"
	Paused         = "Paused"
	Brake          = "Brake"
	Protected      = "Protected"
)

// patience is how long an object may wait for a program that works before it counts as stuck. What could not be read again
// counts for as long.
const patience = 10 * time.Minute

// stuck returns the reasons why objects are not deleted, the oldest first; those of an unknown age come last.
func (b *Builder) stuck(p parts) []view.Stuck {
	m := b.c.Mirror
	var all []view.Stuck
	for _, w := range m.Finalizers(maxExamples) {
		all = append(all, b.finalizer(w, p.consumers.finalizers[w.Name])...)
	}
	for _, w := range m.Agents(maxExamples) {
		all = append(all, b.agent(w, p.consumers.agents[w.Name])...)
	}
	all = append(all, b.unknownOwners(p)...)
	all = append(all, b.protected()...)
	all = append(all, b.warned(p.warnings, lifecycle.WarnInvalidNamespace, OtherNamespace, m.OtherNamespace,
		"%s an owner reference to an object in another namespace: the reference has no effect, and the object is deleted if it has no other owner.",
		"Name an owner in the same namespace or a cluster-scoped one, or remove the reference.")...)
	all = append(all, b.warned(p.warnings, lifecycle.WarnUnreachable, Cycle, m.Unreachable,
		"%s a warning that objects own each other and nothing else owns any of them: they stay until one of them is deleted.",
		"Delete one of the objects, or remove its reference. The realm setting unreachableCycles has all such objects deleted.")...)
	all = append(all, b.parkedWork(p.parked)...)
	all = append(all, b.paused(p.status)...)
	all = append(all, b.tripped(p.brakes)...)
	slices.SortStableFunc(all, func(x, y view.Stuck) int {
		switch {
		case x.Oldest == nil || y.Oldest == nil:
			return cmp.Compare(b2i(x.Oldest == nil), b2i(y.Oldest == nil))
		}
		return x.Oldest.Compare(*y.Oldest)
	})
	return all
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// group returns the group of objects that wait for the same.
func group(w mirror.Waiting, blocker string) view.Stuck {
	return view.Stuck{Blocker: blocker, Subject: w.Name, Objects: w.Total, Oldest: since(w), Examples: w.Oldest}
}

// objects is "1 object waits" or "2 objects wait".
func objects(n uint64, one, many string) string {
	verb := many
	if n == 1 {
		verb = one
	}
	return terminal.Count(int(n), "object") + " " + verb
}

// waitsLong reports whether the first of the objects has waited for longer than a program may take that works.
func (b *Builder) waitsLong(w mirror.Waiting) bool {
	return len(w.Oldest) > 0 && b.c.Now().Sub(w.Oldest[0].Since) > patience
}

// program names the program of a consumer by the name that it has given itself, if it has.
func program(c lookup.Consumer, otherwise string) string {
	if c.Process != "" {
		return "the program " + c.Process
	}
	return otherwise
}

func (b *Builder) finalizer(w mirror.Waiting, c lookup.Consumer) []view.Stuck {
	if !c.Broken() && !b.waitsLong(w) {
		return nil
	}
	s := group(w, Finalizer)
	s.Says = fmt.Sprintf("%s for the finalizer %s: %s.", objects(w.Total, "waits", "wait"), w.Name, c.About())
	s.Cure = b.programCure(c, w.Oldest[0].Ref, "that answers the finalizer "+w.Name)
	if c.Broken() {
		s.Cure.Says += " If it no longer exists, remove the finalizer from each object; what the program would have cleaned up stays behind."
		s.Cure.Command = b.command(`finalizer remove %s %s --reason "its program no longer exists"`, w.Oldest[0].Ref, quoted(w.Name))
	}
	return []view.Stuck{s}
}

func (b *Builder) agent(w mirror.Waiting, c lookup.Consumer) []view.Stuck {
	if !c.Broken() && !b.waitsLong(w) {
		return nil
	}
	s := group(w, Agent)
	s.Says = fmt.Sprintf("%s for the agent of %s: %s.", objects(w.Total, "waits", "wait"), w.Name, c.About())
	s.Cure = b.programCure(c, w.Oldest[0].Ref, "that is the agent of "+w.Name)
	if c.Broken() {
		s.Cure.Says += " If it no longer exists, delete the objects without it."
		s.Cure.Command = b.command("delete %s --force", w.Oldest[0].Ref)
	}
	return []view.Stuck{s}
}

// programCure says what to do about a program that does not do what objects wait for.
func (b *Builder) programCure(c lookup.Consumer, of view.Ref, role string) view.Cure {
	is := program(c, "the program "+role)
	switch c.State {
	case lookup.None:
		return view.Cure{Says: "Start the program " + role + "."}
	case lookup.Silent:
		return view.Cure{Says: "See whether " + is + " still runs, and start it again."}
	case lookup.Failing:
		return view.Cure{Says: "See the log of " + is + ": its calls fail, and are repeated."}
	}
	return view.Cure{Says: "See what " + is + " does: the first object has waited for more than 10 minutes.", Command: b.command("explain %s", of)}
}

func (b *Builder) protected() []view.Stuck {
	w := b.c.Mirror.Protected(maxExamples)
	if w.Total == 0 {
		return nil
	}
	s := group(w, Protected)
	s.Says = objects(w.Total, "is", "are") + " protected, and would be deleted otherwise, or a deletion waits for them."
	s.Cure = view.Cure{
		Says:    "If the objects may be deleted, remove their protection. With --dry-run=server the command says what would be deleted then.",
		Command: b.command(`unprotect %s --reason "it may be deleted" --dry-run=server`, w.Oldest[0].Ref),
	}
	return []view.Stuck{s}
}

// repeated is the age up to which a warning may still hold: while its reason lasts, it is published every 10 minutes.
const repeated = 15 * time.Minute

// warned returns the group of the objects that have a warning with a reason that lasts. If the mirror does not know whether
// it does, the warning must have been repeated.
func (b *Builder) warned(all []client.Warning, reason, blocker string, lasts func(uid string) mirror.Lasting, says, cure string) []view.Stuck {
	s := view.Stuck{Blocker: blocker}
	for _, w := range slices.Backward(newest(all)) { // the oldest first
		if w.Reason != reason {
			continue
		}
		if is := lasts(w.UID); is == mirror.Over || is == mirror.Unsure && b.c.Now().Sub(w.Time) > repeated {
			continue
		}
		if s.Objects++; s.Objects == 1 {
			s.Oldest = &w.Time
			s.Cure = view.Cure{Says: cure, Command: b.command("explain %s", w.Ref)}
		}
		if s.Objects <= maxExamples {
			s.Examples = append(s.Examples, view.Terminating{Ref: w.Ref, Since: w.Time, WaitsFor: w.Message})
		}
	}
	if s.Objects == 0 {
		return nil
	}
	s.Says = fmt.Sprintf(says, objects(s.Objects, "has", "have"))
	return []view.Stuck{s}
}

func (b *Builder) parkedWork(page *client.ParkedPage) []view.Stuck {
	if len(page.GetParked()) == 0 {
		return nil
	}
	first := slices.MinFunc(page.GetParked(), func(x, y *coppicev1.ParkedWork) int { return cmp.Compare(x.GetWork().GetTime(), y.GetWork().GetTime()) })
	oldest := time.UnixMicro(first.GetWork().GetTime()).UTC()
	n := len(page.GetParked())
	says := fmt.Sprintf("%d pieces of work are parked, because they kept failing", n)
	switch {
	case n == 1:
		says = "A piece of work is parked, because it kept failing"
	case page.GetNext() != 0:
		says = fmt.Sprintf("More than %d pieces of work are parked, because they kept failing", n)
	}
	if e := first.GetWork().GetError(); e != "" {
		says += "; the error of the first: " + e
	}
	return []view.Stuck{{
		Blocker: Parked, Says: says + ".", Oldest: &oldest,
		Cure: view.Cure{Says: "End the cause that the error names, then retry the work. The command lists it.", Command: b.realmCommand("parked")},
	}}
}

func (b *Builder) paused(s *client.Status) []view.Stuck {
	if !s.GetPaused() {
		return nil
	}
	group := view.Stuck{
		Blocker: Paused, Says: "The realm is paused, because it was restored or replayed: nothing is deleted, and clients cannot write.",
		Cure: view.Cure{Says: "See whether the realm is as it should be, then end the pause.", Command: "coppice realm resume " + quoted(b.c.Client.Realm())},
	}
	for _, w := range s.GetPending() {
		if at := time.UnixMicro(w.GetOldest()).UTC(); w.GetOldest() != 0 && (group.Oldest == nil || at.Before(*group.Oldest)) {
			group.Oldest = &at
		}
	}
	return []view.Stuck{group}
}

func (b *Builder) tripped(brakes []*client.BrakeStatus) (all []view.Stuck) {
	for _, k := range brakes {
		if k.GetTripped() == 0 {
			continue
		}
		at := time.UnixMicro(k.GetTripped()).UTC()
		w := b.c.Mirror.GarbageOf(k.GetResource(), maxExamples)
		all = append(all, view.Stuck{
			Blocker: Brake, Subject: k.GetResource(), Objects: w.Total, Oldest: &at, Examples: w.Oldest,
			Says: fmt.Sprintf("The brake of %s is tripped: the collector has deleted %d of them in this window, and deletes no more.", k.GetResource(), k.GetCounted()),
			Cure: view.Cure{
				Says:    "Find out what deletes the objects, and release the brake if that is right. With --dry-run the command says what would be deleted then.",
				Command: b.realmCommand("brake release " + quoted(k.GetResource()) + " --dry-run"),
			},
		})
	}
	return all
}
