package client

import (
	"iter"
	"strings"
	"unique"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// maxDelivered is the number of objects that a watch remembers after all were delivered.
const maxDelivered = 1 << 20

// delivered has the objects that a watch has delivered, and that the caller therefore has.
type delivered struct {
	objects map[string]known // by namespace/name
	reading uint32           // number of times that all objects were read
}

// known is what is remembered of an object.
type known struct {
	uid      uid.UID
	revision uint64
	kind     unique.Handle[typeMeta]
	seen     uint32 // the count of readings when it was last read
}

type typeMeta struct{ apiVersion, kind string }

func newDelivered() *delivered { return &delivered{objects: map[string]known{}} }

// tooMany reports whether there are more than maxDelivered objects.
func (d *delivered) tooMany() bool { return d != nil && len(d.objects) > maxDelivered }

// begin notes that all objects are about to be read.
func (d *delivered) begin() { d.reading++ }

// unseen iterates over the objects that were not read since begin. The caller may delete
// them from d during the iteration.
func (d *delivered) unseen() iter.Seq2[string, known] {
	return func(yield func(string, known) bool) {
		for key, o := range d.objects {
			if o.seen != d.reading && !yield(key, o) {
				return
			}
		}
	}
}

// apply returns the events to deliver for an event: none if the caller has the same or a
// newer revision; the deletion first if another object had the name.
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
	if e.Type == Deleted {
		if !same {
			return nil // the caller does not have it
		}
		delete(d.objects, key)
		return []WatchEvent{e}
	}
	d.objects[key] = known{
		uid: u, revision: e.Revision, seen: d.reading,
		kind: unique.Make(typeMeta{e.Object.GetApiVersion(), e.Object.GetKind()}),
	}
	switch {
	case same:
		e.Type = Modified
	case had:
		e.Type = Added
		return []WatchEvent{was.gone(key, e.Revision), e}
	default:
		e.Type = Added
	}
	return []WatchEvent{e}
}

// gone returns the deletion of an object that does not exist at a revision; nothing else
// is known about it.
func (o known) gone(key string, revision uint64) WatchEvent {
	namespace, name, _ := strings.Cut(key, "/")
	kind := o.kind.Value()
	return WatchEvent{
		Type: Deleted, Revision: revision,
		Object: &coppicev1.Object{ApiVersion: kind.apiVersion, Kind: kind.kind, Metadata: &coppicev1.ObjectMeta{
			Namespace: namespace, Name: name, Uid: o.uid.String(), ResourceVersion: revision,
		}},
	}
}
