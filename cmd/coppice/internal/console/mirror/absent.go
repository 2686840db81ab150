package mirror

import (
	"maps"

	"github.com/coppice-gc/coppice/internal/uid"
)

// Registered is a kind that is registered in the realm.
type Registered struct {
	Group, Kind string
	// Resource is the plural with the group, such as deployments.apps.
	Resource   string
	Namespaced bool
}

// SetKinds says which kinds are registered. An owner of another kind is unknown: the mirror cannot know whether it exists. Before
// the first call, all kinds count as registered.
func (m *Mirror) SetKinds(list []Registered) {
	to := map[kindKey]Registered{}
	for _, k := range list {
		to[kindKey{k.Group, k.Kind}] = k
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registered == nil || !maps.Equal(m.registered, to) {
		m.registered = to
		m.regroup()
		m.dropEmptied()
		m.signalAny()
	}
}

// absent reports whether the owner of a reference does not exist: its removal was seen; or it is none of the objects, although
// the user may get all of them, and its kind is registered.
func (m *Mirror) absent(e *edge) bool {
	switch owner := m.nodes.at(e.owner); {
	case owner.flags&present != 0:
		return false
	case owner.flags&gone != 0:
		return m.class(e) == dangling
	}
	if !m.loaded || m.partial || m.sweeping {
		return false
	}
	_, is := m.registered[m.names.kinds[e.kind].kindKey]
	return is || m.registered == nil || m.names.kinds[e.kind].kindKey == registration
}

// ofAbsent returns the deletion whose root is the first owner of an object that does not exist; 0 if there is none. The
// deletion begins here if no other object goes with it yet.
func (m *Mirror) ofAbsent(n *node) uint32 {
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		if m.absent(e) {
			return m.ofOwner(e)
		}
		eid = e.next
	}
	return 0
}

// ofOwner returns the deletion whose root is the owner of a reference, which does not exist.
func (m *Mirror) ofOwner(e *edge) uint32 {
	owner := m.nodes.at(e.owner)
	number := m.deletionOf(owner)
	if number == 0 {
		number = m.leftBy(owner.uid)
	}
	if number == 0 {
		now := m.now().UnixMicro()
		m.last++
		number = m.last
		d := &deletion{uid: owner.uid, ref: m.claim(e), began: now, followed: now, inferred: owner.flags&gone == 0}
		if owner.place != 0 {
			d.ref = m.ref(e.owner)
		}
		m.byNumber[number], m.byRoot[owner.uid] = d, number
	}
	m.setDeletion(owner, number)
	return number
}

// leftBy returns the deletion whose root was the object with a uid, which is not there; 0 if there is none.
func (m *Mirror) leftBy(u uid.UID) uint32 {
	number := m.byRoot[u]
	if d := m.byNumber[number]; d == nil || d.into != 0 || d.root != 0 {
		return 0
	}
	return number
}

// marked has a deletion begin no later than the mark of one of its objects, if its root was never seen.
func (d *deletion) marked(n *node) {
	if d.inferred && n.flags&terminating != 0 {
		d.began = min(d.began, n.began)
	}
}

// regroup has every object that is being deleted join the deletion with which it goes, after a change of what is known of
// absent owners.
func (m *Mirror) regroup() {
	for id := uint32(1); id <= m.nodes.last; id++ {
		if n := m.nodes.at(id); n.flags&(present|terminating) == present|terminating && n.owners != 0 {
			m.reattach(id)
			m.deletionOf(n) // nothing names the former one any more
		}
	}
}

// dropEmptied forgets deletions that all objects have left: they have not ended.
func (m *Mirror) dropEmptied() {
	for _, number := range m.emptied {
		if d := m.byNumber[number]; d != nil && d.into == 0 && d.remaining == 0 {
			m.drop(number)
		}
	}
	m.emptied = m.emptied[:0]
}

// claimed returns the resource of the kind that a reference names, and whether its objects are in namespaces.
func (m *Mirror) claimed(k *kind) (resource string, namespaced bool) {
	if r, is := m.registered[k.kindKey]; is {
		return r.Resource, r.Namespaced
	}
	return k.resource(), k.namespaced
}
