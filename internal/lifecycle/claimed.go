package lifecycle

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/uid"
)

// few is up to how many elements a list is searched one by one. Longer lists
// are indexed, so that work on an object is linear in its size: a list in an
// old log may be longer than maxListed.
const few = 8

// ownerKey is what references that are SameOwner have in common.
type ownerKey struct {
	uid               uid.UID
	group, kind, name string
}

func (r *OwnerReference) key() ownerKey { return ownerKey{r.UID, r.Group(), r.Kind, r.Name} }

// EachOwner calls visit for each owner that the references claim, in their
// order: with the first reference to it, and whether one of the references to it
// blocks the owner's deletion.
func EachOwner(refs []OwnerReference, visit func(r *OwnerReference, blocking bool)) {
	if len(refs) > few {
		eachOfMany(refs, visit)
		return
	}
	for i := range refs {
		r := &refs[i]
		if slices.ContainsFunc(refs[:i], func(o OwnerReference) bool { return o.SameOwner(r) }) {
			continue
		}
		visit(r, slices.ContainsFunc(refs[i:], func(o OwnerReference) bool {
			return o.Blocking == True && o.SameOwner(r)
		}))
	}
}

func eachOfMany(refs []OwnerReference, visit func(r *OwnerReference, blocking bool)) {
	first := make(map[ownerKey]int, len(refs))
	blocking := make([]bool, len(refs)) // by the index of the first
	for i := range refs {
		k := refs[i].key()
		at, again := first[k]
		if !again {
			at, first[k] = i, i
		}
		blocking[at] = blocking[at] || refs[i].Blocking == True
	}
	for i := range refs {
		if first[refs[i].key()] == i {
			visit(&refs[i], blocking[i])
		}
	}
}

// ClaimedBy returns a function that reports whether one of the references is
// SameOwner as another.
func ClaimedBy(refs []OwnerReference) func(*OwnerReference) bool {
	if len(refs) <= few {
		return func(r *OwnerReference) bool {
			return slices.ContainsFunc(refs, func(o OwnerReference) bool { return o.SameOwner(r) })
		}
	}
	keys := make(map[ownerKey]struct{}, len(refs))
	for i := range refs {
		keys[refs[i].key()] = struct{}{}
	}
	return func(r *OwnerReference) bool {
		_, ok := keys[r.key()]
		return ok
	}
}

// oneOf returns a function that reports whether a text is in the list.
func oneOf(list []string) func(string) bool {
	if len(list) <= few {
		return func(s string) bool { return slices.Contains(list, s) }
	}
	set := make(map[string]struct{}, len(list))
	for _, s := range list {
		set[s] = struct{}{}
	}
	return func(s string) bool {
		_, ok := set[s]
		return ok
	}
}
