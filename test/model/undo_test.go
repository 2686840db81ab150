package model_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/internal/bus"
)

// Undo (B5). The operation "undo" deletes an object, waits, restores what its cascade has
// removed, and waits again. Then the graph is as before, if nothing in it makes a restoration
// incomplete.

// undo runs the operation.
func (s *script) undo(ctx context.Context, words []string) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.a.mu.Lock()
	before, now := s.a.project(s.tag), s.w.now().UnixMicro()
	c, err := s.command(append([]string{bus.VerbDelete}, words[1:]...))
	s.a.mu.Unlock()
	if err != nil {
		return err
	}
	s.a.mu.Lock()
	s.deletion = 0
	s.a.mu.Unlock()
	if err := s.perform(ctx, c, false); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.a.mu.Lock()
	revision, after := s.deletion, s.a.project(s.tag)
	s.a.mu.Unlock()
	if revision == 0 || before.at(c.target()) == nil {
		return nil
	}
	plan, err := restore.Prepare(ctx, client.New(s.w.nc, client.WithActor(s.tag)), restore.Request{CascadeOf: revision})
	if err != nil {
		return err
	}
	whole := before.restorable(now)
	unfinished := slices.ContainsFunc(slices.Collect(maps.Values(after.objects)), (*object).terminating)
	switch refused := len(plan.Refusals) > 0; {
	case refused && whole && !unfinished:
		return fmt.Errorf("B5: the restoration is refused: %v; the objects were\n%s", plan.Refusals, before.final())
	case !refused && whole && unfinished:
		return fmt.Errorf("B5.5: a deletion is restored that is not finished:\n%s", after.final())
	case refused:
		return nil
	}
	if err := plan.Run(ctx, nil); err != nil {
		return err
	}
	if err := s.w.sync(ctx); err != nil { // the model has the restoration when the auditor has read it
		return err
	}
	s.a.mu.Lock()
	s.snapshot = nil // the restoration is no command of the model
	s.a.events["undo"]++
	s.a.mu.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if is, was := s.a.project(s.tag).shape(), before.shape(); whole && is != was {
		return fmt.Errorf("B5.1: restored, there is\n%sand before the deletion there was\n%s", is, was)
	}
	return nil
}

// target is the place of the object of a command.
func (c *command) target() place {
	for _, al := range aliases {
		if al.plural == c.resource.plural {
			return place{c.resource.group, al.kind, c.ns, c.items[0].name}
		}
	}
	return place{}
}

// restorable reports whether nothing makes the restoration of a cascade in a graph incomplete:
// no references to objects that are gone (B5.3), no deletions that are under way, nothing that
// expires, and no brakes (B5.5).
func (m *model) restorable(now int64) bool {
	for _, o := range m.objects {
		if o.terminating() || o.uninitialized() || o.expires != 0 || isNamespace(o) || isRegistration(o) || isPolicy(o) || isExpiryPolicy(o) {
			return false
		}
		for _, r := range o.owners {
			if c, _, _ := m.classify(o, r, now); c != solid {
				return false
			}
		}
		for _, u := range o.uses {
			if u.uid != "" && !o.using(m.objects[u.uid]) {
				return false
			}
		}
	}
	return true
}

// shape prints the graph without what a restoration does not restore (B5.6). Objects have the
// names of their places in place of uids.
func (m *model) shape() string {
	var lines []string
	named := func(uid string) string {
		if o := m.objects[uid]; o != nil {
			return o.String()
		}
		return ""
	}
	for _, is := range m.objects {
		o := *is
		o.uid, o.created, o.imported, o.session, o.status, o.observed, o.agent = "", 0, 0, "", "", 0, none
		o.protector, o.shielded = "", 0
		o.owners, o.uses = slices.Clone(o.owners), slices.Clone(o.uses)
		for i := range o.owners {
			o.owners[i].uid = named(o.owners[i].uid)
		}
		for i := range o.uses {
			o.uses[i].uid = named(o.uses[i].uid)
		}
		slices.SortFunc(o.owners, func(a, b ref) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		lines = append(lines, "  "+o.text()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// restored checks the events of the verb restore (B5.8).
func (a *auditor) restored(actor string, steps []step) {
	for i := range steps {
		e := &steps[i]
		o := a.m.objects[e.uid]
		switch {
		case e.reason == "USE_BOUND" && o != nil:
			var want map[string]effect
			for j := i; want == nil && j < len(steps); j++ {
				if steps[j].what == "created" {
					want = a.m.bindings(steps[j].after(nil))
				}
			}
			if w, ok := want[e.uid]; !ok || a.same(e, w) != "" {
				a.violation(tagOf(o), "B3.3: a use of %v was bound: %s", o, a.same(e, w))
			}
		case e.reason != "RESTORED":
			a.violation(actor, "B5.8: %s of %v for %s", e.what, o, e.reason)
		case o == nil:
			after := e.after(nil)
			if _, was := a.m.removed[e.uid]; was || after.terminating() || len(after.pending) > 0 || after.protector != "" {
				a.violation(actor, "B5.8: %s", after.text())
			}
			if !a.caused(after, e.cause) {
				a.violation(actor, "B5.8: revision %d, the cause of the restoration of %v, did not remove it", e.cause, after)
			}
		default:
			next := *o
			next.owners = e.after(o).owners
			a.expect(e, []effect{{uid: o.uid, after: &next}}, "B5.8")
			if o.terminating() {
				a.violation(actor, "B5.8: %v is being deleted, and gets references back", o)
			}
		}
		a.apply(e)
	}
}

// caused reports whether an object with the place of o was removed at a revision.
func (a *auditor) caused(o *object, revision uint64) bool {
	for _, r := range a.m.removed {
		if r.revision == revision && r.place == o.place() {
			return true
		}
	}
	return false
}
