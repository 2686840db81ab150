package model_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The work that is left without further commands, and its results (L1 to L5, R1).

// action is a step that the collector, a built-in finalizer, an external finalizer or an
// agent can take now.
type action struct {
	name    string
	effects []effect
	counts  bool  // brakes count it
	may     bool  // it can be taken, and can be left
	trips   *kind // whose brake it trips
}

func (a action) String() string { return a.name }

// actions returns all actions for the objects of a model. due is the time of the next
// timer, 0 if there is none.
func (m *model) actions(now int64) (list []action, due int64) {
	counted := func(name string, o *object, effects []effect) {
		if a, ok := m.braked(action{name: name + " " + o.String(), effects: effects}, now); ok && len(effects) > 0 {
			list = append(list, a)
		}
	}
	add := func(name string, o *object, effects []effect) {
		if len(effects) > 0 {
			list = append(list, action{name: name + " " + o.String(), effects: effects})
		}
	}
	zero := int64(0)
	var waits, lives []*object
	for _, uid := range slices.Sorted(maps.Keys(m.objects)) {
		o := m.objects[uid]
		if o.waiting() || o.inUse() {
			waits = append(waits, o)
		}
		if !o.terminating() {
			lives = append(lives, o)
			decision, _, until := m.evaluate(o, now)
			switch decision {
			case "strip":
				add("strip", o, m.strip(o, now))
			case "collect", "foreground":
				counted("collect", o, m.collect(o, decision == "foreground", now))
			}
			if until != 0 && (due == 0 || until < due) {
				due = until
			}
			continue
		}
		if until := m.expires(o.session); now < until && (o.orphaning() || o.waiting() || o.inUse() || o.has(contentsFinalizer)) && (due == 0 || until < due) {
			due = until
		}
		if m.parts(o, now) {
			for _, d := range m.orphanable(o) {
				effects := m.part(d, o)
				if decision, _, _ := m.evaluate(d, now); decision == "strip" {
					stripped := m.strip(d, now)
					effects = m.part(stripped[0].after, o)
				}
				add("part from "+o.String(), d, effects)
			}
		}
		for _, f := range o.finalizers {
			if m.finishable(o, f, now) {
				add("finish "+f+" of", o, unfinalize(o, f))
			}
		}
		if o.has(contentsFinalizer) && now >= m.expires(o.session) {
			until := m.podsUntil(o)
			pods := now < until
			if pods && (due == 0 || until < due) {
				due = until
			}
			for _, d := range m.objects {
				if m.contains(o, d) && !d.terminating() && (!pods || isPod(d) || m.usesEnding(d)) {
					n := len(list)
					counted("drain", d, m.collect(d, false, now))
					for i := range list[n:] {
						list[n+i].may = pods && !isPod(d) && !m.usesPodOf(o, d)
					}
				}
			}
		}
		if m.keepsUsers(o, now) {
			add("wait for users among the dependents of", o, foregroundForUsers(o))
		}
		if o.has(servedFinalizer) && m.calls(o) {
			add("serve", o, unfinalize(o, servedFinalizer))
		}
		if o.ending() && o.kind == servedKind && !o.inUse() {
			add("end", o, m.deletion(o, "", "", &zero, now))
		}
	}
	m.walks(add)
	if next := m.expiries(now, func(o *object, effects []effect) { counted("expire", o, effects) }); next != 0 && (due == 0 || next < due) {
		due = next
	}
	for _, cycle := range m.cycles(waits, holds) {
		for _, o := range cycle {
			for _, owner := range cycle {
				if holds(o, owner) {
					add("unblock from "+owner.String(), o, unblock(o, owner))
				}
			}
		}
	}
	for _, cycle := range m.cycles(waits, blocks) {
		for _, o := range cycle {
			for _, used := range cycle {
				if blocks(o, used) && !holds(o, used) {
					add("release of "+used.String()+" by", o, release(o, used))
				}
			}
		}
	}
	if m.options.collect {
		owns := func(o, owner *object) bool {
			return slices.ContainsFunc(o.owners, func(r ref) bool { return fits(o, r, owner) })
		}
		for _, cycle := range m.cycles(lives, owns) {
			if !m.unreachable(cycle, now) {
				continue
			}
			var effects []effect
			for _, o := range cycle {
				effects = append(effects, m.collect(o, false, now)...)
			}
			counted("collect the cycle of", cycle[0], effects)
		}
	}
	return list, due
}

// required leaves out the actions that the services need not take.
func required(list []action) []action {
	return slices.DeleteFunc(slices.Clone(list), func(a action) bool { return a.may })
}

// settle takes actions in a random order until there is none that must be taken.
func (m *model) settle(now int64, draw *rand.Rand) error {
	for range 5000 {
		list, _ := m.actions(now)
		if len(required(list)) == 0 && (len(list) == 0 || draw.IntN(2) == 0) {
			return nil
		}
		act := list[draw.IntN(len(list))]
		if act.trips != nil {
			m.trip(act.trips, now)
		}
		for _, e := range act.effects {
			if act.counts {
				m.count(m.objects[e.uid], now)
			}
			if e.after != nil {
				after := *e.after
				if after.terminating() && after.marked == 0 {
					after.marked = m.revision + 1
				}
				m.put(e.uid, &after)
			} else {
				m.put(e.uid, nil)
			}
		}
	}
	return fmt.Errorf("it does not come to an end")
}

// final prints the state without values that depend on the order of work.
func (m *model) final() string {
	var b strings.Builder
	for _, uid := range slices.Sorted(maps.Keys(m.objects)) {
		o := *m.objects[uid]
		o.created, o.deleted, o.imported = 0, min(o.deleted, 1), min(o.imported, 1)
		if o.terminating() {
			o.uses = nil // nor which use
		}
		o.owners = slices.Clone(o.owners)
		for i := range o.owners {
			if o.terminating() {
				o.owners[i].blocking = "" // the rules do not say which reference of a cycle is unblocked
			}
		}
		fmt.Fprintf(&b, "  %s\n", o.text())
	}
	return b.String()
}

// project returns a model of the objects of one script.
func (a *auditor) project(tag string) *model {
	p := newModel()
	p.kinds, p.sessions, p.options, p.governed, p.revision = maps.Clone(a.m.kinds), maps.Clone(a.m.sessions), a.m.options, a.m.governed, a.m.revision
	p.cloneBrakes(a.m)
	for uid := range a.of[tag] {
		o := *a.m.objects[uid]
		p.objects[uid] = &o
		p.names[o.place()] = uid
		if isPolicy(&o) || isExpiryPolicy(&o) {
			p.policies[uid] = true
		}
		p.index(&o)
		for _, r := range o.owners {
			if was, gone := a.m.removed[r.uid]; gone {
				p.removed[r.uid] = was
			}
		}
	}
	return p
}

// orders is the number of orders of work that are tried before an outcome that none of them
// had is an error.
const orders = 30_000

// reaches reports whether the model reaches the outcome from start, and whether it is the
// only outcome that was found.
func reaches(start *model, tag string, now int64, outcome string) (reached, only bool, example string) {
	draw := rand.New(rand.NewPCG(1, uint64(len(outcome))))
	auditor := &auditor{m: start, of: map[string]map[string]bool{tag: {}}}
	for uid := range start.objects {
		auditor.of[tag][uid] = true
	}
	only = true
	for i := range orders {
		m := auditor.project(tag)
		if err := m.settle(now, draw); err != nil {
			return false, false, err.Error()
		}
		if is := m.final(); is == outcome {
			reached = true
		} else {
			only, example = false, is
		}
		if reached && i >= 4 {
			break
		}
	}
	return reached, only, example
}

// podsUntil returns until when the contents of a container wait for its Pods, which go first if
// it is a namespace (A5.8); 0 if they do not wait. Only the cut of the log lasts that long.
func (m *model) podsUntil(container *object) int64 {
	if !isNamespace(container) {
		return 0
	}
	for _, d := range m.objects {
		if isPod(d) && m.contains(container, d) {
			return container.deleted + (10 * time.Minute).Microseconds()
		}
	}
	return 0
}

func isPod(o *object) bool { return o.group == "" && o.kind == "Pod" }
