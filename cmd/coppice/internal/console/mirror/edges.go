package mirror

import (
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// edge is an owner reference. The references of an object are a list by next, in their order; those to an owner are a
// list by left and right, in no order.
type edge struct {
	name             string // of the owner, as the reference has it
	owner, dependent uint32
	next             uint32
	left, right      uint32
	kind             uint32 // of the owner, as the reference has it
	flags            uint8
}

const (
	controller uint8 = 1 << iota
	blocking
	// fits: the owner is present and the reference is valid (lifecycle.Fits).
	fits
	// counts: the owner counts the object among its dependents: the reference fits or the owner is absent, and no earlier
	// reference of the object does so.
	counts
	// inForest: the forest has the edge; every other edge that counts is one more reference to its owner there.
	inForest
)

// class is what is known of the owner of a reference; compare lifecycle.Classify.
type class int

const (
	unknown class = iota
	dangling
	valid
)

func (m *Mirror) class(e *edge) class {
	owner := m.nodes.at(e.owner)
	switch {
	case e.flags&fits != 0:
		return valid
	case owner.flags&(present|gone) == 0:
		return unknown
	case m.names.kinds[m.kindOf(owner)].group != m.names.kinds[e.kind].group && m.agrees(e, owner, false):
		return unknown // the kind has moved to another group
	case owner.flags&present != 0 || m.agrees(e, owner, true):
		return dangling
	}
	return unknown
}

// agrees reports whether a reference is true of an owner, whose group does not matter if withGroup is false.
func (m *Mirror) agrees(e *edge, owner *node, withGroup bool) bool {
	is, said := &m.names.kinds[m.kindOf(owner)], &m.names.kinds[e.kind]
	in, of := m.spaceOf(owner), m.spaceOf(m.nodes.at(e.dependent))
	return is.kind == said.kind && (is.group == said.group || !withGroup) && owner.name == e.name &&
		(in == of || m.names.spaces[in].name == "")
}

// sameOwners reports whether an object has just these references.
func (m *Mirror) sameOwners(n *node, refs []*coppicev1.OwnerReference) bool {
	at := n.owners
	for _, r := range refs {
		if at == 0 {
			return false
		}
		e := m.edges.at(at)
		if e.flags&(controller|blocking) != flagsOf(r) || e.name != r.GetName() || m.nodes.at(e.owner).uid.String() != r.GetUid() ||
			m.names.kinds[e.kind].kindKey != (kindKey{api.GroupOf(r.GetApiVersion()), r.GetKind()}) {
			return false
		}
		at = e.next
	}
	return at == 0
}

func flagsOf(r *coppicev1.OwnerReference) (f uint8) {
	if r.GetController() {
		f |= controller
	}
	if r.GetBlockOwnerDeletion() {
		f |= blocking
	}
	return f
}

// setOwners gives an object without references its references.
func (m *Mirror) setOwners(id uint32, refs []*coppicev1.OwnerReference) {
	last := &m.nodes.at(id).owners
	for _, r := range refs {
		u, err := uid.Parse(r.GetUid())
		if err != nil {
			continue // the graph service stores no such reference
		}
		eid := m.edges.add()
		e := m.edges.at(eid)
		e.owner, e.dependent, e.kind, e.flags = m.number(u), id, m.names.takeKind(r.GetApiVersion(), r.GetKind()), flagsOf(r)
		owner := m.nodes.at(e.owner)
		if e.name = owner.name; e.name != r.GetName() {
			e.name = strings.Clone(r.GetName())
			if first := owner.dependents; first != 0 && m.edges.at(first).name == e.name {
				e.name = m.edges.at(first).name
			}
		}
		if e.right = owner.dependents; e.right != 0 {
			m.edges.at(e.right).left = eid
		}
		owner.dependents = eid
		*last = eid
		last = &e.next
	}
	m.relink(id)
}

// dropOwners removes the references of an object. It returns their owners, which the caller forgets.
func (m *Mirror) dropOwners(id uint32) (owners []uint32) {
	n := m.nodes.at(id)
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		m.setFlags(e, e.flags&(controller|blocking))
		owner := m.nodes.at(e.owner)
		if e.left != 0 {
			m.edges.at(e.left).right = e.right
		} else {
			owner.dependents = e.right
		}
		if e.right != 0 {
			m.edges.at(e.right).left = e.left
		}
		owners = append(owners, e.owner)
		next := e.next
		m.names.releaseKind(e.kind)
		m.edges.remove(eid)
		eid = next
	}
	n.owners = 0
	return owners
}

// relink brings what is derived from the references of an object up to date: after a change of them, or of an owner.
func (m *Mirror) relink(id uint32) {
	n := m.nodes.at(id)
	had := false // an edge in the forest
	for eid := n.owners; eid != 0 && !had; eid = m.edges.at(eid).next {
		had = m.edges.at(eid).flags&inForest != 0
	}
	linked := false
	var seen map[uint32]bool // owners with an edge that counts
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		owner := m.nodes.at(e.owner)
		f := e.flags & (controller | blocking)
		if owner.flags&present != 0 && m.agrees(e, owner, true) {
			f |= fits
		}
		if (f&fits != 0 || owner.flags&present == 0) && !seen[e.owner] {
			f |= counts
			if e.flags&inForest != 0 || !had && !linked && m.forest.root(e.owner) != id {
				f |= inForest
				linked = true
			}
			if e.next != 0 {
				if seen == nil {
					seen = map[uint32]bool{}
				}
				seen[e.owner] = true
			}
		}
		m.setFlags(e, f)
		eid = e.next
	}
	for eid := n.owners; eid != 0 && had && !linked; eid = m.edges.at(eid).next {
		if e := m.edges.at(eid); e.flags&counts != 0 && m.forest.root(e.owner) != id {
			m.setFlags(e, e.flags|inForest)
			linked = true
		}
	}
}

// setFlags changes the flags of a reference, and what its owner counts.
func (m *Mirror) setFlags(e *edge, to uint8) {
	was := e.flags
	e.flags = to
	owner := m.nodes.at(e.owner)
	by := func(mask uint8) uint32 { // +1, 0, or -1
		var d uint32
		if to&mask == mask {
			d++
		}
		if was&mask == mask {
			d--
		}
		return d
	}
	owner.count += by(counts)
	owner.blocking += by(fits | blocking)
	if m.nodes.at(e.dependent).flags&protected != 0 {
		owner.protected += by(fits)
	}
	if was&inForest != 0 && to&inForest == 0 {
		m.forest.cut(e.dependent)
	}
	more := func(f uint8) bool { return f&counts != 0 && f&inForest == 0 }
	if more(was) != more(to) {
		d := 1
		if more(was) {
			d = -1
		}
		m.forest.addMore(e.owner, d)
	}
	if to&inForest != 0 && was&inForest == 0 {
		m.forest.join(e.dependent, e.owner)
	}
}
