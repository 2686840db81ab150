package chaos_test

import (
	"fmt"
	"slices"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// change is a change of an object in the namespace histories, as the log has it.
type change struct {
	kind      coppicev1.WatchEvent_Type
	revision  uint64
	uid, name string
}

// changeType returns the type of the events with which a watch reports an event of the log.
func changeType(e *coppicev1.Event) coppicev1.WatchEvent_Type {
	switch e.GetEvent().(type) {
	case *coppicev1.Event_Created:
		return coppicev1.WatchEvent_TYPE_ADDED
	case *coppicev1.Event_Deleted:
		return coppicev1.WatchEvent_TYPE_DELETED
	}
	return coppicev1.WatchEvent_TYPE_MODIFIED
}

// property is one of the properties that are checked on recorded histories.
type property string

const (
	linearizable property = "create, get, update and delete are linearizable"
	ordered      property = "watch events are in the order of their revisions"
	unique       property = "each change is in a watch once"
	complete     property = "no change is missing in a watch"
	resumable    property = "a watch that resumes lacks no change since its last revision"
	bookmarks    property = "every change up to a revision that a watch names has been sent"
	truthful     property = "each watch event is a change of the log, with its object"
)

// properties are all of them.
var properties = []property{linearizable, ordered, unique, complete, resumable, bookmarks, truthful}

// violation is a violation of a property.
type violation struct {
	of  property
	how string
}

func (v violation) String() string { return fmt.Sprintf("not true: %s: %s", v.of, v.how) }

// watchCheck compares the batches of a watch with the log.
type watchCheck struct {
	changes []change          // of the log, by revision
	values  map[uint64]string // of the object after each change
	sent    map[uint64]bool   // revisions of all events of the watch, also of later ones
	seen    map[uint64]bool   // of those until now
	last    uint64            // revision of the last event
	reached uint64            // revision of the last batch
	found   []violation
}

// checkWatch returns the violations in the batches of one watch. log is the last revision of
// the log.
func checkWatch(batches []watchBatch, changes []change, values map[uint64]string, log uint64) []violation {
	c := &watchCheck{changes: changes, values: values, sent: map[uint64]bool{}, seen: map[uint64]bool{}}
	for _, b := range batches {
		for _, e := range b.events {
			c.sent[e.revision] = true
		}
	}
	for i := 0; i < len(batches); i++ {
		b := batches[i]
		if b.first && b.from == 0 {
			var objects []watchEvent
			for ; batches[i].revision == 0; i++ {
				objects = append(objects, batches[i].events...)
			}
			c.list(append(objects, batches[i].events...), batches[i].revision)
			continue
		}
		c.batch(b)
		if b.revision > log {
			c.violated(bookmarks, "it names revision %d; the log ends with %d", b.revision, log)
		}
	}
	return c.found
}

func (c *watchCheck) violated(p property, format string, args ...any) {
	c.found = append(c.found, violation{p, fmt.Sprintf(format, args...)})
}

// list checks a session's beginning with all objects, as they are at a revision.
func (c *watchCheck) list(objects []watchEvent, revision uint64) {
	is := map[string]watchEvent{}
	for _, o := range objects {
		if _, again := is[o.name]; again {
			c.violated(unique, "%s is listed twice at revision %d", o.name, revision)
		}
		is[o.name] = o
	}
	want := map[string]change{}
	for _, k := range c.changes {
		if k.revision > revision {
			break
		}
		if want[k.name] = k; k.kind == coppicev1.WatchEvent_TYPE_DELETED {
			delete(want, k.name)
		}
	}
	for name, k := range want {
		if o, ok := is[name]; !ok || o.revision != k.revision {
			c.violated(complete, "the list at revision %d has %s as of revision %d, not %d", revision, name, o.revision, k.revision)
		}
	}
	for name, o := range is {
		if k, ok := want[name]; !ok || o.uid != k.uid || o.value != c.values[k.revision] {
			c.violated(truthful, "the list at revision %d has %+v, the log %+v", revision, o, k)
		}
	}
	c.last, c.reached = revision, revision
}

func (c *watchCheck) batch(b watchBatch) {
	for _, e := range b.events {
		c.event(e, b.revision)
	}
	for _, k := range c.between(c.reached, b.revision) {
		switch {
		case c.seen[k.revision]:
		case c.sent[k.revision]:
			c.violated(bookmarks, "revision %d was named before the event of revision %d was sent", b.revision, k.revision)
		case b.first:
			c.violated(resumable, "it resumed after revision %d, and has no event of revision %d", b.from, k.revision)
		default:
			c.violated(complete, "it has revisions %d and %d, and no event of revision %d", c.reached, b.revision, k.revision)
		}
	}
	c.reached = b.revision
}

// between returns the changes after a revision and up to another.
func (c *watchCheck) between(after, last uint64) []change {
	at := func(k change, revision uint64) int {
		if k.revision <= revision {
			return -1
		}
		return 1
	}
	i, _ := slices.BinarySearchFunc(c.changes, after, at)
	j, _ := slices.BinarySearchFunc(c.changes, last, at)
	if j < i {
		return nil
	}
	return c.changes[i:j]
}

// event checks an event of a batch that names a revision.
func (c *watchCheck) event(e watchEvent, named uint64) {
	switch {
	case c.seen[e.revision]:
		c.violated(unique, "revision %d was sent twice", e.revision)
	case e.revision <= c.last:
		c.violated(ordered, "revision %d was sent after revision %d", e.revision, c.last)
	case e.revision > named:
		c.violated(bookmarks, "a batch that names revision %d has an event of revision %d", named, e.revision)
	}
	c.last = max(c.last, e.revision)
	c.seen[e.revision] = true
	list := c.between(e.revision-1, e.revision)
	if len(list) == 0 {
		c.violated(truthful, "%+v is no change of the log", e)
		return
	}
	k := list[0]
	value := c.values[k.revision]
	if k.kind == coppicev1.WatchEvent_TYPE_DELETED {
		value = c.before(k)
	}
	if e.change != k || e.value != value {
		c.violated(truthful, "%+v was sent; the log has %+v with the value %q", e, k, value)
	}
}

// before returns the value of an object before a change.
func (c *watchCheck) before(k change) string {
	for _, o := range slices.Backward(c.between(0, k.revision-1)) {
		if o.uid == k.uid {
			return c.values[o.revision]
		}
	}
	return ""
}
