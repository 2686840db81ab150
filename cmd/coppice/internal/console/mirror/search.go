package mirror

import (
	"cmp"
	"strings"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/internal/uid"
)

// searched is how many objects Search examines before it lets changes be applied.
const searched = 50_000

// Ranks of an object that a search has found: the better the lower.
const (
	exact = iota
	prefix
	part
	placeOnly // only the resource, the namespace or a label was named
	noMatch
)

// Search finds objects by parts of their resource, namespace or name, and by the beginning of their uid: "web",
// "pods/web", "shop/web", "pods web"; and by labels: "app=web". All words must match. Exact matches of the name or the
// uid come first, then names that begin with a word, then the others; each ordered by resource, namespace and name. An
// object that changes during the search may be missing or out of order.
func (m *Mirror) Search(text string, limit int) view.Found {
	terms := parseTerms(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	f := view.Found{Loading: !m.loaded}
	if len(terms) == 0 || limit <= 0 {
		return f
	}
	type hit struct {
		rank int
		id   uint32
		uid  uid.UID
	}
	first := newSmallest(limit+1, func(a, b hit) int { return cmp.Or(cmp.Compare(a.rank, b.rank), m.compare(a.id, b.id)) })
	examined := 0
	at := make([]placeTerm, len(terms))
	for p := 1; p < len(m.names.places); p++ {
		if len(m.names.places[p].members) == 0 || !m.matchPlace(terms, at, uint32(p)) {
			continue
		}
		key := m.names.places[p].placeKey
		for i := 0; i < len(m.names.places[p].members); i++ { //nolint:intrange // their number changes
			if examined++; examined%searched == 0 {
				m.mu.Unlock()
				m.mu.Lock() // changes are applied in between
				if m.names.places[p].placeKey != key || i >= len(m.names.places[p].members) {
					break
				}
			}
			id := m.names.places[p].members[i]
			n := m.nodes.at(id)
			if r := m.rank(terms, at, n); r != noMatch {
				first.add(hit{r, id, n.uid})
			}
		}
	}
	for _, h := range first.sorted() {
		n := m.nodes.at(h.id)
		if n.flags&present == 0 || n.uid != h.uid {
			continue // removed during the search
		}
		if len(f.Matches) == limit {
			f.More = true
			break
		}
		f.Matches = append(f.Matches, m.relative(h.id))
	}
	return f
}

// term is a word of a search.
type term struct {
	// in is what precedes the slash: part of the resource or the namespace.
	in      string
	slashed bool
	text    string
	label   bool // text is key=value
	// packed is the beginning of a packed UUID; empty if the word is none.
	packed string
	uid    uid.UID // empty if the word is no uid
}

func parseTerms(text string) (terms []term) {
	for _, word := range strings.Fields(text) {
		t := term{text: word}
		switch i := strings.LastIndexByte(word, '/'); {
		case strings.Contains(word, "="):
			t.label = true
		case i >= 0:
			t.in, t.text, t.slashed = strings.ToLower(word[:i]), word[i+1:], true
		default:
			t.uid, _ = uid.Parse(word)
			t.packed = packedPrefix(word)
		}
		terms = append(terms, t)
	}
	return terms
}

// shortestUID is the length from which on a word is compared with the beginnings of uids.
const shortestUID = 4

// packedPrefix returns the packed form of the beginning of a UUID: of its complete bytes.
func packedPrefix(word string) string {
	if len(word) < shortestUID {
		return ""
	}
	packed := []byte{0x01}
	high := -1
	for i, c := range []byte(strings.ToLower(word)) {
		var d int
		switch {
		case c >= '0' && c <= '9':
			d = int(c - '0')
		case c >= 'a' && c <= 'f':
			d = int(c-'a') + 10
		case c == '-' && (i == 8 || i == 13 || i == 18 || i == 23):
			continue
		default:
			return ""
		}
		if high < 0 {
			high = d
		} else {
			packed, high = append(packed, byte(high<<4|d)), -1
		}
	}
	return string(packed)
}

// placeTerm says what a place means for a word.
type placeTerm struct{ matches bool }

// matchPlace finds out what a place means for each word, and reports whether objects in it can match all of them.
func (m *Mirror) matchPlace(terms []term, at []placeTerm, p uint32) bool {
	key := m.names.places[p].placeKey
	resource, namespace := m.names.kinds[key.kind].resource(), m.names.spaces[key.namespace].name
	for i, t := range terms {
		has := func(s string) bool { return strings.Contains(resource, s) || strings.Contains(namespace, s) }
		if !t.slashed {
			at[i].matches = !t.label && has(strings.ToLower(t.text))
			continue
		}
		in := true
		for _, s := range strings.Split(t.in, "/") {
			in = in && has(s)
		}
		if !in {
			return false
		}
		at[i].matches = t.text == ""
	}
	return true
}

// rank returns how well an object matches: the best of the words, or noMatch if one of them does not match.
func (m *Mirror) rank(terms []term, at []placeTerm, n *node) int {
	best := noMatch
	for i := range terms {
		t := &terms[i]
		r := noMatch
		switch {
		case t.label:
			if labelled(m.names.labels.entries[n.labels].text, t.text) {
				r = placeOnly
			}
		case t.text == "":
			r = placeOnly
		case strings.HasPrefix(n.name, t.text):
			if r = prefix; len(n.name) == len(t.text) {
				r = exact
			}
		case t.uid != "" && n.uid == t.uid:
			r = exact
		case t.packed != "" && strings.HasPrefix(string(n.uid), t.packed) && strings.HasPrefix(n.uid.String(), strings.ToLower(t.text)):
			r = prefix
		case strings.Contains(n.name, t.text):
			r = part
		case at[i].matches:
			r = placeOnly
		}
		if r == noMatch {
			return noMatch
		}
		best = min(best, r)
	}
	return best
}
