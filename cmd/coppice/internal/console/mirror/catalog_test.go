package mirror

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// checkCatalog compares what the catalog counts with the objects and references that the mirror has.
func (m *Mirror) checkCatalog(t *rapid.T) {
	t.Helper()
	c := &m.names.catalog
	ofPlace, ofKind, ofContainer := map[uint32]int{}, map[uint32]int{}, map[*container]int{}
	for id := uint32(1); id <= m.nodes.last; id++ {
		n := m.nodes.at(id)
		if n.uid == "" {
			continue
		}
		if n.place != 0 {
			ofPlace[n.place]++
		}
		if n.flags&present != 0 {
			if in := m.standsFor(n); in != nil {
				ofContainer[in]++
			}
		}
		for eid := n.owners; eid != 0; eid = m.edges.at(eid).next {
			ofKind[m.edges.at(eid).kind]++
		}
	}
	for key, id := range c.placeOf {
		p := &c.places[id]
		if p.placeKey != key || p.uses != ofPlace[id] || p.uses == 0 {
			t.Fatalf("place %d has %d uses, want %d", id, p.uses, ofPlace[id])
		}
		ofKind[key.kind]++
		for i, in := range c.containers(p) {
			ofContainer[in]++
			if in.places[p.at[i]] != id {
				t.Fatalf("place %d is not where it should be in %q", id, in.name)
			}
		}
	}
	for key, id := range c.kindOf {
		k := &c.kinds[id]
		if k.kindKey != key || k.uses != ofKind[id] || k.uses == 0 {
			t.Fatalf("kind %v has %d uses, want %d", key, k.uses, ofKind[id])
		}
		ofContainer[k.in]++
	}
	delete(ofContainer, nil)
	for name, id := range c.spaceOf {
		in := c.spaces[id]
		if in.name != name || in.uses != ofContainer[in] || in.uses == 0 {
			t.Fatalf("namespace %q has %d uses, want %d", name, in.uses, ofContainer[in])
		}
		delete(ofContainer, in)
	}
	for name, in := range c.resourceOf {
		if in.name != name || in.uses != ofContainer[in] || in.uses == 0 {
			t.Fatalf("resource %q has %d uses, want %d", name, in.uses, ofContainer[in])
		}
		delete(ofContainer, in)
	}
	if len(ofContainer) > 0 || len(ofPlace) != len(c.placeOf) {
		t.Fatalf("the catalog lacks %d of namespaces and resources, or some of %d places", len(ofContainer), len(ofPlace))
	}
}

// A mirror keeps nothing of namespaces, kinds and places without objects and references, and a search does not walk them.
func TestForgets(t *testing.T) {
	t.Parallel()
	m := New(time.Now)
	m.Apply(Change{Op: Synced})
	for i := range 1000 {
		namespace := putOf(ownerUID, "namespaces", "Namespace", "", fmt.Sprint("ns-", i), uint64(i+1), nil)
		o := putOf(dependentUID, fmt.Sprint("things-", i), "Thing", namespace.Object.GetMetadata().GetName(), "a", uint64(i+1), namespace.Object)
		o.Object.Kind = fmt.Sprint("Thing", i)
		o.Object.Metadata.OwnerReferences[0].Kind = fmt.Sprint("Owner", i)
		m.Apply(namespace, o)
		if found := m.Search(fmt.Sprintf("ns-%d/a", i), 9); len(found.Matches) != 1 {
			t.Fatalf("found %+v", found)
		}
		if i%2 == 0 {
			m.Apply(Change{Op: Restart}, Change{Op: Synced})
			continue
		}
		namespace.Op, o.Op = Remove, Remove
		m.Apply(namespace, o)
	}
	c := &m.names.catalog
	if len(c.placeOf)+len(c.kindOf)+len(c.spaceOf)+len(c.resourceOf)+len(m.index) != 0 {
		t.Errorf("places %v, kinds %v, namespaces %v, resources %v", c.placeOf, c.kindOf, c.spaceOf, c.resourceOf)
	}
	if len(c.places) > 4 || len(c.kinds) > 5 || len(c.spaces) > 4 {
		t.Errorf("room for %d places, %d kinds, %d namespaces", len(c.places), len(c.kinds), len(c.spaces))
	}
}
