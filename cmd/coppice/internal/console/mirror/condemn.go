package mirror

import "slices"

// effects are what an object does to its dependents.
type effects struct {
	// condemns: what has no other owner goes with it.
	condemns bool
	// waits: it is being deleted in the foreground.
	waits bool
}

func (m *Mirror) effects(n *node) effects {
	f := &m.names.finalizers[n.finalizers]
	return effects{
		condemns: n.flags&present != 0 && n.flags&condemned != 0 && !f.orphan,
		waits:    n.flags&terminating != 0 && f.foreground,
	}
}

// goes reports whether an object should be condemned, by what is known of its owners and of what it is in.
func (m *Mirror) goes(n *node) bool {
	switch {
	case n.flags&present == 0:
		return false
	case n.flags&terminating != 0:
		return true
	case n.flags&protected != 0:
		return false
	case m.drainer(n) != 0:
		return true
	case n.owners == 0:
		return false
	}
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		switch m.class(e) {
		case unknown:
			return false
		case valid:
			if !m.effects(m.nodes.at(e.owner)).condemns {
				return false
			}
		}
		eid = e.next
	}
	return true
}

// standsFor returns what a Namespace object or the registration of a kind stands for; nil if the object is neither, or absent.
func (m *Mirror) standsFor(n *node) *container {
	return m.names.standsFor(m.kindOf(n), n.name)
}

// drainer returns the object with whose deletion an object goes because it is in its namespace, or of its kind; 0 if
// there is none.
func (m *Mirror) drainer(n *node) uint32 {
	for _, in := range m.containers(n) {
		if in.name != "" && in.drain != 0 && m.nodes.at(in.drain) != n {
			return in.drain
		}
	}
	return 0
}

// condemn condemns those of the objects that go with a deletion, and what goes with them.
func (m *Mirror) condemn(ids ...uint32) {
	for len(ids) > 0 {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		n := m.nodes.at(id)
		if n.flags&condemned != 0 || !m.goes(n) {
			continue
		}
		n.flags |= condemned
		m.join(id)
		ids = m.spread(id, ids)
	}
}

// spread adds to ids what may go with a condemned object. What is being deleted already, as a root, joins its deletion.
func (m *Mirror) spread(id uint32, ids []uint32) []uint32 {
	n := m.nodes.at(id)
	reach := func(d uint32) {
		if m.nodes.at(d).flags&condemned == 0 {
			ids = append(ids, d)
		} else {
			m.adopt(d)
		}
	}
	if m.effects(n).condemns {
		for eid := n.dependents; eid != 0; eid = m.edges.at(eid).right {
			if e := m.edges.at(eid); e.flags&fits != 0 {
				reach(e.dependent)
			}
		}
	}
	if in := m.standsFor(n); in != nil && in.drain == id {
		for _, d := range m.membersOf(in) {
			reach(d)
		}
	}
	return ids
}

// acquit ends that objects are condemned, and with them their dependents, except what is being deleted already. Then it
// condemns again those that go with a deletion all the same.
func (m *Mirror) acquit(ids ...uint32) {
	var acquitted, deleted []uint32
	for len(ids) > 0 {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		n := m.nodes.at(id)
		switch {
		case n.flags&condemned == 0:
			continue
		case n.flags&terminating != 0:
			deleted = append(deleted, id)
			continue
		}
		m.leave(id)
		acquitted = append(acquitted, id)
		for eid := n.dependents; eid != 0; eid = m.edges.at(eid).right {
			if e := m.edges.at(eid); e.flags&fits != 0 {
				ids = append(ids, e.dependent)
			}
		}
	}
	slices.Reverse(acquitted) // owners are condemned again before their dependents
	m.condemn(acquitted...)
	for _, id := range deleted {
		m.reattach(id)
	}
}

// reconsider brings what is derived from an object up to date. before are its effects before a change, and owners says
// whether its references have changed.
func (m *Mirror) reconsider(id uint32, before effects, owners bool) {
	n := m.nodes.at(id)
	starts := false // the deletion of the object drains what it stands for
	if in := m.standsFor(n); in != nil {
		switch drains := n.flags&terminating != 0 && m.names.finalizers[n.finalizers].contents; {
		case drains && in.drain == 0:
			in.drain, starts = id, true
		case !drains && in.drain == id:
			in.drain = 0
			m.acquit(m.membersOf(in)...)
			m.listProtected(id)
		}
	}
	m.settle(id, owners)
	after := m.effects(n)
	if starts || after.condemns && !before.condemns {
		m.condemn(m.spread(id, nil)...)
	}
	if before.condemns && !after.condemns {
		m.acquit(m.fitting(id)...)
	}
	if starts || before.waits != after.waits {
		m.listProtected(id)
	}
	m.recount(id)
	m.list(id)
}

// settle condemns or acquits one object.
func (m *Mirror) settle(id uint32, owners bool) {
	n := m.nodes.at(id)
	switch {
	case n.flags&condemned == 0:
		m.condemn(id)
	case n.flags&terminating != 0:
		if owners {
			m.reattach(id)
		}
	case owners || !m.goes(n):
		m.acquit(id)
	}
}

// reconsiderDependents brings what is derived from references to an object up to date, after it appeared or was removed.
func (m *Mirror) reconsiderDependents(id uint32) {
	for _, d := range m.dependentsOf(id) {
		m.settle(d, m.nodes.at(id).flags&gone == 0 || m.nodes.at(d).flags&terminating != 0)
		m.list(d)
	}
}

// fitting returns the dependents of an object whose reference fits.
func (m *Mirror) fitting(id uint32) (ids []uint32) {
	for eid := m.nodes.at(id).dependents; eid != 0; eid = m.edges.at(eid).right {
		if e := m.edges.at(eid); e.flags&fits != 0 {
			ids = append(ids, e.dependent)
		}
	}
	return ids
}

// membersOf returns the objects in a container.
func (m *Mirror) membersOf(in *container) (ids []uint32) {
	for _, p := range in.places {
		ids = append(ids, m.names.places[p].members...)
	}
	return ids
}
