package mirror

import (
	"strings"

	"github.com/coppice-gc/coppice/client/api"
)

// catalog has the kinds and namespaces of objects, and which objects are in each. A place is used by the objects, present or
// absent, that are in it; a kind by its places and by the owner references that name it; a namespace by its places and by
// the Namespace objects of its name; a resource by its kinds and places, and by the registrations of its name.
type catalog struct {
	kinds      []kind
	kindOf     map[kindKey]uint32
	freeKinds  []uint32
	spaces     []*container // namespaces, the empty one among them
	spaceOf    map[string]uint32
	freeSpaces []uint32
	resourceOf map[string]*container
	places     []place
	placeOf    map[placeKey]uint32
	freePlaces []uint32
}

type kindKey struct{ group, kind string }

// kind is a kind of objects, or one that owner references name.
type kind struct {
	kindKey
	// in has the objects of the resource; nil if no object of the kind has been seen.
	in *container
	// namespaced: an object of the kind is in a namespace.
	namespaced bool
	uses       int
}

// resource names the plural and the group. Of a kind without objects, whose plural is not known, it names the kind and the
// group as references do, such as Widget.example.com.
func (k *kind) resource() string {
	switch {
	case k.in != nil:
		return k.in.name
	case k.group == "":
		return k.kind
	}
	return k.kind + "." + k.group
}

// container is what a Namespace object or the registration of a kind stands for.
type container struct {
	name string // of the namespace or resource
	// number is that of the namespace; 0 for a resource.
	number uint32
	places []uint32
	// protected counts the protected objects in it.
	protected uint32
	// drain is the object that is being deleted with the contents; 0 if there is none.
	drain uint32
	uses  int
}

type placeKey struct {
	kind, namespace uint32
	of              *container // the resource
}

// place has the objects of one kind in one namespace.
type place struct {
	placeKey
	members []uint32
	// at is where the place is among those of its namespace and of its resource.
	at   [2]int
	uses int
}

func (t *catalog) init() {
	t.kinds, t.kindOf = make([]kind, 1), map[kindKey]uint32{}
	t.spaces, t.spaceOf = []*container{{}}, map[string]uint32{}
	t.resourceOf = map[string]*container{}
	t.places, t.placeOf = make([]place, 1), map[placeKey]uint32{}
}

// slot returns the number of a free value of a list, or of a new one.
func slot[T any](list *[]T, free *[]uint32) uint32 {
	if n := len(*free); n > 0 {
		id := (*free)[n-1]
		*free = (*free)[:n-1]
		return id
	}
	var zero T
	*list = append(*list, zero)
	return uint32(len(*list) - 1)
}

// takeKind returns the number of a kind, and counts the use.
func (t *catalog) takeKind(apiVersion, name string) uint32 {
	key := kindKey{api.GroupOf(apiVersion), name}
	id, known := t.kindOf[key]
	if !known {
		key = kindKey{strings.Clone(key.group), strings.Clone(key.kind)}
		id = slot(&t.kinds, &t.freeKinds)
		t.kinds[id].kindKey, t.kindOf[key] = key, id
	}
	t.kinds[id].uses++
	return id
}

// releaseKind ends a use.
func (t *catalog) releaseKind(id uint32) {
	k := &t.kinds[id]
	if k.uses--; k.uses == 0 {
		delete(t.kindOf, k.kindKey)
		t.release(k.in)
		*k = kind{}
		t.freeKinds = append(t.freeKinds, id)
	}
}

// takeSpace returns a namespace, and counts the use. release ends it.
func (t *catalog) takeSpace(name string) *container {
	id, known := t.spaceOf[name]
	if !known {
		name = strings.Clone(name)
		id = slot(&t.spaces, &t.freeSpaces)
		t.spaces[id], t.spaceOf[name] = &container{name: name, number: id}, id
	}
	t.spaces[id].uses++
	return t.spaces[id]
}

// takeResource returns what the registration of a kind stands for, and counts the use. release ends it.
func (t *catalog) takeResource(name string) *container {
	c := t.resourceOf[name]
	if c == nil {
		c = &container{name: strings.Clone(name)}
		t.resourceOf[c.name] = c
	}
	c.uses++
	return c
}

// release ends a use of a namespace or resource; of none if c is nil.
func (t *catalog) release(c *container) {
	if c == nil {
		return
	}
	if c.uses--; c.uses > 0 {
		return
	}
	if c.number == 0 {
		delete(t.resourceOf, c.name)
		return
	}
	delete(t.spaceOf, c.name)
	t.spaces[c.number] = nil
	t.freeSpaces = append(t.freeSpaces, c.number)
}

// containers returns the namespace and the resource of a place.
func (t *catalog) containers(p *place) [2]*container {
	return [2]*container{t.spaces[p.namespace], p.of}
}

// takePlace returns the number of a place, and counts the use.
func (t *catalog) takePlace(resource, apiVersion, kindName, namespace string) uint32 {
	key := placeKey{t.takeKind(apiVersion, kindName), t.takeSpace(namespace).number, t.takeResource(resource)}
	k := &t.kinds[key.kind]
	if k.in != key.of {
		t.release(k.in)
		k.in = t.takeResource(resource)
	}
	id, known := t.placeOf[key]
	if known { // it has uses of its own
		t.releaseKey(key)
	} else {
		id = slot(&t.places, &t.freePlaces)
		p := &t.places[id]
		p.placeKey, t.placeOf[key] = key, id
		for i, in := range t.containers(p) {
			p.at[i] = len(in.places)
			in.places = append(in.places, id)
		}
		k.namespaced = k.namespaced || namespace != ""
	}
	t.places[id].uses++
	return id
}

// releasePlace ends a use; of none if id is 0.
func (t *catalog) releasePlace(id uint32) {
	if id == 0 {
		return
	}
	p := &t.places[id]
	if p.uses--; p.uses > 0 {
		return
	}
	for i, in := range t.containers(p) {
		last := len(in.places) - 1
		in.places[p.at[i]] = in.places[last]
		t.places[in.places[last]].at[i] = p.at[i]
		in.places = in.places[:last]
	}
	key := p.placeKey
	delete(t.placeOf, key)
	*p = place{}
	t.freePlaces = append(t.freePlaces, id)
	t.releaseKey(key)
}

// releaseKey ends the uses of what a place consists of.
func (t *catalog) releaseKey(key placeKey) {
	t.release(t.spaces[key.namespace])
	t.release(key.of)
	t.releaseKind(key.kind)
}

// standsFor returns what an object of a kind with a name stands for: the namespace of a Namespace object, the resource of the
// registration of a kind; nil if it is neither. An object that is present has used it since takeStandsFor.
func (t *catalog) standsFor(k uint32, name string) *container {
	switch t.kinds[k].kindKey {
	case kindKey{"", "Namespace"}:
		if id, known := t.spaceOf[name]; known {
			return t.spaces[id]
		}
	case registration:
		return t.resourceOf[name]
	}
	return nil
}

// takeStandsFor counts the use of what an object stands for, if it does. release ends it.
func (t *catalog) takeStandsFor(k uint32, name string) {
	switch t.kinds[k].kindKey {
	case kindKey{"", "Namespace"}:
		t.takeSpace(name)
	case registration:
		t.takeResource(name)
	}
}
