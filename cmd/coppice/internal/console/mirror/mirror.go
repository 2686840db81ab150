package mirror

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Change is a change of the graph.
type Change struct {
	Op Op
	// Resource and Object are those of Put and Remove. Of the object only the metadata, the kind and the apiVersion are read.
	Resource string
	Object   *coppicev1.Object
	// Revision is the revision of the realm after the change; 0 if it is not known.
	Revision uint64
}

// Op says what a change is.
type Op int

// The ops of a Change.
const (
	// Put: the object exists, and is as it says.
	Put Op = iota
	// Remove: the object was removed.
	Remove
	// Restart: all objects follow again. Those that are not put before the next Synced were removed, or the user may not see
	// them any more. The realm may be another one, whose revisions are lower.
	Restart
	// Synced: all objects were put.
	Synced
	// Reached: every change up to the revision was applied.
	Reached
)

// Mirror is the graph of one realm.
type Mirror struct {
	now func() time.Time

	mu       sync.Mutex
	revision uint64
	// again is the highest revision since the last restart.
	again  uint64
	loaded bool
	// partial: the user may not see all objects.
	partial bool
	// sweeping: objects that are still present may have vanished.
	sweeping bool
	// registered has the kinds that are registered; nil if that is not known.
	registered map[kindKey]Registered
	// round counts the restarts: what was not put in this round is forgotten at its end.
	round   uint16
	objects uint64
	names   names
	index   map[uid.UID]uint32
	nodes   slab[node]
	edges   slab[edge]
	forest  forest
	lists   map[string]*queue
	deletions
	watches
}

// node is an object, or an owner that references name and that is absent.
type node struct {
	uid     uid.UID
	name    string
	version uint64 // the resource version
	created int64  // Unix microseconds
	began   int64  // of its deletion, Unix microseconds
	listed  *listing
	place   uint32
	pos     uint32 // in the members of the place
	labels  uint32
	// finalizers is the number of the list; 0 if there are none.
	finalizers         uint32
	owners, dependents uint32 // the first edges
	// count is the number of dependents. Of blocking and protected, only references that fit count: those that block,
	// and those of protected objects.
	count, blocking, protected uint32
	deletion                   uint32
	flags                      uint16
	round                      uint16
}

const (
	present uint16 = 1 << iota
	// gone: the removal of the object was seen.
	gone
	terminating
	// agent: the object has a grace period, so that its agent has to confirm the deletion.
	agent
	protected
	condemned
	// blocked: the object is among those that are blocked of its deletion.
	blocked
)

// New returns an empty mirror. now is its clock.
func New(now func() time.Time) *Mirror {
	m := &Mirror{now: now, index: map[uid.UID]uint32{}, lists: map[string]*queue{}}
	m.names.init()
	m.deletions.init()
	m.watches.init()
	return m
}

// applied is how many changes Apply applies before it lets readers in.
const applied = 1000

// Apply applies changes, in order. Readers can see some of them before the others. The mirror keeps none of the objects.
func (m *Mirror) Apply(changes ...Change) {
	for some := range slices.Chunk(changes, applied) {
		m.apply(some)
	}
}

func (m *Mirror) apply(changes []Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		switch c.Op {
		case Put:
			m.put(c.Resource, c.Object)
		case Remove:
			if id := m.find(c.Object.GetMetadata().GetUid()); id != 0 {
				m.remove(id, c)
			}
		case Restart:
			m.round++
			m.again, c.Revision = 0, 0
		case Synced:
			m.synced()
			m.revision = max(m.again, c.Revision)
		case Reached:
		}
		m.again, m.revision = max(m.again, c.Revision), max(m.revision, c.Revision)
		m.endDeletions()
	}
	m.signalAny()
}

// find returns the number of an object, or of an absent owner; 0 if the mirror has neither.
func (m *Mirror) find(text string) uint32 {
	u, err := uid.Parse(text)
	if err != nil {
		return 0
	}
	return m.index[u]
}

// number returns the number of an object. If there is none, it gets one, and is absent.
func (m *Mirror) number(u uid.UID) uint32 {
	if id := m.index[u]; id != 0 {
		return id
	}
	id := m.nodes.add()
	m.nodes.at(id).uid = u
	m.index[u] = id
	m.forest.reset(id)
	return id
}

// forget frees those of the owners that are absent and that no reference names any more.
func (m *Mirror) forget(ids ...uint32) {
	for _, id := range ids {
		if n := m.nodes.at(id); n.uid != "" && n.flags&present == 0 && n.dependents == 0 {
			m.setDeletion(n, 0)
			m.names.releasePlace(n.place)
			delete(m.index, n.uid)
			m.nodes.remove(id)
		}
	}
}

func (m *Mirror) kindOf(n *node) uint32  { return m.names.places[n.place].kind }
func (m *Mirror) spaceOf(n *node) uint32 { return m.names.places[n.place].namespace }

// containers returns what an object is in: its namespace, and what the registration of its kind stands for.
func (m *Mirror) containers(n *node) [2]*container {
	return m.names.containers(&m.names.places[n.place])
}

// put applies that an object is as o says.
func (m *Mirror) put(resource string, o *coppicev1.Object) {
	meta := o.GetMetadata()
	u, err := uid.Parse(meta.GetUid())
	if err != nil {
		return // the graph service has no such object
	}
	id := m.number(u)
	n := m.nodes.at(id)
	if n.flags&present != 0 && !m.sameNames(n, o) { // it was removed and imported again, with its uid
		defer m.forget(m.takeAway(id, 0)...)
	}
	again := n.round != m.round // an object of another realm can have the same uid and version
	n.round = m.round
	is := n.flags & present
	if is != 0 && !again && n.version == meta.GetResourceVersion() && n.version != 0 {
		return
	}
	m.signal(id)
	if is == 0 {
		m.appear(id, resource, o)
	}
	n.version = meta.GetResourceVersion()
	labels := m.names.labels.take(labelText(meta.GetLabels()))
	m.names.labels.release(n.labels)
	n.labels = labels
	before, former := m.effects(n), n.finalizers
	n.finalizers = m.names.takeFinalizers(meta.GetFinalizers())
	was := n.flags & terminating
	n.flags &^= terminating | agent
	if t := meta.GetDeletionTimestamp(); t != nil {
		n.flags |= terminating
		n.began = t.AsTime().Add(-time.Duration(meta.GetDeletionGracePeriodSeconds()) * time.Second).UnixMicro()
		if meta.GetDeletionGracePeriodSeconds() > 0 {
			n.flags |= agent
		}
	}
	if (n.flags&protected != 0) != (meta.GetProtection() != nil) {
		m.setProtected(n, meta.GetProtection() != nil)
	}
	changed := !m.sameOwners(n, meta.GetOwnerReferences())
	if changed {
		m.signal(id)
		m.replaceOwners(id, meta.GetOwnerReferences())
	}
	if is == 0 {
		m.relinkDependents(id)
	}
	// An object that is no longer being deleted was imported again, with the uid that it had.
	m.reconsider(id, before, changed || was != 0 && n.flags&terminating == 0)
	if is == 0 {
		m.reconsiderDependents(id)
	}
	m.names.lists.release(former) // the lists of objects have used it until now
	m.signal(id)
}

// appear makes an absent object present.
func (m *Mirror) appear(id uint32, resource string, o *coppicev1.Object) {
	n, meta := m.nodes.at(id), o.GetMetadata()
	m.setDeletion(n, 0)
	n.flags = n.flags&^gone | present
	m.objects++
	n.created = meta.GetCreationTimestamp().AsTime().UnixMicro()
	m.setPlace(n, resource, o)
	p := &m.names.places[n.place]
	n.pos = uint32(len(p.members))
	p.members = append(p.members, id)
	m.names.takeStandsFor(m.kindOf(n), n.name)
}

// setPlace sets the name, the kind and the namespace of an object.
func (m *Mirror) setPlace(n *node, resource string, o *coppicev1.Object) {
	meta := o.GetMetadata()
	n.name = meta.GetName()
	if first := n.dependents; first != 0 && m.edges.at(first).name == n.name {
		n.name = m.edges.at(first).name // one copy
	} else {
		n.name = strings.Clone(n.name)
	}
	before := n.place
	n.place = m.names.takePlace(resource, o.GetApiVersion(), o.GetKind(), meta.GetNamespace())
	m.names.releasePlace(before)
}

// sameNames reports whether a present object has the name, the kind and the namespace that o says.
func (m *Mirror) sameNames(n *node, o *coppicev1.Object) bool {
	k := &m.names.kinds[m.kindOf(n)]
	return n.name == o.GetMetadata().GetName() && m.names.spaces[m.spaceOf(n)].name == o.GetMetadata().GetNamespace() &&
		k.kind == o.GetKind() && k.group == api.GroupOf(o.GetApiVersion())
}

// replaceOwners gives an object other references.
func (m *Mirror) replaceOwners(id uint32, refs []*coppicev1.OwnerReference) {
	n := m.nodes.at(id)
	owners := m.dropOwners(id)
	m.setOwners(id, refs)
	if n.flags&protected != 0 {
		for eid := n.owners; eid != 0; eid = m.edges.at(eid).next {
			m.recount(m.edges.at(eid).owner)
		}
		for _, o := range owners {
			m.recount(o)
		}
	}
	m.forget(owners...)
}

// setProtected sets whether an object is protected.
func (m *Mirror) setProtected(n *node, to bool) {
	by := uint32(1)
	n.flags |= protected
	if !to {
		by--
		by--
		n.flags &^= protected
	}
	for eid := n.owners; eid != 0; eid = m.edges.at(eid).next {
		if e := m.edges.at(eid); e.flags&fits != 0 {
			m.nodes.at(e.owner).protected += by
			m.recount(e.owner)
		}
	}
	for _, in := range m.containers(n) {
		in.protected += by
		if in.drain != 0 {
			m.recount(in.drain)
		}
	}
}

// remove applies that an object was removed, which may be absent: then the mirror knows from now on that it is gone.
func (m *Mirror) remove(id uint32, c Change) {
	n := m.nodes.at(id)
	is := n.flags & present
	if o := c.Object; is == 0 && o.GetMetadata().GetName() != "" {
		m.setPlace(n, c.Resource, o)
	}
	single := is != 0 && n.flags&condemned == 0
	owners := m.takeAway(id, gone)
	switch {
	case !single:
	case m.deletionOf(n) != 0: // it began with the removal
		m.countRemoved(n)
	default: // it was removed at once, and nothing went with it
		m.ended(n.uid, ending{Deletion: view.Deletion{Root: m.ref(id), Gone: true, Began: m.now().UTC(), Removed: 1}})
	}
	m.forget(append(owners, id)...)
}

// vanish applies that an object is not there any more, and that its removal was not seen: it is as if it had never been
// seen. What went with it stays, unless it is being deleted itself.
func (m *Mirror) vanish(id uint32) {
	if n := m.nodes.at(id); n.flags&condemned != 0 {
		m.byNumber[m.deletionOf(n)].vanished++
	}
	m.forget(append(m.takeAway(id, 0), id)...)
}

// takeAway makes an object absent. as is gone if its removal was seen. It returns the owners, which the caller forgets.
func (m *Mirror) takeAway(id uint32, as uint16) (owners []uint32) {
	m.signal(id)
	n := m.nodes.at(id)
	var left []uint32 // what is left in the namespace, or of the kind
	if n.flags&present != 0 {
		m.objects--
		if n.flags&protected != 0 {
			m.setProtected(n, false)
		}
		m.setListing(id, listing{})
		m.names.labels.release(n.labels)
		m.names.lists.release(n.finalizers)
		owners = m.dropOwners(id)
		p := &m.names.places[n.place]
		last := len(p.members) - 1
		p.members[n.pos] = p.members[last]
		m.nodes.at(p.members[n.pos]).pos = n.pos
		p.members = p.members[:last]
		if in := m.standsFor(n); in != nil {
			if in.drain == id {
				in.drain, left = 0, m.membersOf(in)
			}
			m.names.release(in)
		}
	}
	switch {
	case as == gone:
		m.leaveRemoved(id)
	case n.flags&condemned != 0:
		m.leave(id)
	}
	n.flags = n.flags&^(present|terminating|agent|gone) | as
	n.labels, n.finalizers, n.version = 0, 0, 0
	m.relinkDependents(id)
	m.reconsiderDependents(id)
	m.acquit(left...)
	for _, d := range left {
		m.list(d)
	}
	return owners
}

// synced ends a round: what was not put in it has vanished. It may have been removed, or the user may not see it any more.
func (m *Mirror) synced() {
	first := !m.loaded
	m.loaded, m.sweeping = true, true
	for id := uint32(1); id <= m.nodes.last; id++ {
		n := m.nodes.at(id)
		if n.flags&present == 0 {
			continue
		}
		if n.round != m.round {
			m.vanish(id)
		} else if first && n.owners != 0 {
			m.list(id)
		}
	}
	m.sweeping = false
	m.regroup()
}

// dependentsOf returns the objects that have references to an object, each once or more often.
func (m *Mirror) dependentsOf(id uint32) []uint32 {
	var list []uint32
	for eid := m.nodes.at(id).dependents; eid != 0; eid = m.edges.at(eid).right {
		list = append(list, m.edges.at(eid).dependent)
	}
	return list
}

// relinkDependents brings what is derived from references to an object up to date, after it appeared or was removed.
func (m *Mirror) relinkDependents(id uint32) {
	for _, d := range m.dependentsOf(id) {
		m.relink(d)
	}
}
