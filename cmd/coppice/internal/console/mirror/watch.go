package mirror

import "github.com/coppice-gc/coppice/internal/uid"

// watches has who waits for changes.
type watches struct {
	any map[*Watch]bool
	of  map[uid.UID]map[*Watch]bool
}

func (w *watches) init() { w.any, w.of = map[*Watch]bool{}, map[uid.UID]map[*Watch]bool{} }

// Watch reports changes. Several changes can be reported as one.
type Watch struct {
	// C receives a value after a change.
	C <-chan struct{}

	c    chan struct{}
	m    *Mirror
	uids []uid.UID
}

// Watch watches objects: a change of one of them, of one of its owners or of one of its dependents is reported. Without
// uids it reports every change of the mirror. The caller closes it.
func (m *Mirror) Watch(uids ...string) *Watch {
	w := &Watch{c: make(chan struct{}, 1), m: m}
	w.C = w.c
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(uids) == 0 {
		m.any[w] = true
	}
	for _, text := range uids {
		u, err := uid.Parse(text)
		if err != nil {
			continue // no object has it
		}
		if m.of[u] == nil {
			m.of[u] = map[*Watch]bool{}
		}
		m.of[u][w] = true
		w.uids = append(w.uids, u)
	}
	return w
}

// Close ends the reports.
func (w *Watch) Close() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	delete(w.m.any, w)
	for _, u := range w.uids {
		delete(w.m.of[u], w)
		if len(w.m.of[u]) == 0 {
			delete(w.m.of, u)
		}
	}
}

func (w *Watch) signal() {
	select {
	case w.c <- struct{}{}:
	default: // a report is waiting already
	}
}

func (m *Mirror) signalAny() {
	for w := range m.any {
		w.signal()
	}
}

// signal reports a change of an object. It is called before and after a change of its references.
func (m *Mirror) signal(id uint32) {
	if len(m.of) == 0 {
		return
	}
	n := m.nodes.at(id)
	m.signalUID(n.uid)
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		m.signalUID(m.nodes.at(e.owner).uid)
		eid = e.next
	}
	if int(n.count) <= len(m.of) {
		for eid := n.dependents; eid != 0; {
			e := m.edges.at(eid)
			m.signalUID(m.nodes.at(e.dependent).uid)
			eid = e.right
		}
		return
	}
	for u := range m.of {
		watched := m.index[u]
		if watched == 0 {
			continue
		}
		for eid := m.nodes.at(watched).owners; eid != 0; {
			e := m.edges.at(eid)
			if e.owner == id {
				m.signalUID(u)
				break
			}
			eid = e.next
		}
	}
}

func (m *Mirror) signalUID(u uid.UID) {
	for w := range m.of[u] {
		w.signal()
	}
}
