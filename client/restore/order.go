package restore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
)

// Levels of what must exist before everything else.
const (
	levelKinds = iota
	levelNamespaces
	levelOthers
)

// order sorts the objects: kinds, namespaces, and then owners and used objects first. It lists
// the uids that the objects mention elsewhere.
func (b *builder) order() {
	b.levels()
	slices.SortStableFunc(b.plan.Objects, func(x, y *Item) int {
		p, q := x.Object.GetMetadata(), y.Object.GetMetadata()
		return cmp.Or(cmp.Compare(x.level, y.level), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(p.GetNamespace(), q.GetNamespace()), cmp.Compare(p.GetName(), q.GetName()))
	})
	for _, i := range b.plan.Objects {
		m := i.Object.GetMetadata()
		for _, path := range b.mentions(i.Object) {
			b.note(Note{Resource: i.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}, "%s, and is not changed", path)
		}
	}
}

// levels sets the level of each object: one more than that of its highest owner. References that
// close a cycle do not count.
func (b *builder) levels() {
	byNew := make(map[string]*Item, len(b.plan.Objects))
	for _, i := range b.plan.Objects {
		byNew[i.Object.GetMetadata().GetUid()] = i
	}
	above := func(i *Item) (list []*Item) {
		for _, r := range i.Object.GetMetadata().GetOwnerReferences() {
			if o := byNew[r.GetUid()]; o != nil {
				list = append(list, o)
			}
		}
		for _, u := range i.Object.GetMetadata().GetUses() {
			if o := byNew[u.GetUid()]; o != nil && u.GetUid() != "" {
				list = append(list, o)
			}
		}
		return list
	}
	type frame struct {
		item *Item
		rest []*Item
	}
	const visiting = -1
	for _, i := range b.plan.Objects {
		i.level = 0
	}
	begun := map[*Item]bool{}
	for _, first := range b.plan.Objects {
		if begun[first] {
			continue
		}
		begun[first] = true
		first.level = visiting
		stack := []frame{{first, above(first)}}
		for len(stack) > 0 { // without recursion: a chain may have many objects
			f := &stack[len(stack)-1]
			if len(f.rest) == 0 {
				level := floorOf(f.item)
				for _, o := range above(f.item) {
					level = max(level, o.level+1)
				}
				f.item.level = level
				stack = stack[:len(stack)-1]
				continue
			}
			o := f.rest[0]
			f.rest = f.rest[1:]
			if !begun[o] {
				begun[o] = true
				o.level = visiting
				stack = append(stack, frame{o, above(o)})
			}
		}
	}
}

// floorOf returns the lowest level of an object.
func floorOf(i *Item) int {
	switch i.Resource {
	case client.KindsResource.String():
		return levelKinds
	case "namespaces":
		return levelNamespaces
	}
	return levelOthers
}

// mentions says where an object mentions the uid of a restored object, other than in its references.
func (b *builder) mentions(o *client.Object) (found []string) {
	add := func(path, text string) {
		if m := b.Cascade.Member(text); m != nil && b.plan.newUID[text] != "" {
			found = append(found, fmt.Sprintf("%s has the old uid of %s, which is now %s", path, m, b.plan.newUID[text]))
		}
	}
	for _, part := range []struct {
		path string
		json []byte
	}{{"spec", o.GetSpec()}, {"status", o.GetStatus()}, {"", o.GetExtra()}} {
		if len(part.json) == 0 || !bytes.Contains(part.json, []byte{'"'}) {
			continue
		}
		var v any
		if json.Unmarshal(part.json, &v) == nil {
			walk(part.path, v, add)
		}
	}
	m := o.GetMetadata()
	for _, k := range slices.Sorted(maps.Keys(m.GetAnnotations())) {
		add("metadata.annotations["+k+"]", m.GetAnnotations()[k])
	}
	for _, k := range slices.Sorted(maps.Keys(m.GetLabels())) {
		add("metadata.labels["+k+"]", m.GetLabels()[k])
	}
	return found
}

// walk calls add with each string of a JSON value, and its path.
func walk(path string, v any, add func(path, text string)) {
	switch v := v.(type) {
	case string:
		add(path, v)
	case []any:
		for i, e := range v {
			walk(fmt.Sprintf("%s[%d]", path, i), e, add)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			walk(strings.TrimPrefix(path+"."+k, "."), v[k], add)
		}
	}
}
