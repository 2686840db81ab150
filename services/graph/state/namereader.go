package state

import (
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// NameReader reads the objects of a kind in the order of their names, with their nodes, in
// batches. Only the goroutine of its snapshot may use it. It must be closed before the
// snapshot.
type NameReader struct {
	s     *Snapshot
	r     reader // of the same snapshot, for reads in the background
	kind  *lifecycle.Kind
	in    string
	after NameCursor
	bare  bool
	ahead chan []Named // receives what is read ahead, nil if nothing is being read
}

// Named is an object with its position among the names of its kind.
type Named struct {
	NameCursor
	UID  uid.UID
	Node *lifecycle.Node // nil after a failure, and after Bare(true)
}

// nameChunk is the number of objects that a NameReader reads at once.
const nameChunk = 256

// NameReader returns a reader of the objects that Names visits.
func (s *Snapshot) NameReader(k *lifecycle.Kind, namespace string, after NameCursor) *NameReader {
	r := reader{db: s.r.db, failures: s.r.failures, idle: map[byte]*cursor{}, ctx: s.r.ctx}
	return &NameReader{s: s, r: r, kind: k, in: namespace, after: after}
}

// Bare sets whether later reads leave out the nodes.
func (r *NameReader) Bare(bare bool) { r.bare = bare }

// Next returns the next objects, and whether they are the last. After a failure of a read
// objects are missing: the caller must check the snapshot's Err after Close.
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

// Ahead begins to read what Next will return, in the background. It may be called at most
// once before each Next.
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
	// Reading nodes in the order of their uids is much cheaper.
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

// Close waits for reads in the background, and passes their failure to the snapshot.
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

// Nodes calls visit for the nodes of the objects that Names visits, in the same order,
// until visit returns false. It reads ahead. The snapshot does not cache these nodes.
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
