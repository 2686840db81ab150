package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// branch is an object in a drawing, and what hangs on it.
type branch struct {
	key   string
	notes []string
	// ending is why the object is being deleted and still there; empty if it
	// is not.
	ending string
	below  []*branch
}

// drawing makes branches of a family.
type drawing struct {
	family   *family
	ownerKey func(*coppicev1.OwnerReference) string
	class    func(*coppicev1.GraphOwner) string
	held     func(*coppicev1.GraphNode) string
	all      bool
	shown    map[string]bool // by uid
	depth    int
}

// maxDepth is how deep a drawing goes. Nobody reads a chain of thousands.
const maxDepth = 100

func keyOfNode(n *coppicev1.GraphNode) string {
	return n.GetResource() + "/" + n.GetObject().GetMetadata().GetName()
}

// branch is an object without what hangs on it. again is true if it is in the
// drawing already.
func (d *drawing) branch(n, from *coppicev1.GraphNode) (b *branch, again bool) {
	b = &branch{key: keyOfNode(n)}
	ns := n.GetObject().GetMetadata().GetNamespace()
	if from != nil && ns != from.GetObject().GetMetadata().GetNamespace() {
		b.key = withNamespace(b.key, ns)
	}
	if d.shown[uidOf(n)] {
		b.notes = []string{"(shown above)"}
		return b, true
	}
	d.shown[uidOf(n)] = true
	if n.GetObject().GetMetadata().GetDeletionTimestamp() != nil {
		b.ending = "Terminating" + prefixed(": ", d.held(n))
	}
	return b, false
}

// down draws an object and what depends on it. from is the owner above it in
// the drawing, nil for the first.
func (d *drawing) down(n, from *coppicev1.GraphNode) *branch {
	b, again := d.branch(n, from)
	if again {
		return b
	}
	groups, rest := d.dependents(n)
	for _, g := range groups {
		for _, m := range g {
			d.shown[uidOf(m)] = true
		}
	}
	if said := counted(groups); said != "" {
		b.notes = append(b.notes, said)
	}
	b.notes = append(b.notes, d.otherOwners(n, from)...)
	if d.depth++; d.depth > maxDepth && len(rest) > 0 {
		b.below = append(b.below, &branch{key: "… " + count(len(rest), "dependent") + ", and what is below"})
		rest = nil
	}
	for _, m := range rest {
		b.below = append(b.below, d.down(m, n))
	}
	d.depth--
	if known := len(d.family.below[uidOf(n)]); uint64(known) < n.GetDependents() {
		b.below = append(b.below, &branch{key: fmt.Sprintf("… %d more", n.GetDependents()-uint64(known))})
	}
	return b
}

// dependents are those of an object: those that are only counted, by resource,
// and the others, those with dependents of their own first.
func (d *drawing) dependents(n *coppicev1.GraphNode) (groups [][]*coppicev1.GraphNode, rest []*coppicev1.GraphNode) {
	plain := map[string][]*coppicev1.GraphNode{}
	for _, uid := range d.family.below[uidOf(n)] {
		m := d.family.nodes[uid]
		if d.plain(m) {
			plain[m.GetResource()] = append(plain[m.GetResource()], m)
		} else {
			rest = append(rest, m)
		}
	}
	for _, group := range plain {
		if len(group) > 1 {
			groups = append(groups, group)
		} else {
			rest = append(rest, group...)
		}
	}
	slices.SortFunc(groups, func(a, b []*coppicev1.GraphNode) int {
		return cmp.Compare(a[0].GetResource(), b[0].GetResource())
	})
	slices.SortFunc(rest, func(a, b *coppicev1.GraphNode) int {
		leaf := func(n *coppicev1.GraphNode) int { return int(min(n.GetDependents(), 1)) }
		return cmp.Or(leaf(b)-leaf(a), cmp.Compare(keyOfNode(a), keyOfNode(b)),
			cmp.Compare(a.GetObject().GetMetadata().GetNamespace(), b.GetObject().GetMetadata().GetNamespace()))
	})
	return groups, rest
}

// plain reports whether there is nothing to say of a dependent but that it is
// there.
func (d *drawing) plain(n *coppicev1.GraphNode) bool {
	return !d.all && n.GetDependents() == 0 && len(n.GetOwners()) == 1 &&
		n.GetObject().GetMetadata().GetDeletionTimestamp() == nil && !d.shown[uidOf(n)]
}

// counted says how many of each kind there are: "2 pods, 3 configmaps".
func counted(groups [][]*coppicev1.GraphNode) string {
	var said []string
	for _, g := range groups {
		said = append(said, fmt.Sprintf("%d %s", len(g), g[0].GetResource()))
	}
	return strings.Join(said, ", ")
}

// otherOwners says who owns an object alongside the one above it in the drawing,
// and which of its owners are not there.
func (d *drawing) otherOwners(n, from *coppicev1.GraphNode) []string {
	var owners, notes []string
	for i, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
		class := n.GetOwners()[i]
		switch {
		case from != nil && r.GetUid() == uidOf(from) && present(class.GetClass()):
		case present(class.GetClass()):
			owners = append(owners, d.ownerKey(r))
		default:
			notes = append(notes, "refers to "+d.ownerKey(r)+", "+d.class(class))
		}
	}
	if len(owners) > 0 {
		also := "also owned by "
		if from == nil {
			also = "owned by "
		}
		notes = slices.Insert(notes, 0, also+short(owners, 3))
	}
	return notes
}

// up draws an object and its owners.
func (d *drawing) up(n *coppicev1.GraphNode) *branch {
	b, again := d.branch(n, nil)
	if again {
		return b
	}
	owners := n.GetObject().GetMetadata().GetOwnerReferences()
	if d.depth++; d.depth > maxDepth && len(owners) > 0 {
		b.below = append(b.below, &branch{key: "… " + count(len(owners), "owner") + ", and what is above"})
		owners = nil
	}
	for i, r := range owners {
		class := n.GetOwners()[i]
		owner := d.family.nodes[r.GetUid()]
		if owner == nil || !present(class.GetClass()) {
			b.below = append(b.below, &branch{key: d.ownerKey(r), notes: []string{d.class(class)}})
			continue
		}
		above := d.up(owner)
		if r.GetController() && len(n.GetOwners()) > 1 {
			above.notes = append(above.notes, "controller")
		}
		b.below = append(b.below, above)
	}
	d.depth--
	return b
}

// write draws the branch with lines.
func (b *branch) write(w io.Writer, i ink) error {
	var out strings.Builder
	b.line(&out, i)
	b.writeBelow(&out, "", i)
	_, err := io.WriteString(w, out.String())
	return err
}

func (b *branch) line(out *strings.Builder, i ink) {
	parts := []string{printable(b.key)}
	for _, n := range b.notes {
		parts = append(parts, i.dim(printable(n)))
	}
	if b.ending != "" {
		parts = append(parts, i.yellow(printable(b.ending)))
	}
	out.WriteString(strings.Join(parts, "  ") + "\n")
}

func (b *branch) writeBelow(out *strings.Builder, indent string, i ink) {
	for at, c := range b.below {
		fork, next := "├─ ", "│  "
		if at == len(b.below)-1 {
			fork, next = "└─ ", "   "
		}
		out.WriteString(indent + fork)
		c.line(out, i)
		c.writeBelow(out, indent+next, i)
	}
}
