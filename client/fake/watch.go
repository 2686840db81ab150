package fake

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/selector"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// change is a change of an object.
type change struct {
	revision      uint64
	reason        coppicev1.Reason
	resource      string
	before, after lifecycle.Object // without Node: it does not exist
}

// record records a change for watches. c.mu is locked.
func (c *Client) record(e *lifecycle.Event, before, after lifecycle.Object) {
	n := after.Node
	if n == nil {
		n = before.Node
	}
	resource := ""
	if kind := c.realm.Kinds().OfNode(n); kind != nil {
		resource = kind.Resource()
	}
	c.history = append(c.history, change{revision: c.realm.Revision, reason: e.Reason, resource: resource, before: before, after: after})
}

// Watch iterates over the objects and then over their changes until ctx ends. Events are
// in the order of revisions, and all changes of a call, with those of the collector after
// it, are followed by one Bookmark.
func (r *resourceClient) Watch(ctx context.Context, opts ...client.WatchOption) iter.Seq2[client.WatchEvent, error] {
	return func(yield func(client.WatchEvent, error) bool) {
		o := collect(opts, client.WatchOption.ApplyToWatch)
		labels, err := parseSelector(o.LabelSelector)
		if err != nil {
			yield(client.WatchEvent{}, err)
			return
		}
		w := watcher{r: r, labels: labels, uninitialized: o.IncludeUninitialized, from: o.FromRevision}
		events, next, err := w.begin(ctx)
		if err != nil {
			if ctx.Err() == nil {
				yield(client.WatchEvent{}, err)
			}
			return
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		for ctx.Err() == nil {
			events, wait := w.changes(&next)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
			case <-wait:
			}
		}
	}
}

// watcher is a watch.
type watcher struct {
	r             *resourceClient
	labels        selector.Selector
	uninitialized bool
	from          uint64 // changes up to this revision are left out
}

// begin returns the events for the objects as they are, and the number of changes so far. A
// watch from a revision has neither.
func (w *watcher) begin(ctx context.Context) (events []client.WatchEvent, changes int, err error) {
	err = w.r.c.read(ctx, nil, func(realm *memrealm.Realm) error {
		at, err := w.r.key(realm)
		if err != nil {
			return err
		}
		if w.from != 0 {
			return nil
		}
		for _, o := range objects(realm, at, w.labels, w.uninitialized) {
			events = append(events, client.WatchEvent{Type: client.Added, Object: proto.CloneOf(o.API()), Revision: o.Revision})
		}
		events = append(events, client.WatchEvent{Type: client.Bookmark, Revision: realm.Revision, Synced: true})
		w.from, changes = realm.Revision, len(w.r.c.history)
		return nil
	})
	return events, changes, err
}

// changes returns the events of the changes from the next one on, with a Bookmark, and what
// to wait for before there are more.
func (w *watcher) changes(next *int) (events []client.WatchEvent, wait <-chan struct{}) {
	c := w.r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if *next == len(c.history) {
		return nil, c.changed
	}
	for ; *next < len(c.history); *next++ {
		if x := &c.history[*next]; x.revision > w.from && x.resource == w.r.resource.String() {
			if e, ok := w.event(x); ok {
				events = append(events, e)
			}
		}
	}
	return append(events, client.WatchEvent{Type: client.Bookmark, Revision: max(c.realm.Revision, w.from)}), c.changed
}

// event returns the event of a change for this watch, if it has one (A8, A9).
func (w *watcher) event(x *change) (e client.WatchEvent, ok bool) {
	is, was := w.sees(x.after), w.sees(x.before)
	e = client.WatchEvent{Reason: x.reason, Revision: x.revision}
	o := x.after
	switch {
	case is && was:
		e.Type = client.Modified
	case is:
		e.Type = client.Added
	case was:
		e.Type, o = client.Deleted, x.before
	default:
		return e, false
	}
	e.Object = proto.CloneOf(o.API())
	e.Object.Metadata.ResourceVersion = x.revision
	return e, true
}

// sees reports whether the watch includes an object.
func (w *watcher) sees(o lifecycle.Object) bool {
	return o.Node != nil && (w.r.namespace == "" || o.Namespace == w.r.namespace) &&
		(w.uninitialized || !o.Uninitialized()) && w.labels.Matches(o.Body.GetLabels())
}
