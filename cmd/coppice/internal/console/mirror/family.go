package mirror

import (
	"cmp"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// Revision returns the revision of the realm that the mirror has reached.
func (m *Mirror) Revision() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Loaded reports whether all objects of the realm were read at least once.
func (m *Mirror) Loaded() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loaded
}

// SetPartial says whether the user may not see all objects of the realm.
func (m *Mirror) SetPartial(to bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.partial != to {
		m.partial = to
		if m.loaded {
			m.regroup()
			m.dropEmptied()
		}
		m.signalAny()
	}
}

// Partial reports whether the user may not see all objects of the realm.
func (m *Mirror) Partial() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.partial
}

// Objects counts the objects.
func (m *Mirror) Objects() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.objects
}

// Family returns an object with its owners and at most limit of its dependents, from the place from on. It returns false
// if there is neither an object with the uid nor a reference to one.
func (m *Mirror) Family(uid string, from, limit int) (view.Family, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.find(uid)
	if id == 0 {
		return view.Family{}, false
	}
	n := m.nodes.at(id)
	from = max(from, 0)
	f := view.Family{Revision: m.revision, Loading: !m.loaded, Self: m.relative(id), From: from, Total: int(n.count)}
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		f.Owners = append(f.Owners, m.owner(e))
		eid = e.next
	}
	if from >= f.Total || limit <= 0 {
		return f, true
	}
	first := newSmallest(from+min(limit, f.Total-from), func(a, b uint32) int {
		return m.compare(m.edges.at(a).dependent, m.edges.at(b).dependent)
	})
	for eid := n.dependents; eid != 0; eid = m.edges.at(eid).right {
		if m.edges.at(eid).flags&counts != 0 {
			first.add(eid)
		}
	}
	for _, eid := range first.sorted()[from:] {
		e := m.edges.at(eid)
		f.Dependents = append(f.Dependents, related(m.relative(e.dependent), e))
	}
	return f, true
}

// owner describes the owner that a reference names. If another object has its uid, the owner is absent.
func (m *Mirror) owner(e *edge) view.Relative {
	n := m.nodes.at(e.owner)
	if c := m.class(e); c == valid || n.flags&present == 0 || c == unknown {
		r := m.relative(e.owner)
		if n.flags&present == 0 {
			r.Ref = m.claim(e)
			if n.place != 0 && m.agrees(e, n, true) {
				r.Ref = m.ref(e.owner)
			}
		}
		return related(r, e)
	}
	return related(view.Relative{Ref: m.claim(e), State: Absent}, e)
}

func related(r view.Relative, e *edge) view.Relative {
	r.Controller, r.Blocking = e.flags&controller != 0, e.flags&blocking != 0
	return r
}

// compare orders objects by resource, namespace and name.
func (m *Mirror) compare(a, b uint32) int {
	x, y := m.nodes.at(a), m.nodes.at(b)
	if x.place != y.place {
		if c := cmp.Or(
			cmp.Compare(m.names.kinds[m.kindOf(x)].resource(), m.names.kinds[m.kindOf(y)].resource()),
			cmp.Compare(m.names.spaces[m.spaceOf(x)].name, m.names.spaces[m.spaceOf(y)].name),
		); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.uid, y.uid))
}
