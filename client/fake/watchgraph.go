package fake

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
)

// WatchGraph iterates over the objects of all kinds and then over their changes until ctx ends, as Watch does.
func (c *Client) WatchGraph(ctx context.Context, _ ...client.WatchGraphOption) iter.Seq2[client.GraphEvent, error] {
	return func(yield func(client.GraphEvent, error) bool) {
		var events []client.GraphEvent
		next := 0
		err := c.read(ctx, nil, func(realm *memrealm.Realm) error {
			for _, u := range realm.UIDs() {
				n := realm.Node(u)
				o := lifecycle.Object{Node: n, Body: realm.Body(n)}
				events = append(events, graphEvent(client.Added, realm.Kinds().OfNode(n).Resource(), n.Revision, o))
			}
			events = append(events, client.GraphEvent{Type: client.Bookmark, Revision: realm.Revision, Synced: true})
			next = len(c.history)
			return nil
		})
		if err != nil {
			if ctx.Err() == nil {
				yield(client.GraphEvent{}, err)
			}
			return
		}
		for ctx.Err() == nil {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			var wait <-chan struct{}
			if events, wait = c.graphChanges(&next); len(events) > 0 {
				continue
			}
			select {
			case <-ctx.Done():
			case <-wait:
			}
		}
	}
}

// graphChanges returns the events of the changes from the next one on, with a Bookmark, and what to wait for before
// there are more.
func (c *Client) graphChanges(next *int) (events []client.GraphEvent, wait <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *next == len(c.history) {
		return nil, c.changed
	}
	for ; *next < len(c.history); *next++ {
		switch x := &c.history[*next]; {
		case x.after.Node == nil:
			events = append(events, graphEvent(client.Deleted, x.resource, x.revision, lifecycle.Object{Node: x.before.Node}))
		case x.before.Node == nil:
			events = append(events, graphEvent(client.Added, x.resource, x.revision, x.after))
		default:
			events = append(events, graphEvent(client.Modified, x.resource, x.revision, x.after))
		}
	}
	return append(events, client.GraphEvent{Type: client.Bookmark, Revision: c.realm.Revision}), c.changed
}

func graphEvent(t client.EventType, resource string, revision uint64, o lifecycle.Object) client.GraphEvent {
	object := proto.CloneOf(o.WithoutContents())
	object.Metadata.ResourceVersion = revision
	return client.GraphEvent{Type: t, Resource: client.ParseResource(resource), Object: object, Revision: revision}
}
