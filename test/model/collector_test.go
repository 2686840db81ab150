package model_test

import (
	"slices"
)

// effect is a change of an object: after is nil if the object is removed. uid is empty if
// the server generates it.
type effect struct {
	uid   string
	after *object
}

// class is the class of an owner reference (A12.6, A16).
type class int

const (
	solid class = iota
	waiting
	dangling
	unknown
)

func (c class) String() string { return [...]string{"solid", "waiting", "dangling", "unknown"}[c] }

// fits reports whether a reference agrees with an owner in uid, group, kind, name, and
// namespace or cluster scope.
func fits(d *object, r ref, owner *object) bool {
	return owner != nil && owner.uid == r.uid && owner.group == r.group && owner.kind == r.kind && owner.name == r.name &&
		(owner.ns == d.ns || owner.ns == "")
}

// classify returns the class of a reference. until is the time at which an unknown owner
// becomes absent, 0 if time alone does not change the class. cause is the revision that
// decided it.
func (m *model) classify(d *object, r ref, now int64) (c class, cause uint64, until int64) {
	owner := m.objects[r.uid]
	if fits(d, r, owner) {
		if owner.waiting() {
			if until := m.expires(owner.session); now < until {
				return unknown, 0, until // more dependents may come with it (R2)
			}
			return waiting, owner.marked, 0
		}
		return solid, 0, 0
	}
	if moved(d, r, owner) {
		return unknown, 0, 0
	}
	k := m.kinds[[2]string{r.group, r.kind}]
	removed, was := m.removed[r.uid]
	if owner == nil && was && (removed.place == place{r.group, r.kind, d.ns, r.name} || removed.place == place{r.group, r.kind, "", r.name}) {
		if until := m.expires(d.session); d.revision >= removed.revision && now < until {
			return unknown, 0, until // an import may bring it back (X11)
		}
		return dangling, removed.revision, 0
	}
	switch {
	case k == nil, slices.ContainsFunc(d.owners, func(o ref) bool { return sameOwner(o, r) && !k.serves(o.version) }):
		return unknown, 0, 0
	case k.namespaced() && d.ns == "":
		return unknown, 0, 0
	case was && owner == nil && m.wasMoved(d, r, removed.place):
		if until := m.expires(d.session); d.revision >= removed.revision && now < until {
			return unknown, 0, until
		}
		return dangling, removed.revision, 0
	case owner != nil, was:
		if until := m.expires(d.session); now < until {
			return unknown, 0, until // policies that protect it may come with it (R2)
		}
		return dangling, 0, 0
	}
	since := d.imported
	if k.since > d.appeared() {
		since = max(since, k.since)
	}
	if since == 0 {
		return dangling, 0, 0
	}
	if until = max(since+m.options.ownerGrace.Microseconds(), m.expires(d.session)); now < until {
		return unknown, 0, until
	}
	return dangling, 0, 0
}

// sameOwner reports whether two references name the same owner in the same way.
func sameOwner(a, b ref) bool {
	return a.uid == b.uid && a.group == b.group && a.kind == b.kind && a.name == b.name
}

// valid returns the dependents with a valid reference, or with a valid reference that
// blocks.
func (m *model) valid(owner *object, blocking bool) (list []*object) {
	for uid := range m.dependents[owner.uid] {
		d := m.objects[uid]
		if slices.ContainsFunc(d.owners, func(r ref) bool { return fits(d, r, owner) && (!blocking || r.blocking == "true") }) {
			list = append(list, d)
		}
	}
	return list
}

// evaluate returns what the collector does with an object (A12): "collect", "foreground",
// "strip", "protected" if only its protection keeps it, or "" for nothing. causes are the revisions that may have caused it. until is
// the time at which time alone may change the result, 0 for never.
func (m *model) evaluate(d *object, now int64) (decision string, causes []uint64, until int64) {
	if d.terminating() || len(d.owners) == 0 {
		return "", nil, 0
	}
	var n [4]int
	for _, r := range d.owners {
		c, cause, at := m.classify(d, r, now)
		n[c]++
		if c == waiting || c == dangling {
			causes = append(causes, cause)
		}
		if at != 0 && (until == 0 || at < until) {
			until = at
		}
	}
	switch {
	case n[solid] > 0 && n[waiting]+n[dangling] > 0:
		return "strip", causes, until
	case n[solid] > 0, n[unknown] > 0:
		return "", nil, until
	case d.protected():
		return "protected", nil, 0 // B2.2
	case n[waiting] > 0 && len(m.valid(d, false)) > 0:
		return "foreground", causes, 0
	}
	return "collect", causes, 0
}

// deletion returns the effect of deleting an object (A5). There is none if the object is
// already being deleted in this way.
func (m *model) deletion(o *object, policy, version string, asked *int64, now int64) []effect {
	if o.protected() {
		return nil // B2.1 to B2.3
	}
	k := m.kindOf(o)
	at, grace := now, int64(0)
	switch {
	case o.ending() && k.GracefulDeletion != nil:
		if asked == nil || leastGrace(*asked) >= o.grace {
			return nil
		}
		grace = leastGrace(*asked)
		if at = o.deleted - (o.grace-grace)*1e6; at < now {
			if at = now; grace > 0 {
				grace = 1
			}
		}
	case !o.terminating() && o.agent != none:
		if grace = o.agent; asked != nil {
			grace = leastGrace(*asked)
		}
		at = now + grace*1e6
	case o.terminating() && o.deleted <= now:
		at = o.deleted
	}
	next := *o
	next.finalizers = m.inUseFirst(o, withPolicy(o, policy, k.byDefault(version)))
	if !slices.Contains(next.finalizers, contentsFinalizer) && m.contents(o) > 0 {
		next.finalizers = append(slices.Clip(next.finalizers), contentsFinalizer)
	}
	if isPolicy(o) && !slices.Contains(next.finalizers, protectionFinalizer) {
		next.finalizers = append(slices.Clip(next.finalizers), protectionFinalizer) // B2.13
	}
	if len(next.finalizers) == 0 && grace == 0 {
		return []effect{{uid: o.uid}}
	}
	next.deleted, next.grace = at, grace
	if !o.terminating() {
		if next.generation > 0 {
			next.generation++
		}
		if k.ObservesGeneration {
			next.awaited = next.generation
		}
	}
	if next.text() == o.text() {
		return nil
	}
	return []effect{{uid: o.uid, after: &next}}
}

// withPolicy implements steps 1 and 2 of A5.
func withPolicy(o *object, policy, byDefault string) []string {
	chosen := ""
	switch {
	case byDefault == "Unsupported", policy == "Background":
	case policy == "Orphan":
		chosen = orphanFinalizer
	case policy == "Foreground":
		chosen = foregroundFinalizer
	case o.has(orphanFinalizer):
		chosen = orphanFinalizer
	case o.has(foregroundFinalizer):
		chosen = foregroundFinalizer
	case byDefault == "OrphanDependents":
		chosen = orphanFinalizer
	}
	var next []string
	for _, f := range o.finalizers {
		if f != orphanFinalizer && f != foregroundFinalizer {
			next = append(next, f)
		}
	}
	if chosen != "" {
		next = append(next, chosen)
	}
	for _, f := range next {
		if !o.has(f) {
			return next
		}
	}
	for _, f := range o.finalizers {
		if !slices.Contains(next, f) {
			return next
		}
	}
	return o.finalizers
}

// contents counts the objects in a namespace, or of a kind.
func (m *model) contents(c *object) (n int) {
	if !isNamespace(c) && !isRegistration(c) {
		return 0
	}
	for _, o := range m.objects {
		if m.contains(c, o) {
			n++
		}
	}
	return n
}

func isNamespace(o *object) bool    { return o.group == "" && o.kind == "Namespace" }
func isRegistration(o *object) bool { return o.group == "coppice.dev" && o.kind == "Kind" }

func (m *model) contains(c, o *object) bool {
	switch {
	case isNamespace(c):
		return o.ns == c.name
	case isRegistration(c):
		k := m.kindOf(o)
		return k != nil && k.uid == c.uid
	}
	return false
}

// collect returns the effect of the collector's DELETE (A12.8, A12.9).
func (m *model) collect(o *object, foreground bool, now int64) []effect {
	policy := "Background"
	switch {
	case foreground:
		policy = "Foreground"
	case m.options.cascade:
	case o.has(orphanFinalizer):
		policy = "Orphan"
	case o.has(foregroundFinalizer):
		policy = "Foreground"
	}
	return m.deletion(o, policy, o.version, nil, now)
}

// strip removes the dangling and waiting references of an object with a solid owner (A12.7).
func (m *model) strip(o *object, now int64) []effect {
	next := *o
	next.owners = nil
	for _, r := range o.owners {
		if c, _, _ := m.classify(o, r, now); c == solid || c == unknown {
			next.owners = append(next.owners, r)
		}
	}
	return []effect{{uid: o.uid, after: &next}}
}

// parts reports whether the dependents of an owner must be orphaned (A15). It is false
// while an import may still add dependents (R2).
func (m *model) parts(owner *object, now int64) bool {
	return owner.orphaning() && owner.acknowledged() && now >= m.expires(owner.session)
}

// orphanable returns the dependents from which an owner that orphans removes references.
func (m *model) orphanable(owner *object) (list []*object) {
	for uid := range m.dependents[owner.uid] {
		d := m.objects[uid]
		if slices.ContainsFunc(d.owners, func(r ref) bool { return fits(d, r, owner) || m.movedFrom(d, r, owner) }) {
			list = append(list, d)
		}
	}
	return list
}

// part removes the references to an owner that orphans (A15): those that are valid, and those to a group from which
// it has moved.
func (m *model) part(o, owner *object) []effect {
	next := *o
	next.owners = nil
	for _, r := range o.owners {
		if !fits(o, r, owner) && !m.movedFrom(o, r, owner) {
			next.owners = append(next.owners, r)
		}
	}
	return []effect{{uid: o.uid, after: &next}}
}

// finishable reports whether the work of a built-in finalizer is complete (A13, A15, A5.7).
func (m *model) finishable(o *object, f string, now int64) bool {
	switch {
	case !o.terminating() || !o.has(f):
		return false
	case f == protectionFinalizer:
		return m.walkEnds(o)
	case now < m.expires(o.session):
		return false // R2
	case f == contentsFinalizer:
		return m.contents(o) == 0
	case f == inUseFinalizer:
		return len(m.usersOf(o)) == 0
	case f == orphanFinalizer:
		return o.acknowledged() && len(m.orphanable(o)) == 0
	case f == foregroundFinalizer:
		return o.acknowledged() && len(m.delaying(o, now)) == 0
	}
	return false
}

// delaying returns the dependents for which an owner waits in the foreground: those that
// block, those that the collector must still collect or strip (A13), and those that are
// protected (B2.8). While it has users, it waits for all that are not terminating (B3.2).
func (m *model) delaying(owner *object, now int64) []*object {
	blocking := m.valid(owner, true)
	return slices.DeleteFunc(m.valid(owner, false), func(d *object) bool {
		decision, _, _ := m.evaluate(d, now)
		if !d.terminating() && owner.inUse() && len(m.usersOf(owner)) > 0 {
			return false
		}
		return decision == "" && !d.protected() && !slices.Contains(blocking, d)
	})
}

// unmarked returns the dependents with a valid reference that are not terminating.
func (m *model) unmarked(owner *object) []*object {
	return slices.DeleteFunc(m.valid(owner, false), func(d *object) bool { return d.terminating() })
}

// unfinalize removes a finalizer. With the last finalizer it removes the object (A2.10).
func unfinalize(o *object, f string) []effect {
	next := *o
	next.finalizers = slices.DeleteFunc(slices.Clone(o.finalizers), func(is string) bool { return is == f })
	switch {
	case !o.has(f):
		return nil
	case o.terminating() && len(next.finalizers) == 0 && o.grace <= 0:
		return []effect{{uid: o.uid}}
	}
	return []effect{{uid: o.uid, after: &next}}
}

// unblock makes the references of an object to one owner non-blocking (A14).
func unblock(o, owner *object) []effect {
	next := *o
	next.owners = slices.Clone(o.owners)
	for i, r := range next.owners {
		if fits(o, r, owner) && r.blocking == "true" {
			next.owners[i].blocking = "false"
		}
	}
	return []effect{{uid: o.uid, after: &next}}
}

// holds reports whether an object blocks another that waits.
func holds(o, owner *object) bool {
	return owner != nil && owner.waiting() && slices.ContainsFunc(o.owners, func(r ref) bool { return r.blocking == "true" && fits(o, r, owner) })
}

// cycles returns the sets of objects that reach each other by edges to owners and used
// objects.
func (m *model) cycles(of []*object, edge func(o, owner *object) bool) (list [][]*object) {
	reach := func(from *object) map[string]bool {
		seen := map[string]bool{}
		next := []*object{from}
		for len(next) > 0 {
			o := next[0]
			next = next[1:]
			var to []string
			for _, r := range o.owners {
				to = append(to, r.uid)
			}
			for _, u := range o.uses {
				to = append(to, u.uid)
			}
			for _, uid := range to {
				if at := m.objects[uid]; at != nil && !seen[uid] && edge(o, at) {
					seen[uid] = true
					next = append(next, at)
				}
			}
		}
		return seen
	}
	reached := map[string]map[string]bool{}
	for _, o := range of {
		reached[o.uid] = reach(o)
	}
	done := map[string]bool{}
	for _, o := range of {
		if done[o.uid] || !reached[o.uid][o.uid] {
			continue
		}
		var cycle []*object
		for _, p := range of {
			if reached[o.uid][p.uid] && reached[p.uid][o.uid] {
				cycle = append(cycle, p)
				done[p.uid] = true
			}
		}
		list = append(list, cycle)
	}
	return list
}

// unreachable reports whether no object outside of a cycle owns an object in it.
func (m *model) unreachable(cycle []*object, now int64) bool {
	for _, o := range cycle {
		if o.terminating() || o.protected() { // B2.9
			return false
		}
		for _, r := range o.owners {
			inside := slices.ContainsFunc(cycle, func(p *object) bool { return fits(o, r, p) })
			if c, _, _ := m.classify(o, r, now); !inside && (c == solid || c == unknown) {
				return false
			}
		}
	}
	return true
}
