package mirror

import (
	"slices"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/uid"
)

// follows has who follows deletions, and the deletions that have ended.
type follows struct {
	// followers are those of the deletion that began with an object, by its uid.
	followers map[uid.UID][]*Follow
	endings   map[uid.UID]ending
	// order has the uids in endings, those that were added first first.
	order []uid.UID
}

func (f *follows) init() { f.followers, f.endings = map[uid.UID][]*Follow{}, map[uid.UID]ending{} }

// maxEndings is the number of ended deletions that the mirror knows of. Of a deletion that is followed, each follower keeps
// the end.
const maxEndings = 1000

// ending is a deletion that has ended, with its last numbers.
type ending struct {
	view.Deletion
	// vanished counts the objects whose removal was not seen.
	vanished uint64
}

// Follow follows the deletion of an object, and that of which it becomes a part.
type Follow struct {
	// C receives a value after a change of the mirror.
	C <-chan struct{}

	m     *Mirror
	watch *Watch
	asked string
	// root is the object with which the deletion began.
	root uid.UID
	end  *ending
}

// Follow follows the deletion of the object with a uid. The caller closes it.
func (m *Mirror) Follow(of string) *Follow {
	f := &Follow{m: m, watch: m.Watch(), asked: of}
	f.C = f.watch.C
	m.mu.Lock()
	defer m.mu.Unlock()
	if u, err := uid.Parse(of); err == nil { // and else no object has it
		m.attach(f, u)
	}
	return f
}

// Close ends it.
func (f *Follow) Close() {
	f.watch.Close()
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.detach(f)
}

func (m *Mirror) attach(f *Follow, root uid.UID) {
	f.root, f.end = root, nil
	m.followers[root] = append(m.followers[root], f)
	if e, has := m.endings[root]; has {
		f.end = &e
	}
}

func (m *Mirror) detach(f *Follow) {
	left := slices.DeleteFunc(m.followers[f.root], func(o *Follow) bool { return o == f })
	if m.followers[f.root] = left; len(left) == 0 {
		delete(m.followers, f.root)
	}
}

// redirect has the followers of a deletion follow the one of which it has become a part.
func (m *Mirror) redirect(from, to uid.UID) {
	for _, f := range slices.Clone(m.followers[from]) {
		m.detach(f)
		m.attach(f, to)
		f.end = nil // it is in progress
	}
}

// ended keeps the last numbers of a deletion.
func (m *Mirror) ended(root uid.UID, e ending) {
	for _, f := range m.followers[root] {
		f.end = &e
	}
	if _, again := m.endings[root]; !again {
		m.order = append(m.order, root)
	}
	m.endings[root] = e
	if len(m.order) > maxEndings {
		delete(m.endings, m.order[0])
		m.order = m.order[1:]
	}
}

// maxWaiting is the number of objects of view.Progress that are listed.
const maxWaiting = 20

// Progress returns how far the deletion is.
func (f *Follow) Progress() view.Progress {
	m := f.m
	m.mu.Lock()
	defer m.mu.Unlock()
	p := view.Progress{State: view.Unknown, Loading: !m.loaded, Partial: m.partial, Waiting: []view.Terminating{}}
	p.Root.UID = f.asked
	d := m.inProgress(f.root)
	if d == nil && f.end == nil { // the object may no longer go with the deletion of another
		if u, err := uid.Parse(f.asked); err == nil && u != f.root {
			m.detach(f)
			m.attach(f, u)
			d = m.inProgress(u)
		}
	}
	if d != nil && d.uid != f.root {
		m.detach(f)
		m.attach(f, d.uid)
	}
	id := m.index[f.root]
	switch {
	case d != nil:
		p.State, p.Deletion = view.Running, m.show(d)
		for _, o := range d.blocked.oldest(maxWaiting) {
			p.Waiting = append(p.Waiting, m.terminating(o))
		}
	case id != 0 && m.nodes.at(id).flags&present != 0:
		p.State, p.Root = view.NotDeleted, m.ref(id)
	case f.end != nil && !m.loaded:
		p.State, p.Deletion = view.Running, f.end.Deletion // other objects of the deletion may follow
	case f.end != nil && (f.end.vanished == 0 || !m.partial): // and else the user may only not see the others any more
		p.State, p.Deletion = view.Ended, f.end.Deletion
		p.Removed += f.end.vanished
		p.Rate = 0
	}
	return p
}

// inProgress returns the deletion in progress that an object goes with or, after the object was removed, the one that began
// with it; nil if there is none.
func (m *Mirror) inProgress(of uid.UID) *deletion {
	number := m.byRoot[of]
	if id := m.index[of]; id != 0 {
		switch n := m.nodes.at(id); {
		case m.deletionOf(n) != 0:
			number = n.deletion
		case n.flags&present != 0:
			return nil
		}
	}
	d := m.byNumber[number]
	for d != nil && d.into != 0 {
		d = m.byNumber[d.into]
	}
	return d
}
