package reconcile

import (
	"maps"
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/client"
)

// source is a watch whose events queue keys.
type source struct {
	resource client.Resource
	selector string
	keys     func(*client.Object) []Key

	mu sync.Mutex
	// known has the keys of each object that the watch has delivered. An object that was
	// deleted during an interruption is delivered without its owner references, and a
	// change of an object's controller must reconcile the previous one too.
	known map[Key][]Key
	// unseen are the known objects that were not delivered since the watch began again;
	// nil if it did not, or if all have been delivered.
	unseen map[Key]bool
}

func newSource(r client.Resource, selector string, keys func(*client.Object) []Key) *source {
	return &source{resource: r, selector: selector, keys: keys, known: map[Key][]Key{}}
}

// begin notes that the watch begins, with all objects that exist.
func (s *source) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = map[Key]bool{}
	for at := range s.known {
		s.unseen[at] = true
	}
}

// event returns the keys to reconcile because of an event: those of the object as it is and
// as it was before.
func (s *source) event(e client.WatchEvent) []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Type == client.Bookmark {
		var gone []Key
		if e.Synced {
			for at := range s.unseen {
				gone = append(gone, s.known[at]...)
				delete(s.known, at)
			}
			s.unseen = nil
		}
		return gone
	}
	at := KeyOf(e.Object)
	before := s.known[at]
	delete(s.unseen, at)
	if e.Type == client.Deleted {
		delete(s.known, at)
		return before
	}
	now := s.keys(e.Object)
	s.known[at] = now
	if slices.Equal(before, now) {
		return now
	}
	return slices.Concat(before, now)
}

// all returns the keys of all known objects.
func (s *source) all() []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(s.known))...)
}
