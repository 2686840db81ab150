package model_test

import "slices"

// imports creates an object with its uid, timestamps and deletion state.
func (m *model) imports(k *kind, at place, it *item, session string, now int64) outcome {
	next := *it.object
	next.owners = merged(next.owners)
	next.group, next.kind, next.ns, next.name = k.Group, k.Kind, at.ns, at.name
	was := m.objects[next.uid]
	removed, gone := m.removed[next.uid]
	switch {
	case !k.serves(next.version):
		return refusal("BadRequest")
	case invalid(&next), next.uid == "", k.namespaced() != (at.ns != ""):
		return refusal("Invalid")
	case was != nil && was.place() != at, was == nil && gone && removed.place != at:
		return refusal("Conflict") // S6
	case m.at(at) != nil && m.at(at).uid != next.uid:
		return refusal("AlreadyExists")
	}
	next.finalizers = slices.DeleteFunc(slices.Clone(next.finalizers), func(f string) bool { return f == contentsFinalizer })
	next.session = session
	if why := m.bind(&next, was, true); why != "" {
		return refusal(why)
	}
	next.generation, next.imported = max(next.generation, 1), now
	k.derive(&next)
	if was != nil {
		out := m.reimport(k, was, &next, now)
		if len(out.effects) > 0 {
			out.effects = append(m.usedLater(&next, was), out.effects...)
		}
		return out
	}
	receives := func(c *object) bool { return c.has(contentsFinalizer) && now < m.expires(c.session) } // R2
	if why := m.closed(k, at.ns, receives); why != "" {
		return refusal(why)
	}
	next.created = now
	m.cover(&next)
	if next.terminating() && k.ObservesGeneration {
		next.awaited = next.generation
	}
	if next.terminating() && (isNamespace(&next) || isRegistration(&next)) {
		next.finalizers = append(next.finalizers, contentsFinalizer) // its contents may come later (R2)
	}
	if next.terminating() && len(next.finalizers) == 0 && next.grace <= 0 {
		return outcome{code: 200}
	}
	if next.terminating() && (len(m.usersOf(&next)) > 0 || len(m.bindings(&next)) > 0) && !next.has(inUseFinalizer) {
		next.finalizers = append(next.finalizers, inUseFinalizer)
	}
	return outcome{code: 201, effects: append(m.usedLater(&next, nil), effect{uid: next.uid, after: &next})}
}

// reimport changes an existing object to the imported one. It does not undo a deletion.
func (m *model) reimport(k *kind, was, next *object, now int64) outcome {
	next.created, next.applied = was.created, was.applied
	next.protector, next.shielded, next.policies = was.protector, was.shielded, was.policies
	if next.terminating() && was.protected() {
		return refusal("Forbidden") // B2.1
	}
	if next.terminating() || !was.terminating() {
		next.finalizers = kept(was.finalizers, next.finalizers)
	}
	if was.terminating() {
		if !next.terminating() {
			next.finalizers = was.finalizers
		} else if slices.ContainsFunc(next.finalizers, func(f string) bool { return !was.has(f) }) {
			return refusal("Invalid")
		}
		if was.has(contentsFinalizer) && !next.has(contentsFinalizer) {
			next.finalizers = append(slices.Clip(next.finalizers), contentsFinalizer)
		}
		for _, f := range []string{inUseFinalizer, protectionFinalizer} {
			if was.has(f) && !next.has(f) {
				next.finalizers = append(slices.Clip(next.finalizers), f)
			}
		}
		next.deleted, next.grace, next.awaited = was.deleted, was.grace, was.awaited
		if was.has(contentsFinalizer) && now >= m.expires(was.session) && !was.orphaning() && !was.waiting() && !was.inUse() {
			next.session = was.session
		}
	}
	next.generation = max(next.generation, was.generation)
	if !was.terminating() && next.terminating() {
		if k.ObservesGeneration {
			next.awaited = next.generation
		}
		if isNamespace(was) || isRegistration(was) {
			next.finalizers = append(slices.Clip(next.finalizers), contentsFinalizer)
		}
		if len(m.usersOf(was)) > 0 {
			next.finalizers = append(slices.Clip(next.finalizers), inUseFinalizer)
		}
	}
	if len(next.pending) > len(was.pending) || !slices.Equal(next.pending, was.pending[len(was.pending)-len(next.pending):]) {
		next.pending = was.pending
	}
	if was.failed || !was.uninitialized() {
		next.failed = was.failed
	}
	if next.labels != was.labels || next.spec != was.spec || next.status != was.status || next.uninitialized() != was.uninitialized() {
		m.cover(next)
	}
	if next.terminating() && len(next.finalizers) == 0 && next.grace <= 0 {
		return outcome{code: 200, effects: []effect{{uid: was.uid}}}
	}
	if next.labels == was.labels && next.spec == was.spec && next.status == was.status {
		next.agent, next.observed = was.agent, was.observed
	}
	same := *next
	same.imported, same.session = was.imported, was.session
	awaits := slices.ContainsFunc(next.owners, func(r ref) bool { return m.objects[r.uid] == nil })
	awaits = awaits || next.has(orphanFinalizer) || next.has(foregroundFinalizer) || next.has(inUseFinalizer) || next.has(contentsFinalizer)
	if same.text() == was.text() && (next.session == was.session || !awaits) {
		return outcome{code: 200}
	}
	return outcome{code: 200, effects: []effect{{uid: was.uid, after: next}}}
}

// moved reports whether a reference would agree with an owner if it named the owner's group.
func moved(d *object, r ref, owner *object) bool {
	if owner == nil || owner.group == r.group {
		return false
	}
	r.group = owner.group
	return fits(d, r, owner)
}

// movedFrom is moved for references to a registered group, which an owner that orphans removes.
func (m *model) movedFrom(d *object, r ref, owner *object) bool {
	return m.kinds[[2]string{r.group, r.kind}] != nil && moved(d, r, owner)
}

// wasMoved is moved for an owner that was at a place and is removed.
func (m *model) wasMoved(d *object, r ref, was place) bool {
	return m.kinds[[2]string{was.group, was.kind}] != nil &&
		moved(d, r, &object{uid: r.uid, group: was.group, kind: was.kind, ns: was.ns, name: was.name})
}
