package tree

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// Branch is an object in a drawing, with the branches below it.
type Branch struct {
	key   string
	notes []string
	// ending says what blocks a terminating object; empty if the object is not
	// terminating.
	ending string
	below  []*Branch
}

// Drawing draws the objects of a family.
type Drawing struct {
	Family    *Family
	OwnerKey  func(*coppicev1.OwnerReference) string
	Class     func(*coppicev1.GraphOwner) string
	BlockedBy func(*coppicev1.GraphNode) string
	All       bool
	Uses      bool            // say what each object uses
	Shown     map[string]bool // by uid
	depth     int
}

// maxDepth is how deep a drawing goes: a chain of thousands is not readable.
const maxDepth = 100

// KeyOfNode returns the key of an object: "pods/web-1".
func KeyOfNode(n *coppicev1.GraphNode) string {
	return n.GetResource() + "/" + n.GetObject().GetMetadata().GetName()
}

// branch returns an object without the branches below it. again is true if the
// drawing has the object already.
func (d *Drawing) branch(n, from *coppicev1.GraphNode) (b *Branch, again bool) {
	b = &Branch{key: KeyOfNode(n)}
	ns := n.GetObject().GetMetadata().GetNamespace()
	if from != nil && ns != from.GetObject().GetMetadata().GetNamespace() {
		b.key = terminal.WithNamespace(b.key, ns)
	}
	if d.Shown[UIDOf(n)] {
		b.notes = []string{"(shown above)"}
		return b, true
	}
	d.Shown[UIDOf(n)] = true
	if used := d.uses(n); len(used) > 0 {
		b.notes = []string{"uses " + terminal.Short(used, 3)}
	}
	if n.GetObject().GetMetadata().GetDeletionTimestamp() != nil {
		b.ending = "Terminating" + terminal.Prefixed(": ", d.BlockedBy(n))
	}
	return b, false
}

// Down draws an object and what depends on it. from is the owner above it in
// the drawing, nil for the first.
func (d *Drawing) Down(n, from *coppicev1.GraphNode) *Branch {
	b, again := d.branch(n, from)
	if again {
		return b
	}
	groups, rest := d.dependents(n)
	for _, g := range groups {
		for _, m := range g {
			d.Shown[UIDOf(m)] = true
		}
	}
	if said := counted(groups); said != "" {
		b.notes = append(b.notes, said)
	}
	b.notes = append(b.notes, d.otherOwners(n, from)...)
	if d.depth++; d.depth > maxDepth && len(rest) > 0 {
		b.below = append(b.below, &Branch{key: "… " + terminal.Count(len(rest), "dependent") + ", and what is below"})
		rest = nil
	}
	for _, m := range rest {
		b.below = append(b.below, d.Down(m, n))
	}
	d.depth--
	if known := len(d.Family.Below[UIDOf(n)]); uint64(known) < n.GetDependents() {
		b.below = append(b.below, &Branch{key: fmt.Sprintf("… %d more", n.GetDependents()-uint64(known))})
	}
	return b
}

// dependents returns the dependents of an object: those that are only counted, by
// resource, and the others, those with dependents of their own first.
func (d *Drawing) dependents(n *coppicev1.GraphNode) (groups [][]*coppicev1.GraphNode, rest []*coppicev1.GraphNode) {
	plain := map[string][]*coppicev1.GraphNode{}
	for _, uid := range d.Family.Below[UIDOf(n)] {
		m := d.Family.Nodes[uid]
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
		return cmp.Or(leaf(b)-leaf(a), cmp.Compare(KeyOfNode(a), KeyOfNode(b)),
			cmp.Compare(a.GetObject().GetMetadata().GetNamespace(), b.GetObject().GetMetadata().GetNamespace()))
	})
	return groups, rest
}

// plain reports whether a dependent has nothing worth showing but its existence.
func (d *Drawing) plain(n *coppicev1.GraphNode) bool {
	return !d.All && n.GetDependents() == 0 && len(n.GetOwners()) == 1 &&
		n.GetObject().GetMetadata().GetDeletionTimestamp() == nil && !d.Shown[UIDOf(n)] && len(d.uses(n)) == 0
}

// uses names what an object uses, if the drawing shows that. What does not exist is unresolved.
func (d *Drawing) uses(n *coppicev1.GraphNode) (used []string) {
	if !d.Uses {
		return nil
	}
	for _, u := range n.GetObject().GetMetadata().GetUses() {
		name := d.OwnerKey(&coppicev1.OwnerReference{ApiVersion: u.GetGroup() + "/", Kind: u.GetKind(), Name: u.GetName()})
		name = terminal.WithNamespace(name, u.GetNamespace())
		if u.GetUid() == "" {
			name += " (unresolved)"
		}
		used = append(used, name)
	}
	return used
}

// counted counts objects by kind: "2 pods, 3 configmaps".
func counted(groups [][]*coppicev1.GraphNode) string {
	var said []string
	for _, g := range groups {
		said = append(said, fmt.Sprintf("%d %s", len(g), g[0].GetResource()))
	}
	return strings.Join(said, ", ")
}

// otherOwners names the owners of an object other than the one above it in the
// drawing, and its owners that do not exist.
func (d *Drawing) otherOwners(n, from *coppicev1.GraphNode) []string {
	var owners, notes []string
	for i, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
		class := n.GetOwners()[i]
		switch {
		case from != nil && r.GetUid() == UIDOf(from) && Present(class.GetClass()):
		case Present(class.GetClass()):
			owners = append(owners, d.OwnerKey(r))
		default:
			notes = append(notes, "refers to "+d.OwnerKey(r)+", "+d.Class(class))
		}
	}
	if len(owners) > 0 {
		also := "also owned by "
		if from == nil {
			also = "owned by "
		}
		notes = slices.Insert(notes, 0, also+terminal.Short(owners, 3))
	}
	return notes
}

// Up draws an object and its owners.
func (d *Drawing) Up(n *coppicev1.GraphNode) *Branch {
	b, again := d.branch(n, nil)
	if again {
		return b
	}
	owners := n.GetObject().GetMetadata().GetOwnerReferences()
	if d.depth++; d.depth > maxDepth && len(owners) > 0 {
		b.below = append(b.below, &Branch{key: "… " + terminal.Count(len(owners), "owner") + ", and what is above"})
		owners = nil
	}
	for i, r := range owners {
		class := n.GetOwners()[i]
		owner := d.Family.Nodes[r.GetUid()]
		if owner == nil || !Present(class.GetClass()) {
			b.below = append(b.below, &Branch{key: d.OwnerKey(r), notes: []string{d.Class(class)}})
			continue
		}
		above := d.Up(owner)
		if r.GetController() && len(n.GetOwners()) > 1 {
			above.notes = append(above.notes, "controller")
		}
		b.below = append(b.below, above)
	}
	d.depth--
	return b
}

// Write draws the branch with lines.
func (b *Branch) Write(w io.Writer, i terminal.Ink) error {
	var out strings.Builder
	b.line(&out, i)
	b.writeBelow(&out, "", i)
	_, err := io.WriteString(w, out.String())
	return err
}

func (b *Branch) line(out *strings.Builder, i terminal.Ink) {
	parts := []string{terminal.Printable(b.key)}
	for _, n := range b.notes {
		parts = append(parts, i.Dim(terminal.Printable(n)))
	}
	if b.ending != "" {
		parts = append(parts, i.Yellow(terminal.Printable(b.ending)))
	}
	out.WriteString(strings.Join(parts, "  ") + "\n")
}

func (b *Branch) writeBelow(out *strings.Builder, indent string, i terminal.Ink) {
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
