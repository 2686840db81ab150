package state

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Snapshot is the state at one revision. It implements lifecycle.View, is not safe for
// concurrent use, and must be closed. Check Err before using what it returned.
type Snapshot struct {
	r    reader
	snap *pebble.Snapshot
	head

	recent     *recent // the cache of the State
	generation uint64  // the generation of recent when the snapshot was taken

	// What was read, by key.
	nodes      map[uid.UID]cached
	removals   map[uid.UID]removal
	owners     map[uid.UID]*owner // with all counters, unless there are many claims
	brakes     map[string]brakeOf // by resource
	releases   *uint64            // number of released objects; nil until it is needed
	noticed    *uint64            // number of objects with notices; nil until it is needed
	anyTripped *bool              // see AnyTripped; nil until it is needed
}

// cached is an object that was read.
type cached struct {
	node *lifecycle.Node
	kin
}

var _ lifecycle.View = (*Snapshot)(nil)

// Snapshot returns a snapshot of the current state. If the state has failed, Err of the
// snapshot returns the failure.
func (s *State) Snapshot() *Snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap := s.db.NewSnapshot()
	return &Snapshot{
		r:          reader{db: snap, failures: s.failures, removed: s.removed, idle: map[byte]*cursor{}, failure: s.failures.err()},
		snap:       snap,
		head:       s.head,
		nodes:      map[uid.UID]cached{},
		recent:     s.recent,
		generation: s.recent.now(),
		removals:   map[uid.UID]removal{},
		owners:     map[uid.UID]*owner{},
		brakes:     map[string]brakeOf{},
	}
}

// Until makes reads fail once ctx has ended: they find nothing, and Err wraps the error of
// ctx. It returns the snapshot.
func (s *Snapshot) Until(ctx context.Context) *Snapshot {
	s.r.ctx = ctx
	return s
}

// Close releases the snapshot.
func (s *Snapshot) Close() error {
	return protect(func() error { return errors.Join(s.r.close(), s.snap.Close()) })
}

// Err returns the first failure of a read. If it is not nil, all results of the snapshot
// must be discarded.
func (s *Snapshot) Err() error { return s.r.err() }

// TakeUnreadable returns the first body that could not be decoded, nil if there is none, and
// forgets it, so that it is not the failure of the snapshot.
func (s *Snapshot) TakeUnreadable() *UnreadableError { return s.r.takeUnreadable() }

// Revision returns the revision of the last object event.
func (s *Snapshot) Revision() uint64 { return s.checkpoint.GetRevision() }

// Time returns the time of the last commit.
func (s *Snapshot) Time() lifecycle.Time { return lifecycle.Time(s.checkpoint.GetTime()) }

func (s *Snapshot) cached(u uid.UID) cached {
	c, ok := s.nodes[u]
	if !ok {
		c.node, c.kin = s.r.node(u)
		s.nodes[u] = c
	}
	return c
}

// Node implements lifecycle.View.
func (s *Snapshot) Node(u uid.UID) *lifecycle.Node { return s.cached(u).node }

// EachParent calls visit for the live objects that have or had dependents, in the order of
// their uids, until visit returns false. The snapshot does not cache these objects.
func (s *Snapshot) EachParent(visit func(*lifecycle.Node) bool) {
	s.r.scan("nodes", []byte{tableNode}, nil, func(_, value []byte) bool {
		if !isParent(value) {
			return true
		}
		n, _, err := decodeNodeValue(value)
		if err != nil {
			s.r.fail("nodes", err)
			return false
		}
		return visit(n)
	})
}

// Forget empties the snapshot's cache, to bound the memory of a long walk.
func (s *Snapshot) Forget() {
	clear(s.nodes)
	clear(s.owners)
	clear(s.removals)
}

// Lookup implements lifecycle.View.
func (s *Snapshot) Lookup(kind *lifecycle.Kind, namespace, name string) uid.UID {
	return s.r.lookup(kind.Resource(), namespace, name)
}

// Body implements lifecycle.View.
func (s *Snapshot) Body(n *lifecycle.Node) *coppicev1.Body { return s.BodyOf(n.UID) }

// BodyOf is Body for callers that have not read the node.
func (s *Snapshot) BodyOf(u uid.UID) *coppicev1.Body { return s.r.body(u) }

// Removed implements lifecycle.View.
func (s *Snapshot) Removed(u uid.UID, c lifecycle.Coordinates) (revision uint64, ok bool) {
	e, known := s.removals[u]
	if !known {
		// The record is in the rows of absent owners, if dependents still refer to it, or
		// in the window.
		var found bool
		e.uid = u
		if e.revision, e.claim, found = s.r.absent(u); !found {
			e = s.r.removal(u, 0)
		}
		s.removals[u] = e
	}
	return e.revision, e.revision != 0 && e.claim == claimHash(c)
}

// Session implements lifecycle.View.
func (s *Snapshot) Session(id string) lifecycle.Session { return s.r.session(id, s) }

// SessionEnd returns when the first of the open import sessions ends unless it gets
// further commands; lifecycle.Never if none is open.
func (s *Snapshot) SessionEnd(now lifecycle.Time) lifecycle.Time {
	first := lifecycle.Never
	s.r.scan("sessions", []byte{tableSession}, nil, func(_, value []byte) bool {
		var last uint64
		if err := decodeUvarints(value, &last); err != nil {
			s.r.fail("sessions", err)
			return false
		}
		if end := sessionEnd(s, lifecycle.Time(last)); end > now {
			first = min(first, end)
		}
		return true
	})
	return first
}

// AnyOf implements lifecycle.View.
func (s *Snapshot) AnyOf(k *lifecycle.Kind, namespace string) string {
	return s.r.any(namePrefix(k.Resource(), namespace))
}

// AnyIn implements lifecycle.View.
func (s *Snapshot) AnyIn(namespace string) string { return anyIn(&s.r, s.kinds, namespace) }

func anyIn(r *reader, kinds *lifecycle.Kinds, namespace string) string {
	for _, k := range kinds.All() {
		if k.Namespaced() {
			if name := r.any(namePrefix(k.Resource(), namespace)); name != "" {
				return name
			}
		}
	}
	return ""
}

// Names calls visit for the objects of a kind, in one namespace unless that is empty, that
// follow the position after, ordered by namespace and name, until visit returns false.
func (s *Snapshot) Names(k *lifecycle.Kind, namespace string, after NameCursor, visit func(namespace, name string, u uid.UID) bool) {
	s.r.names(k, namespace, after, visit)
}

// NameCursor is a position among the names of a kind. The zero value is the start.
type NameCursor struct{ Namespace, Name string }

// Pending returns the work row of u. It returns false if no work is pending because of u.
func (s *Snapshot) Pending(u uid.UID) (WorkRow, bool) { return s.r.pending(u) }

// EachWorkRowOf calls visit for the work rows of uids, which must be sorted.
func (s *Snapshot) EachWorkRowOf(sorted []uid.UID, visit func(uid.UID, WorkRow)) {
	s.r.prefetchRows("pending", tableWork, sorted, 1, func(u uid.UID, rows []stored, _ bool) {
		for _, r := range rows {
			row, err := decodeWorkRow(r.value)
			if err != nil {
				s.r.fail("pending", err)
				return
			}
			visit(u, row)
		}
	})
}

// EachWorkRow calls visit for the work rows behind a uid, in order, until visit returns
// false.
func (s *Snapshot) EachWorkRow(after uid.UID, visit func(uid.UID, WorkRow) bool) {
	var start []byte
	if after != "" {
		start = append(keyOfUID(tableWork, after), nul)
	}
	s.r.scan("pending", []byte{tableWork}, start, func(key, value []byte) bool {
		row, err := decodeWorkRow(value)
		if err != nil {
			s.r.fail("pending", err)
			return false
		}
		return visit(uid.UID(key[1:]), row)
	})
}

// RemovedAt returns the commit that removed an object, if that is still known.
func (s *Snapshot) RemovedAt(u uid.UID) (sequence uint64, ok bool) {
	return s.r.removed.find(uidHash(u))
}
