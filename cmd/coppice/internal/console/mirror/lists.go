package mirror

import (
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// The lists of objects that need attention. There is also one for each external finalizer, for each agent, and for the
// garbage of each resource.
const (
	terminatingList = "terminating"
	unknownList     = "unknown"
	garbageList     = "garbage"
	protectedList   = "protected"
	finalizersList  = "finalizer "
	agentList       = "agent "
	garbageOfList   = "garbage of "
)

// listing says in which lists an object is.
type listing struct {
	reason     string // one of the constants above; empty for no list
	since      int64
	finalizers uint32 // the number of the list of finalizers
	resource   string // of garbage, and of what waits for its agent
}

// in calls f with the name of each list.
func (l *listing) in(names *names, f func(list string)) {
	if l.reason == "" {
		return
	}
	f(l.reason)
	for _, name := range names.finalizers[l.finalizers].external {
		f(finalizersList + name)
	}
	switch {
	case l.reason == garbageList:
		f(garbageOfList + l.resource)
	case l.resource != "":
		f(agentList + l.resource)
	}
}

// list puts an object into the lists in which it should be.
func (m *Mirror) list(id uint32) {
	n := m.nodes.at(id)
	l := listing{reason: m.reason(n)}
	switch l.reason {
	case "":
	case terminatingList:
		l.since, l.finalizers = n.began, n.finalizers
		if n.flags&agent != 0 {
			l.resource = m.names.kinds[m.kindOf(n)].resource()
		}
	case unknownList:
		l.since = n.created
	default:
		if l.reason == garbageList {
			l.resource = m.names.kinds[m.kindOf(n)].resource()
		}
		if n.listed != nil && n.listed.reason == l.reason {
			l.since = n.listed.since
		} else {
			l.since = m.now().UnixMicro()
		}
	}
	m.setListing(id, l)
}

// reason returns the list of an object; "" if it needs no attention.
func (m *Mirror) reason(n *node) string {
	if n.flags&terminating != 0 {
		return terminatingList
	}
	drained := n.flags&protected != 0 && m.drainer(n) != 0
	if n.owners == 0 && !drained {
		return ""
	}
	var counts [3]int // by class
	waits := false
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		c := m.class(e)
		counts[c]++
		waits = waits || c == valid && m.effects(m.nodes.at(e.owner)).waits
		eid = e.next
	}
	garbage := counts[dangling] > 0 && counts[unknown]+counts[valid] == 0
	switch {
	case n.flags&protected != 0:
		if drained || waits || garbage {
			return protectedList
		}
	case garbage:
		return garbageList
	case counts[valid] == 0 && m.loaded:
		return unknownList
	}
	return ""
}

func (m *Mirror) setListing(id uint32, l listing) {
	n := m.nodes.at(id)
	was := n.listed
	if was == nil && l.reason == "" || was != nil && *was == l {
		return
	}
	if was != nil {
		was.in(&m.names, func(list string) {
			q := m.lists[list]
			if q.remove(id); q.len() == 0 {
				delete(m.lists, list)
			}
		})
	}
	if n.listed = nil; l.reason == "" {
		return
	}
	n.listed = &l
	l.in(&m.names, func(list string) {
		q := m.lists[list]
		if q == nil {
			q = &queue{}
			m.lists[list] = q
		}
		q.add(waiting{l.since, id})
	})
}

// listProtected puts protected objects into their lists, after their owner, or what they are in, began to wait for them.
func (m *Mirror) listProtected(id uint32) {
	n := m.nodes.at(id)
	if n.protected > 0 {
		for _, d := range m.dependentsOf(id) {
			m.list(d)
		}
	}
	if in := m.standsFor(n); in != nil && in.protected > 0 {
		for _, d := range m.membersOf(in) {
			m.list(d)
		}
	}
}

// Waiting are objects that wait for the same.
type Waiting struct {
	// Name is the finalizer, or the resource of the agent; empty for the others.
	Name string
	// Total counts the objects.
	Total uint64
	// Oldest have waited for the longest time, in order.
	Oldest []view.Terminating
}

// Terminating returns the number of objects that are being deleted, and the n that were marked first.
func (m *Mirror) Terminating(n int) Waiting { return m.waiting(terminatingList, n) }

// Garbage returns the objects whose owners are all gone, and whose deletion has not begun.
func (m *Mirror) Garbage(n int) Waiting { return m.waiting(garbageList, n) }

// GarbageOf returns the garbage of one resource.
func (m *Mirror) GarbageOf(resource string, n int) Waiting {
	return m.waiting(garbageOfList+resource, n)
}

// UnknownOwners returns the objects that have owners of which none is known to exist, and one was never seen. In a partial
// mirror the owners may exist.
func (m *Mirror) UnknownOwners(n int) Waiting { return m.waiting(unknownList, n) }

// Protected returns the protected objects that would be deleted otherwise, or for which a deletion waits.
func (m *Mirror) Protected(n int) Waiting { return m.waiting(protectedList, n) }

// Finalizer returns the objects that are being deleted and have an external finalizer.
func (m *Mirror) Finalizer(name string, n int) Waiting { return m.waiting(finalizersList+name, n) }

// Finalizers returns, for each external finalizer of objects that are being deleted, these objects, ordered by name.
func (m *Mirror) Finalizers(n int) []Waiting { return m.named(finalizersList, n) }

// FinalizersInUse returns the number of objects that have each external finalizer.
func (m *Mirror) FinalizersInUse() map[string]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]uint64{}
	for id, of := range m.names.lists.entries[:min(len(m.names.lists.entries), len(m.names.finalizers))] {
		for _, name := range m.names.finalizers[id].external {
			if of.uses > 0 {
				all[name] += uint64(of.uses)
			}
		}
	}
	return all
}

// Agents returns, for each resource whose objects wait for their agent, these objects, ordered by resource.
func (m *Mirror) Agents(n int) []Waiting { return m.named(agentList, n) }

func (m *Mirror) named(prefix string, n int) (all []Waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for list := range m.lists {
		if name, is := strings.CutPrefix(list, prefix); is {
			w := m.waitingIn(list, n)
			w.Name = name
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (m *Mirror) waiting(list string, n int) Waiting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waitingIn(list, n)
}

func (m *Mirror) waitingIn(list string, n int) (w Waiting) {
	q := m.lists[list]
	if q == nil {
		return w
	}
	w.Total = uint64(q.len())
	for _, o := range q.oldest(n) {
		w.Oldest = append(w.Oldest, m.terminating(o))
	}
	return w
}

// terminating returns an object of a queue, and what it waits for.
func (m *Mirror) terminating(o waiting) view.Terminating {
	t := view.Terminating{Ref: m.ref(o.id), Since: time.UnixMicro(o.since).UTC()}
	if is := m.nodes.at(o.id); is.flags&terminating != 0 {
		t.WaitsFor = m.waitsFor(is)
	}
	return t
}
