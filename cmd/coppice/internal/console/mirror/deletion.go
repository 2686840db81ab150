package mirror

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// deletions has the deletions in progress, by number.
type deletions struct {
	byNumber map[uint32]*deletion
	last     uint32
	// emptied may have ended: nothing of them may be left.
	emptied []uint32
}

// deletion is a deletion in progress.
type deletion struct {
	// root is the object that is being deleted; 0 if it is gone, and ref names it.
	root  uint32
	ref   view.Ref
	began int64 // Unix microseconds
	// followed is since when the mirror has seen the deletion, in Unix microseconds.
	followed                    int64
	remaining, removed, blocked uint64
	rate                        rate
	// into is the deletion of which this one has become a part; 0 if it is none.
	into uint32
	// refs counts the nodes and deletions that name this one.
	refs uint32
}

func (d *deletions) init() { d.byNumber = map[uint32]*deletion{} }

// deletionOf returns the number of the deletion of an object, or of a removed one; 0 if it has ended or there is none.
func (m *Mirror) deletionOf(n *node) uint32 {
	to := n.deletion
	for {
		d := m.byNumber[to]
		if d == nil {
			to = 0
			break
		}
		if d.into == 0 {
			break
		}
		to = d.into
	}
	if to != n.deletion {
		m.setDeletion(n, to)
	}
	return to
}

func (m *Mirror) setDeletion(n *node, to uint32) {
	if d := m.byNumber[to]; d != nil {
		d.refs++
	}
	m.release(n.deletion)
	n.deletion = to
}

// release ends that a deletion is named. One that is a part of another is dropped with the last name.
func (m *Mirror) release(number uint32) {
	for {
		d := m.byNumber[number]
		if d == nil {
			return
		}
		if d.refs--; d.refs > 0 || d.into == 0 {
			return
		}
		delete(m.byNumber, number)
		number = d.into
	}
}

// above returns the deletion that an object goes with because of its owners, or of what it is in; 0 if there is none.
func (m *Mirror) above(n *node) uint32 {
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		if d := m.through(e); d != 0 {
			return d
		}
		eid = e.next
	}
	if id := m.drainer(n); id != 0 {
		return m.deletionOf(m.nodes.at(id))
	}
	return 0
}

// through returns the deletion of the owner of a reference, if the dependent goes with it.
func (m *Mirror) through(e *edge) uint32 {
	owner := m.nodes.at(e.owner)
	switch m.class(e) {
	case valid:
		if m.effects(owner).condemns {
			return m.deletionOf(owner)
		}
	case dangling:
		if owner.flags&gone != 0 {
			return m.deletionOf(owner)
		}
	}
	return 0
}

// join counts a condemned object in a deletion.
func (m *Mirror) join(id uint32) {
	n := m.nodes.at(id)
	to := m.above(n)
	if to == 0 {
		to = m.begin(id)
	}
	m.setDeletion(n, to)
	m.byNumber[to].remaining++
	m.recount(n)
}

// begin returns a new deletion. Its root is the object or, if that is not being deleted yet, its owner that was removed.
func (m *Mirror) begin(id uint32) uint32 {
	n, now := m.nodes.at(id), m.now().UnixMicro()
	m.last++
	d := &deletion{root: id, began: now, followed: now}
	m.byNumber[m.last] = d
	if n.flags&terminating != 0 {
		d.began = n.began
		return m.last
	}
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		if owner := m.nodes.at(e.owner); owner.flags&gone != 0 && m.class(e) == dangling {
			d.root, d.ref = 0, m.ref(e.owner)
			m.setDeletion(owner, m.last)
			break
		}
		eid = e.next
	}
	return m.last
}

// leave ends that an object is condemned.
func (m *Mirror) leave(id uint32) {
	n := m.nodes.at(id)
	m.uncount(id)
	m.setDeletion(n, 0)
	n.flags &^= condemned
}

// leaveRemoved counts an object as removed. If it was condemned, its dependents stay in its deletion.
func (m *Mirror) leaveRemoved(id uint32) {
	n := m.nodes.at(id)
	if n.flags&condemned == 0 {
		return
	}
	m.uncount(id)
	m.countRemoved(n)
	n.flags &^= condemned
}

// uncount counts an object no longer among the remaining ones of its deletion.
func (m *Mirror) uncount(id uint32) {
	n := m.nodes.at(id)
	number := m.deletionOf(n)
	d := m.byNumber[number]
	d.remaining--
	if n.flags&blocked != 0 {
		d.blocked--
		n.flags &^= blocked
	}
	if d.root == id {
		d.root, d.ref = 0, m.ref(id)
	}
	if d.remaining == 0 {
		m.emptied = append(m.emptied, number)
	}
}

func (m *Mirror) countRemoved(n *node) {
	d := m.byNumber[m.deletionOf(n)]
	d.removed++
	d.rate.add(m.now())
}

// countRoot counts an object as removed that was the root of a deletion which began with its removal.
func (m *Mirror) countRoot(n *node) {
	if d := m.byNumber[m.deletionOf(n)]; d != nil && d.removed == 0 {
		m.countRemoved(n)
	}
}

// recount brings up to date whether an object counts as blocked in its deletion.
func (m *Mirror) recount(n *node) {
	now := n.flags&condemned != 0 && m.waitsForOthers(n)
	if now == (n.flags&blocked != 0) {
		return
	}
	d := m.byNumber[m.deletionOf(n)]
	n.flags ^= blocked
	if now {
		d.blocked++
	} else {
		d.blocked--
	}
}

// adopt makes the deletion of a root a part of the one that the root goes with now.
func (m *Mirror) adopt(id uint32) {
	n := m.nodes.at(id)
	from := m.deletionOf(n)
	if m.byNumber[from].root != id {
		return
	}
	to := m.above(n)
	if to == 0 || to == from {
		return
	}
	f, t := m.byNumber[from], m.byNumber[to]
	t.remaining += f.remaining
	t.removed += f.removed
	t.blocked += f.blocked
	t.rate.merge(&f.rate, m.now())
	t.refs++
	f.root, f.into = 0, to
}

// reattach has a condemned object leave a deletion with which it no longer goes.
func (m *Mirror) reattach(id uint32) {
	n := m.nodes.at(id)
	from := m.deletionOf(n)
	if m.byNumber[from].root == id {
		m.adopt(id)
		return
	}
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		if m.through(e) == from {
			return
		}
		eid = e.next
	}
	if c := m.drainer(n); c != 0 && m.deletionOf(m.nodes.at(c)) == from {
		return
	}
	to := m.above(n)
	if to == 0 {
		to = m.begin(id)
	}
	m.move(id, from, to)
}

// move moves an object, and what goes with it, to another deletion.
func (m *Mirror) move(id, from, to uint32) {
	f, t := m.byNumber[from], m.byNumber[to]
	for ids := []uint32{id}; len(ids) > 0; {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		n := m.nodes.at(id)
		if n.flags&condemned == 0 || m.deletionOf(n) != from || f.root == id {
			continue
		}
		m.setDeletion(n, to)
		f.remaining--
		t.remaining++
		if n.flags&blocked != 0 {
			f.blocked--
			t.blocked++
		}
		if m.effects(n).condemns {
			ids = append(ids, m.fitting(id)...)
		}
	}
	if f.remaining == 0 {
		m.emptied = append(m.emptied, from)
	}
}

// endDeletions drops deletions of which nothing is left.
func (m *Mirror) endDeletions() {
	for _, number := range m.emptied {
		if d := m.byNumber[number]; d != nil && d.into == 0 && d.remaining == 0 {
			delete(m.byNumber, number)
		}
	}
	m.emptied = m.emptied[:0]
}

// Deletions returns the deletions in progress, those with the most objects first, at most limit of total.
func (m *Mirror) Deletions(limit int) (list []view.Deletion, total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := newSmallest(limit, func(a, b uint32) int {
		x, y := m.byNumber[a], m.byNumber[b]
		return cmp.Or(cmp.Compare(y.remaining, x.remaining), cmp.Compare(x.began, y.began), cmp.Compare(a, b))
	})
	for number, d := range m.byNumber {
		if d.into == 0 {
			total++
			first.add(number)
		}
	}
	for _, number := range first.sorted() {
		d, now := m.byNumber[number], m.now()
		v := view.Deletion{
			Root: d.ref, Gone: d.root == 0, Began: time.UnixMicro(d.began).UTC(),
			Remaining: d.remaining, Removed: d.removed, Blocked: d.blocked,
			Rate: d.rate.perSecond(now, now.Sub(time.UnixMicro(d.followed))),
		}
		if d.root != 0 {
			v.Root = m.ref(d.root)
		}
		list = append(list, v)
	}
	return list, total
}

// smallest collects the first n of many values.
type smallest[T any] struct {
	n       int
	compare func(a, b T) int
	values  []T
	full    bool // the first n are sorted, and what does not precede the last of them is left out
}

func newSmallest[T any](n int, compare func(a, b T) int) *smallest[T] {
	return &smallest[T]{n: n, compare: compare}
}

func (s *smallest[T]) add(v T) {
	if s.n <= 0 || s.full && s.compare(v, s.values[s.n-1]) >= 0 {
		return
	}
	s.values = append(s.values, v)
	if len(s.values) >= 2*s.n+64 {
		s.shorten()
	}
}

func (s *smallest[T]) shorten() {
	slices.SortFunc(s.values, s.compare)
	if len(s.values) >= s.n {
		s.values, s.full = s.values[:s.n], true
	}
}

func (s *smallest[T]) sorted() []T {
	s.shorten()
	return s.values
}
