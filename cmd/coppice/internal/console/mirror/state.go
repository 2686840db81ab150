package mirror

import (
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
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

// stateNames are the states as text.
var stateNames = [chart.States]string{
	chart.Present: Present, chart.Protected: Protected, chart.Terminating: Terminating,
	chart.UnknownOwner: UnknownOwner, chart.Garbage: Garbage, chart.Blocked: Blocked,
}

func (m *Mirror) state(n *node) string {
	if n.flags&present == 0 {
		return Absent
	}
	return stateNames[m.stateOf(n)]
}

// stateOf returns the state of a present object.
func (m *Mirror) stateOf(n *node) chart.State {
	switch {
	case n.flags&terminating != 0 && m.blockerOf(n) != noBlocker:
		return chart.Blocked
	case n.flags&terminating != 0:
		return chart.Terminating
	case n.flags&protected != 0:
		return chart.Protected
	case n.listed != nil && n.listed.reason == garbageList:
		return chart.Garbage
	case n.listed != nil && n.listed.reason == unknownList && !m.partial: // and else the user may only not see them
		return chart.UnknownOwner
	}
	return chart.Present
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

// blocker is what a terminating object waits for.
type blocker int

const (
	noBlocker blocker = iota
	byUsers
	byFinalizers
	byAgent
	byContents
	byProtected
	byDependents
)

// blockerOf returns what a terminating object waits for; noBlocker if the mirror knows of nothing.
func (m *Mirror) blockerOf(n *node) blocker {
	f := &m.names.finalizers[n.finalizers]
	switch {
	case f.inUse: // the others are called afterwards
		return byUsers
	case len(f.external) > 0:
		return byFinalizers
	case n.flags&agent != 0:
		return byAgent
	case f.contents:
		return byContents
	case f.foreground && n.protected > 0:
		return byProtected
	case f.foreground && n.blocking > 0:
		return byDependents
	}
	return noBlocker
}

// waitsFor says what a terminating object waits for; "" if the mirror knows of nothing.
func (m *Mirror) waitsFor(n *node) string {
	switch m.blockerOf(n) {
	case byUsers:
		return "the objects that use it"
	case byFinalizers:
		return finalizersText(m.names.finalizers[n.finalizers].external)
	case byAgent:
		return "its agent"
	case byContents:
		return "what is in it"
	case byProtected:
		return counted(n.protected, "protected dependent")
	case byDependents:
		return counted(n.blocking, "dependent")
	case noBlocker:
	}
	return ""
}

func finalizersText(external []string) string {
	switch {
	case len(external) == 1:
		return "finalizer " + external[0]
	case len(external) > finalizersNamed:
		return fmt.Sprintf("finalizers %s and %d more", strings.Join(external[:finalizersNamed], ", "), len(external)-finalizersNamed)
	}
	return "finalizers " + strings.Join(external, ", ")
}

// waits is waitsFor of an object that is being deleted, and empty of others.
func (m *Mirror) waits(n *node) string {
	if n.flags&(present|terminating) != present|terminating {
		return ""
	}
	return m.waitsFor(n)
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
	r := view.Relative{Ref: m.ref(id), State: m.state(n), Waits: m.waits(n), Dependents: int(n.count), Below: m.below(id)}
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
