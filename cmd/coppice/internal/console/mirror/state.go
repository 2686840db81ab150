package mirror

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// States of an object, for view.Relative.
const (
	Present = "Present"
	// Terminating: it is being deleted.
	Terminating = "Terminating"
	// Blocked: it is being deleted, and waits for an external finalizer, its agent, dependents, users or its contents.
	Blocked = "Blocked"
	// Protected: it is not being deleted, and protected.
	Protected = "Protected"
	// UnknownOwner: none of its owners is known to exist, and one of them was never seen. A partial mirror has no such state.
	UnknownOwner = "UnknownOwner"
	// Garbage: none of its owners exists, and its own deletion has not begun.
	Garbage = "Garbage"
	// Absent: it does not exist, or the user may not see it.
	Absent = "Absent"
)

var registration = kindKey{api.Group, "Kind"}

// State returns the state of the object with a uid.
func (m *Mirror) State(uid string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.find(uid)
	if id == 0 {
		return Absent
	}
	return m.state(m.nodes.at(id))
}

func (m *Mirror) state(n *node) string {
	switch {
	case n.flags&present == 0:
		return Absent
	case n.flags&terminating != 0 && m.waitsFor(n) != "":
		return Blocked
	case n.flags&terminating != 0:
		return Terminating
	case n.flags&protected != 0:
		return Protected
	case n.listed != nil && n.listed.reason == garbageList:
		return Garbage
	case n.listed != nil && n.listed.reason == unknownList && !m.partial: // and else the user may only not see them
		return UnknownOwner
	}
	return Present
}

// waitsForOthers reports whether a terminating object waits for an external finalizer, its agent or a protected object.
func (m *Mirror) waitsForOthers(n *node) bool {
	if n.flags&terminating == 0 {
		return false
	}
	f := &m.names.finalizers[n.finalizers]
	if len(f.external) > 0 || n.flags&agent != 0 || f.foreground && n.protected > 0 {
		return true
	}
	in := m.standsFor(n)
	return in != nil && f.contents && in.protected > 0
}

// finalizersNamed is how many finalizers waitsFor names.
const finalizersNamed = 3

// waitsFor says what a terminating object waits for; "" if the mirror knows of nothing.
func (m *Mirror) waitsFor(n *node) string {
	f := &m.names.finalizers[n.finalizers]
	switch {
	case f.inUse: // the others are called afterwards
		return "the objects that use it"
	case len(f.external) == 1:
		return "finalizer " + f.external[0]
	case len(f.external) > finalizersNamed:
		return fmt.Sprintf("finalizers %s and %d more", strings.Join(f.external[:finalizersNamed], ", "), len(f.external)-finalizersNamed)
	case len(f.external) > 0:
		return "finalizers " + strings.Join(f.external, ", ")
	case n.flags&agent != 0:
		return "its agent"
	case f.contents:
		return "what is in it"
	case f.foreground && n.protected > 0:
		return counted(n.protected, "protected dependent")
	case f.foreground && n.blocking > 0:
		return counted(n.blocking, "dependent")
	}
	return ""
}

func counted(n uint32, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ref names an object. Of an absent owner that was never seen it has what a reference says.
func (m *Mirror) ref(id uint32) view.Ref {
	n := m.nodes.at(id)
	if n.place == 0 && n.dependents != 0 {
		return m.claim(m.edges.at(n.dependents))
	}
	return view.Ref{
		Resource: m.names.kinds[m.kindOf(n)].resource(), Namespace: m.names.spaces[m.spaceOf(n)].name, Name: n.name, UID: n.uid.String(),
	}
}

// claim names the owner as a reference does.
func (m *Mirror) claim(e *edge) view.Ref {
	k := &m.names.kinds[e.kind]
	resource, namespaced := m.claimed(k)
	r := view.Ref{Resource: resource, Name: e.name, UID: m.nodes.at(e.owner).uid.String()}
	if namespaced {
		r.Namespace = m.names.spaces[m.spaceOf(m.nodes.at(e.dependent))].name
	}
	return r
}

// relative describes an object without the reference that leads to it.
func (m *Mirror) relative(id uint32) view.Relative {
	n := m.nodes.at(id)
	r := view.Relative{Ref: m.ref(id), State: m.state(n), Dependents: int(n.count), Below: m.below(id)}
	for eid := n.owners; eid != 0; eid = m.edges.at(eid).next {
		r.Owners++
	}
	return r
}

// below counts the objects below an object, each once.
func (m *Mirror) below(id uint32) uint64 {
	if n, exact := m.forest.below(id); exact {
		return uint64(n)
	}
	seen := map[uint32]bool{id: true}
	for ids := []uint32{id}; len(ids) > 0; {
		at := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		for eid := m.nodes.at(at).dependents; eid != 0; {
			e := m.edges.at(eid)
			if e.flags&counts != 0 && !seen[e.dependent] {
				seen[e.dependent] = true
				ids = append(ids, e.dependent)
			}
			eid = e.right
		}
	}
	return uint64(len(seen) - 1)
}
