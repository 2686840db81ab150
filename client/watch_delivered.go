package client

import (
	"iter"
	"strings"
	"unique"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// maxDelivered is how many objects a watch remembers once all were delivered.
const maxDelivered = 1 << 20

// delivered is what a watch has delivered: the objects that the caller has.
type delivered struct {
	objects map[string]object // by namespace and name
	reading uint32            // counts the times that all objects are read
}

// object is what is remembered of one.
type object struct {
	uid      uid.UID
	revision uint64
	kind     unique.Handle[typeMeta]
	seen     uint32 // the reading in which it was found last
}

type typeMeta struct{ apiVersion, kind string }

func newDelivered() *delivered { return &delivered{objects: map[string]object{}} }

// tooMany reports whether there are more objects than are remembered for long.
func (d *delivered) tooMany() bool { return d != nil && len(d.objects) > maxDelivered }

// begin begins to read all objects.
func (d *delivered) begin() { d.reading++ }

// unseen iterates over the objects that were not found since begin. They may be
// deleted meanwhile.
func (d *delivered) unseen() iter.Seq2[string, object] {
	return func(yield func(string, object) bool) {
		for key, o := range d.objects {
			if o.seen != d.reading && !yield(key, o) {
				return
			}
		}
	}
}

// apply returns what an event means to a caller who has what was delivered: nothing,
// if it has that or something later; first the deletion of an object whose name
// another has now.
func (d *delivered) apply(e WatchEvent) []WatchEvent {
	m := e.Object.GetMetadata()
	key := m.GetNamespace() + "/" + m.GetName()
	u, _ := uid.Parse(m.GetUid())
	was, had := d.objects[key]
	same := had && was.uid == u
	if had && was.revision >= e.Revision {
		if same {
			was.seen = d.reading
			d.objects[key] = was
		}
		return nil
	}
	if e.Type == coppicev1.WatchEvent_TYPE_DELETED {
		if !same {
			return nil // the caller does not have it any more, or never had it
		}
		delete(d.objects, key)
		return []WatchEvent{e}
	}
	d.objects[key] = object{
		uid: u, revision: e.Revision, seen: d.reading,
		kind: unique.Make(typeMeta{e.Object.GetApiVersion(), e.Object.GetKind()}),
	}
	switch {
	case same:
		e.Type = coppicev1.WatchEvent_TYPE_MODIFIED
	case had:
		e.Type = coppicev1.WatchEvent_TYPE_ADDED
		return []WatchEvent{was.gone(key, e.Revision), e}
	default:
		e.Type = coppicev1.WatchEvent_TYPE_ADDED
	}
	return []WatchEvent{e}
}

// gone is the deletion of an object of which no more is known than that it is gone at
// a revision.
func (o object) gone(key string, revision uint64) WatchEvent {
	namespace, name, _ := strings.Cut(key, "/")
	kind := o.kind.Value()
	return WatchEvent{
		Type: coppicev1.WatchEvent_TYPE_DELETED, Revision: revision,
		Object: &coppicev1.Object{ApiVersion: kind.apiVersion, Kind: kind.kind, Metadata: &coppicev1.ObjectMeta{
			Namespace: namespace, Name: name, Uid: o.uid.String(), ResourceVersion: revision,
		}},
	}
}
