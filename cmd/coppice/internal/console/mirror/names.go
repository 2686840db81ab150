package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// names has one copy of what many objects have in common. Objects refer to it by number, from 1 on. Kinds, namespaces and
// places stay when their last object is removed; labels and lists of finalizers, of which there can be many, do not.
type names struct {
	kinds      []kind
	kindOf     map[kindKey]uint32
	spaces     []*container // namespaces, the empty one among them
	spaceOf    map[string]uint32
	resourceOf map[string]*container
	places     []place
	placeOf    map[placeKey]uint32
	finalizers []finalizerList // by the numbers of lists
	lists      texts
	labels     texts
}

type kindKey struct{ group, kind string }

// kind is a kind of objects, or one that owner references name.
type kind struct {
	kindKey
	// in has the objects of the resource; nil if no object of the kind has been seen.
	in *container
	// namespaced: an object of the kind is in a namespace.
	namespaced bool
}

// resource names the plural and the group. Of a kind without objects it is a guess.
func (k *kind) resource() string {
	switch {
	case k.in != nil:
		return k.in.name
	case k.group == "":
		return strings.ToLower(k.kind)
	}
	return strings.ToLower(k.kind) + "." + k.group
}

// container is what a Namespace object or the registration of a kind stands for.
type container struct {
	name   string // of the namespace or resource
	places []uint32
	// protected counts the protected objects in it.
	protected uint32
	// drain is the object that is being deleted with the contents; 0 if there is none.
	drain uint32
}

type placeKey struct{ kind, namespace uint32 }

// place has the objects of one kind in one namespace.
type place struct {
	placeKey
	members []uint32
}

// finalizerList is a list of finalizers that objects have.
type finalizerList struct {
	external                            []string
	orphan, foreground, contents, inUse bool
}

func (t *names) init() {
	t.kinds, t.kindOf = make([]kind, 1), map[kindKey]uint32{}
	t.spaces, t.spaceOf = []*container{{}}, map[string]uint32{}
	t.resourceOf = map[string]*container{}
	t.places, t.placeOf = make([]place, 1), map[placeKey]uint32{}
	t.finalizers = make([]finalizerList, 1)
	t.lists.init()
	t.labels.init()
}

// kindNumber returns the number of a kind.
func (t *names) kindNumber(apiVersion, name string) uint32 {
	key := kindKey{api.GroupOf(apiVersion), name}
	if id, known := t.kindOf[key]; known {
		return id
	}
	key = kindKey{strings.Clone(key.group), strings.Clone(key.kind)}
	t.kinds = append(t.kinds, kind{kindKey: key})
	t.kindOf[key] = uint32(len(t.kinds) - 1)
	return t.kindOf[key]
}

// placeNumber returns the number of a place.
func (t *names) placeNumber(resource string, k, namespace uint32) uint32 {
	if in := t.kinds[k].in; in == nil || in.name != resource {
		t.kinds[k].in = t.resource(resource)
	}
	key := placeKey{k, namespace}
	if id, known := t.placeOf[key]; known {
		return id
	}
	t.places = append(t.places, place{placeKey: key})
	id := uint32(len(t.places) - 1)
	t.placeOf[key] = id
	for _, in := range []*container{t.kinds[k].in, t.spaces[namespace]} {
		in.places = append(in.places, id)
	}
	if t.spaces[namespace].name != "" {
		t.kinds[k].namespaced = true
	}
	return id
}

// resource returns what the registration of a kind stands for.
func (t *names) resource(name string) *container {
	c := t.resourceOf[name]
	if c == nil {
		c = &container{name: strings.Clone(name)}
		t.resourceOf[c.name] = c
	}
	return c
}

// namespace returns the number of a namespace.
func (t *names) namespace(name string) uint32 {
	if id, known := t.spaceOf[name]; known {
		return id
	}
	name = strings.Clone(name)
	t.spaces = append(t.spaces, &container{name: name})
	t.spaceOf[name] = uint32(len(t.spaces) - 1)
	return t.spaceOf[name]
}

// takeFinalizers returns the number of a list of finalizers, and counts the use; 0 if it is empty. names.lists.release
// ends the use.
func (t *names) takeFinalizers(list []string) uint32 {
	key := strings.Join(list, "\x00")
	id := t.lists.take(key)
	if id == 0 || t.lists.entries[id].uses > 1 {
		return id
	}
	var l finalizerList
	for _, f := range strings.Split(key, "\x00") {
		switch f {
		case lifecycle.FinalizerOrphan:
			l.orphan = true
		case lifecycle.FinalizerForeground:
			l.foreground = true
		case lifecycle.FinalizerContents:
			l.contents = true
		case lifecycle.FinalizerInUse:
			l.inUse = true
		default:
			if !lifecycle.IsBuiltinFinalizer(f) {
				l.external = append(l.external, f)
			}
		}
	}
	if int(id) == len(t.finalizers) {
		t.finalizers = append(t.finalizers, l)
	} else {
		t.finalizers[id] = l
	}
	return id
}

// texts has texts that objects share, with the number of objects that have each.
type texts struct {
	entries []text
	of      map[string]uint32
	free    []uint32
}

type text struct {
	text string
	uses uint32
}

func (t *texts) init() { t.entries, t.of = make([]text, 1), map[string]uint32{} }

// take returns the number of a text and counts the use; 0 for the empty text.
func (t *texts) take(s string) uint32 {
	if s == "" {
		return 0
	}
	id, known := t.of[s]
	if !known {
		if n := len(t.free); n > 0 {
			id, t.free = t.free[n-1], t.free[:n-1]
		} else {
			t.entries = append(t.entries, text{})
			id = uint32(len(t.entries) - 1)
		}
		t.entries[id].text = s
		t.of[s] = id
	}
	t.entries[id].uses++
	return id
}

// release ends a use.
func (t *texts) release(id uint32) {
	if id == 0 {
		return
	}
	e := &t.entries[id]
	if e.uses--; e.uses == 0 {
		delete(t.of, e.text)
		*e = text{}
		t.free = append(t.free, id)
	}
}

// labelText writes labels as one text, in which labelled finds a label.
func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString("\x00" + k + "=" + labels[k])
	}
	b.WriteByte(0)
	return b.String()
}

// labelled reports whether a text of labels has the label "key=value".
func labelled(text, label string) bool { return strings.Contains(text, "\x00"+label+"\x00") }
