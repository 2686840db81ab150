package state

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// NameReader reads the objects of a kind by their names, many at once. It is for
// the goroutine of its snapshot, and must be closed before that is.
type NameReader struct {
	s     *Snapshot
	r     reader // of the same, to read beside what the goroutine reads
	kind  *lifecycle.Kind
	in    string
	after NameCursor
	ahead chan []Name // gets what is read ahead, nil if nothing is
}

// Name is the name of an object.
type Name struct {
	NameCursor
	UID uid.UID
}

// nameChunk is how many names a NameReader reads at once.
const nameChunk = 256

// NameReader returns a reader of what Names visits.
func (s *Snapshot) NameReader(k *lifecycle.Kind, namespace string, after NameCursor) *NameReader {
	r := reader{db: s.r.db, idle: map[byte]*pebble.Iterator{}}
	return &NameReader{s: s, r: r, kind: k, in: namespace, after: after}
}

// Next returns the names that follow, and whether these are the last. After a
// failure they are fewer than there are: ask the snapshot's Err, after Close.
func (r *NameReader) Next() (names []Name, last bool) {
	if r.ahead != nil {
		names = <-r.ahead
		r.ahead = nil
	} else {
		names = r.read()
	}
	if len(names) > 0 {
		r.after = names[len(names)-1].NameCursor
	}
	return names, len(names) < nameChunk
}

// Ahead begins to read what Next will return, in the background. It is called
// once before each Next, at the most.
func (r *NameReader) Ahead() {
	r.ahead = make(chan []Name, 1)
	go func() { r.ahead <- r.read() }()
}

func (r *NameReader) read() []Name {
	names := make([]Name, 0, nameChunk)
	r.r.names(r.kind, r.in, r.after, func(namespace, name string, u uid.UID) bool {
		names = append(names, Name{NameCursor{namespace, name}, u})
		return len(names) < nameChunk
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
