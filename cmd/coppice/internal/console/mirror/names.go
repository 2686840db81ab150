package mirror

import (
	"maps"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// names has one copy of what many objects have in common. Objects refer to it by number, from 1 on. Nothing of it stays when
// its last use ends.
type names struct {
	catalog
	finalizers []finalizerList // by the numbers of lists
	lists      texts
	labels     texts
}

// finalizerList is a list of finalizers that objects have.
type finalizerList struct {
	external                            []string
	orphan, foreground, contents, inUse bool
}

func (t *names) init() {
	t.catalog.init()
	t.finalizers = make([]finalizerList, 1)
	t.lists.init()
	t.labels.init()
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
