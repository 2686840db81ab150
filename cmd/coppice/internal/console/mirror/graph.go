package mirror

import (
	"slices"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/internal/uid"
)

// copied is how many numbers Graph and Named read before they let changes be applied.
const copied = 50_000

// Graph copies the state, the place and the owners of all objects, and uses the memory of into. labels are "key=value": the
// objects that have all of them are Labelled. Changes are applied in between, so that the copy of a number that is freed or
// used again meanwhile may refer to an owner that it has no more, or that is not in the copy.
func (m *Mirror) Graph(labels []string, into *chart.Graph) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.nodes.last
	into.Places = sized(into.Places, int(last)+1)
	into.States = sized(into.States, int(last)+1)
	into.First = sized(into.First, int(last)+2)
	into.Owners = into.Owners[:0]
	into.Places[0], into.States[0], into.First[0] = 0, chart.Present, 0
	if len(labels) == 0 {
		into.Labelled = nil
	} else {
		into.Labelled = sized(into.Labelled, int(last)+1)
		into.Labelled[0] = false
	}
	match := matcher{labels: labels}
	for from := uint32(1); from <= last; from += copied {
		if from > 1 {
			m.mu.Unlock()
			m.mu.Lock() // changes are applied in between
		}
		match.reset(len(m.names.labels.entries))
		for id := from; id <= min(last, from+copied-1); id++ {
			m.copyObject(id, &match, into)
		}
	}
	into.First[last+1] = uint32(len(into.Owners))
	into.Kinds = sized(into.Kinds, len(m.names.places))
	for i := range m.names.places {
		p := &m.names.places[i]
		into.Kinds[i] = chart.Kind{}
		if p.uses > 0 {
			into.Kinds[i] = chart.Kind{Resource: m.names.kinds[p.kind].resource(), Namespace: m.names.spaces[p.namespace].name}
		}
	}
	into.Revision, into.Loading = m.revision, !m.loaded
}

// copyObject copies the object with a number, if it is present.
func (m *Mirror) copyObject(id uint32, match *matcher, into *chart.Graph) {
	n := m.nodes.at(id)
	into.First[id] = uint32(len(into.Owners))
	into.Places[id], into.States[id] = 0, chart.Present
	is := n.flags&present != 0
	if into.Labelled != nil {
		into.Labelled[id] = is && match.matches(n.labels, m.names.labels.entries)
	}
	if !is {
		return
	}
	into.Places[id], into.States[id] = n.place, m.stateOf(n)
	for eid := n.owners; eid != 0; {
		e := m.edges.at(eid)
		if e.flags&(fits|counts) == fits|counts {
			into.Owners = append(into.Owners, e.owner)
		}
		eid = e.next
	}
}

// sized returns a slice of a length, in the memory of s if it is large enough. Its values are any.
func sized[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}

// matcher decides which texts of labels have all of some labels, each text once.
type matcher struct {
	labels []string
	known  []int8 // by the number of the text: 0 if it was not asked, 1 if it matches, -1 if it does not
}

// reset forgets the decisions, as texts with other numbers may follow. n is how many numbers there are.
func (l *matcher) reset(n int) {
	if len(l.labels) > 0 {
		l.known = sized(l.known, n)
		clear(l.known)
	}
}

func (l *matcher) matches(id uint32, texts []text) bool {
	if l.known[id] == 0 {
		l.known[id] = 1
		for _, label := range l.labels {
			if !labelled(texts[id].text, label) {
				l.known[id] = -1
			}
		}
	}
	return l.known[id] > 0
}

// Named names the objects with some numbers: into[i] is the one with numbers[i]. Of those that do not exist it has no uid.
func (m *Mirror) Named(numbers []uint32, into []chart.Named) {
	for from := 0; from < len(numbers); from += copied {
		to := min(len(numbers), from+copied)
		m.name(numbers[from:to], into[from:to])
	}
}

func (m *Mirror) name(numbers []uint32, into []chart.Named) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, id := range numbers {
		into[i] = chart.Named{}
		if id == 0 || id > m.nodes.last {
			continue
		}
		if n := m.nodes.at(id); n.flags&present != 0 {
			into[i] = chart.Named{Name: n.name, UID: n.uid}
		}
	}
}

// Dependents returns the numbers of the objects that name an owner, which may be absent.
func (m *Mirror) Dependents(uid string) (numbers []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.find(uid)
	if id == 0 {
		return nil
	}
	for eid := m.nodes.at(id).dependents; eid != 0; eid = m.edges.at(eid).right {
		if e := m.edges.at(eid); e.flags&counts != 0 {
			numbers = append(numbers, e.dependent)
		}
	}
	return numbers
}

// Number returns the number of the object with a uid; 0 if there is none. The number of an object that was removed can become
// that of another one.
func (m *Mirror) Number(text string) uint32 {
	u, err := uid.Parse(text)
	if err != nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if id := m.index[u]; id != 0 && m.nodes.at(id).flags&present != 0 {
		return id
	}
	return 0
}
