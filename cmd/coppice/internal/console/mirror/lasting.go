package mirror

// Lasting says whether the reason of a warning about an object still exists.
type Lasting int

// The values of Lasting.
const (
	// Over: the object or the reason does not exist any more.
	Over Lasting = iota
	// Unsure: it depends on objects that the mirror does not have, which may exist all the same.
	Unsure
	// Lasts: the reason still exists.
	Lasts
)

// OtherNamespace says whether an object has a reference to an object in another namespace.
func (m *Mirror) OtherNamespace(uid string) Lasting {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.find(uid)
	if id == 0 || m.nodes.at(id).flags&present == 0 {
		return Over
	}
	is := Over
	for eid := m.nodes.at(id).owners; eid != 0; eid = m.edges.at(eid).next {
		e := m.edges.at(eid)
		owner := m.nodes.at(e.owner)
		switch in := m.spaceOf(owner); {
		case owner.flags&(present|gone) == 0:
			is = max(is, Unsure)
		case owner.flags&present != 0 && m.names.spaces[in].name != "" && in != m.spaceOf(m.nodes.at(id)):
			return Lasts
		}
	}
	return is
}

// climbed is how many objects Unreachable examines at most.
const climbed = 10_000

// Unreachable says whether all objects above an object have owners, so that objects own each other and nothing else owns
// any of them. It is over if the object is being deleted.
func (m *Mirror) Unreachable(uid string) Lasting {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.find(uid)
	if id == 0 || m.nodes.at(id).flags&(present|terminating) != present {
		return Over
	}
	is := Lasts
	seen := map[uint32]bool{id: true}
	for ids := []uint32{id}; len(ids) > 0; {
		n := m.nodes.at(ids[len(ids)-1])
		ids = ids[:len(ids)-1]
		owned := false
		for eid := n.owners; eid != 0; eid = m.edges.at(eid).next {
			switch e := m.edges.at(eid); {
			case m.class(e) == unknown:
				is, owned = Unsure, true
			case m.class(e) == valid:
				owned = true
				if !seen[e.owner] {
					seen[e.owner] = true
					ids = append(ids, e.owner)
				}
			}
		}
		switch {
		case !owned:
			return Over
		case len(seen) > climbed:
			return Unsure
		}
	}
	return is
}
