package tree

import (
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/restore"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
)

// maxAlike is the number of objects of one kind below one owner, with nothing below them, that are
// shown. More are counted.
const maxAlike = 5

// Restoration returns the trees of a plan: each restored object below the first of its owners that
// is restored, too, and each survivor below the owner of the first reference that it gets back.
// Many objects of one kind are counted, unless all is true.
func Restoration(p *restore.Plan, all bool) []*Branch {
	branches := map[string]*Branch{}
	var roots []*Branch
	place := func(b *Branch, refs []*client.OwnerReference) {
		for _, r := range refs {
			if owner := branches[r.GetUid()]; owner != nil && owner != b {
				owner.below = append(owner.below, b)
				return
			}
		}
		roots = append(roots, b)
	}
	for _, i := range p.Objects {
		m := i.Object.GetMetadata()
		b := &Branch{key: terminal.WithNamespace(i.Resource+"/"+m.GetName(), m.GetNamespace()), notes: []string{"created again"}}
		if f := m.GetFinalizers(); len(f) > 0 {
			b.notes[0] += " with " + strings.Join(f, ", ")
		}
		place(b, m.GetOwnerReferences()) // owners come first, so that a cycle is not followed
		branches[m.GetUid()] = b
	}
	for _, s := range p.Survivors {
		m := s.Object.GetMetadata()
		var back []string
		for _, r := range s.Back {
			back = append(back, r.GetKind()+"/"+r.GetName())
		}
		place(&Branch{key: terminal.WithNamespace(s.Resource+"/"+m.GetName(), m.GetNamespace()), notes: []string{"gets back " + strings.Join(back, ", ")}}, s.Back)
	}
	if !all {
		roots = few(roots)
		for _, b := range branches {
			b.below = few(b.below)
		}
	}
	return roots
}

// few replaces branches of one resource without branches below them by their number, if there are many.
func few(list []*Branch) []*Branch {
	alike := func(b *Branch) string {
		if len(b.below) > 0 {
			return ""
		}
		resource, _, _ := strings.Cut(b.key, "/")
		return resource + " " + strings.Join(b.notes, ", ")
	}
	count := map[string]int{}
	for _, b := range list {
		count[alike(b)]++
	}
	var rest []*Branch
	counted := map[string]bool{}
	for _, b := range list {
		what := alike(b)
		switch {
		case what == "" || count[what] <= maxAlike:
			rest = append(rest, b)
		case !counted[what]:
			counted[what] = true
			resource, _, _ := strings.Cut(b.key, "/")
			rest = append(rest, &Branch{key: terminal.Count(count[what], "object") + " of " + resource, notes: b.notes})
		}
	}
	return rest
}
