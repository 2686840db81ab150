package mirror

import (
	"cmp"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/uid"
)

// deletions has the deletions in progress, by number.
type deletions struct {
	byNumber map[uint32]*deletion
	last     uint32
	// emptied may have ended: nothing of them may be left.
	emptied []uint32
	// byRoot has the deletions, also those that have become a part of another, by the uid of the object with which they began.
	byRoot map[uid.UID]uint32
	follows
}

// deletion is a deletion in progress.
type deletion struct {
	// root is the object that is being deleted; 0 if it is gone, and ref names it. uid is that of the root.
	root  uint32
	uid   uid.UID
	ref   view.Ref
	began int64 // Unix microseconds
	// followed is since when the mirror has seen the deletion, in Unix microseconds.
	followed int64
	// inferred: the root was never seen, and is known from references. began is the earliest mark of an object.
	inferred           bool
	remaining, removed uint64
	// blocked are the remaining objects that are blocked, by the time when their deletion began.
	blocked queue
	rate    rate
	// vanished counts the objects that are not known any more, and whose removal was not seen.
	vanished uint64
	// into is the deletion of which this one has become a part; 0 if it is none.
	into uint32
	// refs counts the nodes and deletions that name this one.
	refs uint32
}

func (d *deletions) init() {
	d.byNumber, d.byRoot = map[uint32]*deletion{}, map[uid.UID]uint32{}
	d.follows.init()
}

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
		m.drop(number)
		number = d.into
	}
}

// drop forgets a deletion.
func (m *Mirror) drop(number uint32) {
	if d := m.byNumber[number]; m.byRoot[d.uid] == number {
		delete(m.byRoot, d.uid)
	}
	delete(m.byNumber, number)
}

// above returns the deletion that an object goes with because of its owners, or of what it is in; 0 if there is none. It may
// begin with an owner that does not exist.
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
	return m.ofAbsent(n)
}

// leads reports whether an object goes with a deletion because of its owners, or of what it is in. Those that do not exist
// and were never seen do not count: an object goes with them if nothing else leads to a deletion.
func (m *Mirror) leads(n *node, to uint32) bool {
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		if m.through(e) == to {
			return true
		}
		eid = e.next
	}
	c := m.drainer(n)
	return c != 0 && m.deletionOf(m.nodes.at(c)) == to
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
	m.byNumber[to].marked(n)
	m.recount(id)
}

// begin returns a deletion with an object as its root: a new one, or that of its dependents, if the object was not seen
// before them.
func (m *Mirror) begin(id uint32) uint32 {
	n, now := m.nodes.at(id), m.now().UnixMicro()
	number := m.leftBy(n.uid)
	if number == 0 {
		m.last++
		number = m.last
		m.byNumber[number] = &deletion{uid: n.uid, followed: now}
		m.byRoot[n.uid] = number
	}
	d := m.byNumber[number]
	d.root, d.began, d.inferred = id, now, false
	if n.flags&terminating != 0 {
		d.began = n.began
	}
	return number
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
		d.blocked.remove(id)
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

// recount brings up to date whether an object counts as blocked in its deletion.
func (m *Mirror) recount(id uint32) {
	n := m.nodes.at(id)
	now := n.flags&condemned != 0 && m.waitsForOthers(n)
	if now == (n.flags&blocked != 0) {
		return
	}
	d := m.byNumber[m.deletionOf(n)]
	n.flags ^= blocked
	if now {
		d.blocked.add(waiting{n.began, id})
	} else {
		d.blocked.remove(id)
	}
}

// adopt makes the deletion of a root a part of the one that the root goes with now. An object that went with an owner which
// does not exist moves to that one.
func (m *Mirror) adopt(id uint32) {
	n := m.nodes.at(id)
	from := m.deletionOf(n)
	isRoot := m.byNumber[from].root == id
	if !isRoot && m.leads(n, from) {
		return
	}
	to := m.above(n)
	if to == 0 || to == from {
		return
	}
	if !isRoot {
		m.move(id, from, to)
		return
	}
	f, t := m.byNumber[from], m.byNumber[to]
	t.remaining += f.remaining
	t.removed += f.removed
	t.blocked.merge(&f.blocked)
	t.rate.merge(&f.rate, m.now())
	t.vanished += f.vanished
	t.marked(n)
	t.refs++
	f.root, f.into = 0, to
	m.redirect(f.uid, t.uid)
}

// reattach has a condemned object leave a deletion with which it no longer goes.
func (m *Mirror) reattach(id uint32) {
	n := m.nodes.at(id)
	from := m.deletionOf(n)
	if m.byNumber[from].root == id {
		m.adopt(id)
		return
	}
	if m.leads(n, from) {
		return
	}
	to := m.above(n)
	if to == 0 {
		to = m.begin(id)
	}
	if to != from {
		m.move(id, from, to)
	}
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
		t.marked(n)
		if n.flags&blocked != 0 {
			f.blocked.remove(id)
			t.blocked.add(waiting{n.began, id})
		}
		if m.effects(n).condemns {
			ids = append(ids, m.fitting(id)...)
		}
		if in := m.standsFor(n); in != nil && in.drain == id {
			ids = append(ids, m.membersOf(in)...)
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
			if d.removed+d.vanished > 0 { // and else all objects go with others, or are not deleted
				m.ended(d.uid, ending{m.show(d), d.vanished})
			}
			m.drop(number)
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
		list = append(list, m.show(m.byNumber[number]))
	}
	return list, total
}

// show returns a deletion as pages show it.
func (m *Mirror) show(d *deletion) view.Deletion {
	now := m.now()
	v := view.Deletion{
		Root: d.ref, Gone: d.root == 0, Began: time.UnixMicro(d.began).UTC(),
		Remaining: d.remaining, Removed: d.removed, Blocked: uint64(d.blocked.len()),
		Rate: d.rate.perSecond(now, now.Sub(time.UnixMicro(d.followed))),
	}
	if d.root != 0 {
		v.Root = m.ref(d.root)
	}
	return v
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
