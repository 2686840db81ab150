package model_test

import (
	"maps"
	"slices"
)

// Uses (B3).

const inUseFinalizer = "coppice.dev/in-use"

// use is a use of an object. uid is empty while no object of that name exists.
type use struct{ group, kind, name, uid string }

func (o *object) inUse() bool { return o.terminating() && o.has(inUseFinalizer) }

// using reports whether an object has a use with the uid and the coordinates of another (B3.3).
func (o *object) using(used *object) bool {
	return used != nil && slices.Contains(o.uses, use{used.group, used.kind, used.name, used.uid}) && (used.ns == "" || used.ns == o.ns)
}

// usersOf returns the objects that use an object.
func (m *model) usersOf(used *object) (list []*object) {
	for _, uid := range slices.Sorted(maps.Keys(m.users[used.uid])) {
		if o := m.objects[uid]; o.using(used) {
			list = append(list, o)
		}
	}
	return list
}

// bind binds the uses of an object that is stored, and returns the reason to refuse them, ""
// for none (B3.3 to B3.5). was is the object before, nil for a creation.
func (m *model) bind(o, was *object, imported bool) string {
	var list []use
	for _, u := range o.uses {
		k := m.kinds[[2]string{u.group, u.kind}]
		if u.group == o.group && u.kind == o.kind && u.name == o.name {
			return "Invalid"
		}
		if u.uid == "" && k != nil {
			p := place{u.group, u.kind, o.ns, u.name}
			if !k.namespaced() {
				p.ns = ""
			}
			u.uid = m.names[p]
		}
		used := m.objects[u.uid]
		if had := was != nil && slices.Contains(was.uses, u); !had && used != nil && used.terminating() && (&object{ns: o.ns, uses: []use{u}}).using(used) && (!imported || !used.inUse() && !sameSession(used, o)) {
			return "Conflict"
		}
		if !slices.Contains(list, u) {
			list = append(list, u)
		}
	}
	o.uses = list
	return ""
}

// sameSession reports whether one import session has brought both objects.
func sameSession(a, b *object) bool { return a.session != "" && a.session == b.session }

// usedLater returns the effects on objects that one import session has brought while they were being deleted, before
// an object that uses them: they wait for it (R2).
func (m *model) usedLater(o, was *object) (list []effect) {
	for _, u := range o.uses {
		used := m.objects[u.uid]
		if used == nil || !used.terminating() || used.inUse() || !sameSession(used, o) || was != nil && slices.Contains(was.uses, u) ||
			!(&object{ns: o.ns, uses: []use{u}}).using(used) {
			continue
		}
		next := *used
		next.finalizers = append(slices.Clip(used.finalizers), inUseFinalizer)
		list = append(list, effect{uid: used.uid, after: &next})
	}
	return list
}

// repeated reports whether an object names a used object twice.
func repeated(uses []use) bool {
	seen := map[use]bool{}
	for _, u := range uses {
		u.uid = ""
		if seen[u] {
			return true
		}
		seen[u] = true
	}
	return false
}

// bindings returns the effects of the creation of an object on those that use its name
// (B3.3).
func (m *model) bindings(created *object) map[string]effect {
	list := map[string]effect{}
	for uid := range m.users[""] {
		o := m.objects[uid]
		next := *o
		next.uses = slices.Clone(o.uses)
		for i := range next.uses {
			if u := &next.uses[i]; u.uid == "" && (&object{ns: o.ns, uses: []use{{u.group, u.kind, u.name, created.uid}}}).using(created) {
				u.uid = created.uid
				list[uid] = effect{uid: uid, after: &next}
			}
		}
	}
	return list
}

// bound checks the events that bind uses, and returns the others. They precede the creation of
// the used object.
func (a *auditor) bound(s *sent, steps []step) []step {
	n := 0
	for n < len(steps) && steps[n].reason == "USE_BOUND" {
		n++
	}
	var want map[string]effect
	if n < len(steps) && steps[n].what == "created" {
		want = a.m.bindings(steps[n].after(nil))
	}
	for i := range n {
		e := &steps[i]
		if w, ok := want[e.uid]; !ok {
			a.violation(s.script.tag, "B3.3: a use of %v was bound", a.m.objects[e.uid])
		} else if why := a.same(e, w); why != "" {
			a.violation(s.script.tag, "B3.3: %s", why)
		}
		delete(want, e.uid)
		a.apply(e)
	}
	for uid := range want {
		a.violation(s.script.tag, "B3.3: a use of %v was not bound", a.m.objects[uid])
	}
	return steps[n:]
}

// inUseFirst returns the finalizers of an object that a DELETE marks, if others use it (B3.1,
// B3.2).
func (m *model) inUseFirst(o *object, finalizers []string) []string {
	add := func(list []string) []string {
		if o.terminating() || len(m.usersOf(o)) == 0 || slices.Contains(list, inUseFinalizer) {
			return list
		}
		return append(slices.Clone(list), inUseFinalizer)
	}
	next := add(finalizers)
	if slices.Contains(next, inUseFinalizer) && !slices.Contains(next, orphanFinalizer) && !slices.Contains(next, foregroundFinalizer) && len(m.valid(o, false)) > 0 {
		all := *o
		all.finalizers = add(o.finalizers)
		next = withPolicy(&all, "Foreground", "")
	}
	return next
}

// calls reports whether the external finalizers of a terminating object are called (B3.6,
// B3.7).
func (m *model) calls(o *object) bool {
	return !o.inUse() && (!o.waiting() || !m.kindOf(o).FinalizeAfterDependents)
}

// keepsUsers reports whether an object waits for its users and keeps dependents, which may be
// users (B3.2).
func (m *model) keepsUsers(o *object, now int64) bool {
	return o.inUse() && len(m.usersOf(o)) > 0 && !o.waiting() && !o.orphaning() && len(m.unmarked(o)) > 0 && now >= m.expires(o.session)
}

// foregroundForUsers has an object that keeps its users wait for its dependents.
func foregroundForUsers(o *object) []effect {
	next := *o
	next.finalizers = withPolicy(o, "Foreground", "")
	return []effect{{uid: o.uid, after: &next}}
}

// blocks reports whether an object that waits, waits for o: as its dependent or as its user.
func blocks(o, waiting *object) bool {
	return holds(o, waiting) || waiting != nil && waiting.inUse() && o.using(waiting)
}

// release removes the use of an object (B3.9).
func release(o, used *object) []effect {
	next := *o
	next.uses = slices.DeleteFunc(slices.Clone(o.uses), func(u use) bool { return u == use{used.group, used.kind, used.name, used.uid} })
	if len(next.uses) == 0 {
		next.uses = nil
	}
	return []effect{{uid: o.uid, after: &next}}
}

// usesEnding reports whether an object uses one that waits for that to end. The drain of a
// namespace deletes it before what waits for Pods (A5.8).
func (m *model) usesEnding(o *object) bool {
	return slices.ContainsFunc(o.uses, func(u use) bool {
		used := m.objects[u.uid]
		return used != nil && used.inUse() && o.using(used)
	})
}

// usesPodOf reports whether an object uses a Pod in a container that waits for that to end, or
// something that waits and does so in turn. The drain finds these (A5.8).
func (m *model) usesPodOf(container, o *object) bool {
	seen := map[string]bool{}
	var uses func(o *object) bool
	uses = func(o *object) bool {
		return slices.ContainsFunc(o.uses, func(u use) bool {
			used := m.objects[u.uid]
			if used == nil || !used.inUse() || !o.using(used) || seen[u.uid] {
				return false
			}
			seen[u.uid] = true
			return isPod(used) && m.contains(container, used) || uses(used)
		})
	}
	return uses(o)
}

// cycleBroken checks an event that ends a wait: of an object for its dependents, or for users
// among what it keeps.
func (a *auditor) cycleBroken(e *step, o *object, now int64) {
	m, tag := a.m, tagOf(o)
	if m.keepsUsers(o, now) && a.same(e, foregroundForUsers(o)[0]) == "" {
		return
	}
	for _, cycle := range m.cycles(a.waiting(tag), holds) {
		for _, owner := range cycle {
			if slices.Contains(cycle, o) && holds(o, owner) && a.same(e, unblock(o, owner)[0]) == "" {
				return
			}
		}
	}
	for _, cycle := range m.cycles(a.waiting(tag), blocks) {
		for _, used := range cycle {
			if slices.Contains(cycle, o) && blocks(o, used) && !holds(o, used) && a.same(e, release(o, used)[0]) == "" {
				return
			}
		}
	}
	a.violation(tag, "X08, B3.9: %v was unblocked, and is in no cycle\n  %s\n  %s", o, o.text(), e.after(o).text())
}
