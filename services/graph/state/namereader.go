package state

import (
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// NameReader reads the objects of a kind by their names, and their nodes, many at
// once. It is for the goroutine of its snapshot, and must be closed before that is.
type NameReader struct {
	s     *Snapshot
	r     reader // of the same, to read alongside what the goroutine reads
	kind  *lifecycle.Kind
	in    string
	after NameCursor
	bare  bool
	ahead chan []Named // gets what is read ahead, nil if nothing is
}

// Named is an object at its place among the names of its kind.
type Named struct {
	NameCursor
	UID  uid.UID
	Node *lifecycle.Node // nil after a failure, and if it is bare
}

// nameChunk is how many objects a NameReader reads at once.
const nameChunk = 256

// NameReader returns a reader of what Names visits.
func (s *Snapshot) NameReader(k *lifecycle.Kind, namespace string, after NameCursor) *NameReader {
	r := reader{db: s.r.db, idle: map[byte]*cursor{}, ctx: s.r.ctx}
	return &NameReader{s: s, r: r, kind: k, in: namespace, after: after}
}

// Bare says whether nodes are left out of what begins to be read from now on.
func (r *NameReader) Bare(bare bool) { r.bare = bare }

// Next returns the objects that follow, and whether these are the last. After a
// failure they are fewer than there are: ask the snapshot's Err, after Close.
func (r *NameReader) Next() (names []Named, last bool) {
	if r.ahead != nil {
		names = <-r.ahead
		r.ahead = nil
	} else {
		names = r.read(r.bare)
	}
	if len(names) > 0 {
		r.after = names[len(names)-1].NameCursor
	}
	return names, len(names) < nameChunk
}

// Ahead begins to read what Next will return, in the background. It is called
// once before each Next, at the most.
func (r *NameReader) Ahead() {
	r.ahead = make(chan []Named, 1)
	go func(bare bool) { r.ahead <- r.read(bare) }(r.bare)
}

func (r *NameReader) read(bare bool) []Named {
	names := make([]Named, 0, nameChunk)
	r.r.names(r.kind, r.in, r.after, func(namespace, name string, u uid.UID) bool {
		names = append(names, Named{NameCursor: NameCursor{namespace, name}, UID: u})
		return len(names) < nameChunk
	})
	if bare {
		return names
	}
	// Nodes are much cheaper in the order of their uids.
	byUID := make([]*Named, len(names))
	for i := range names {
		byUID[i] = &names[i]
	}
	slices.SortFunc(byUID, func(a, b *Named) int { return strings.Compare(string(a.UID), string(b.UID)) })
	uids := make([]uid.UID, len(byUID))
	for i, e := range byUID {
		uids[i] = e.UID
	}
	next := 0
	r.r.prefetch(uids, func(_ uid.UID, c cached) {
		byUID[next].Node = c.node
		next++
	})
	return names
}

// Close waits for what is read, and tells the snapshot of failures.
func (r *NameReader) Close() {
	if r.ahead != nil {
		<-r.ahead
	}
	if err := r.r.close(); err != nil {
		r.r.fail("names", err)
	}
	if r.s.r.failure == nil {
		r.s.r.failure = r.r.failure
	}
}

// Nodes calls visit for the nodes of the objects that Names visits, in the same
// order, until visit returns false. It reads ahead, and remembers none.
func (s *Snapshot) Nodes(k *lifecycle.Kind, namespace string, after NameCursor, visit func(*lifecycle.Node) bool) {
	r := s.NameReader(k, namespace, after)
	defer r.Close()
	for {
		names, last := r.Next()
		if !last {
			r.Ahead()
		}
		for _, e := range names {
			if e.Node != nil && !visit(e.Node) {
				return
			}
		}
		if last {
			return
		}
	}
}
