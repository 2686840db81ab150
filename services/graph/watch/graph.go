package watch

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// allResources is the interest in the changes of all resources. No resource has this name.
const allResources = "*"

// GraphTarget says how to send the changes of objects of all resources.
type GraphTarget struct {
	// View returns what the actor may see now.
	View func() GraphView
	// From, MinRevision, Heartbeat and MaxBytes are as in Target. If From is zero, the first
	// batch has no changes, and the revision after which changes are sent.
	From, MinRevision uint64
	Heartbeat         time.Duration
	MaxBytes          int
	// RealmID returns the id of the realm's log; nil until the realm has its first commit.
	RealmID func() []byte
	// Send sends a batch. An error ends the watch.
	Send func(*coppicev1.GraphBatch) error
}

// GraphView is what an actor may see of the graph.
type GraphView struct {
	// Sees reports whether the actor may get objects of a resource in a namespace; nil for all.
	Sees func(resource, namespace string) bool
	// Partial and Rules are those of GraphBatch.
	Partial bool
	Rules   string
}

// ServeGraph serves a watch of the objects of all resources, without their contents, that Admit has
// admitted, until ctx ends or it fails. An error that the client should receive is a *lifecycle.Error.
//
// While such a watch is open, and two minutes longer, each commit keeps all its changes, in one
// queue for all watches of the graph. Without one, commits have no additional cost.
func (h *Hub) ServeGraph(ctx context.Context, t GraphTarget) error {
	at, err := h.enter(ctx, start{resource: allResources, from: t.From, min: t.MinRevision})
	if err != nil {
		return err
	}
	defer h.leave(at)
	w := &graphSession{t: t, last: at.revision}
	if t.From == 0 {
		w.last = 0
		if err := w.beat(at.revision); err != nil {
			return err
		}
	}
	return h.follow(ctx, w, at, t.Heartbeat)
}

// newGraphRecord returns what watches of the graph need of a change: no contents, and of
// a removed object no labels.
func newGraphRecord(c *state.Change, now time.Time) record {
	r := record{resource: c.Resource, revision: c.Revision, at: now, before: c.Before, after: c.After}
	r.bytes = recordSize
	if c.After != nil {
		r.bytes += nodeSize(c.After)
		if labels := c.AfterBody.GetLabels(); len(labels) > 0 {
			r.afterBody = &coppicev1.Body{Labels: labels}
			r.bytes += proto.Size(r.afterBody)
		}
	} else {
		r.bytes += nodeSize(c.Before)
	}
	return r
}

// change returns the change that a watch of the graph sends.
func (r *record) change() *coppicev1.GraphChange {
	switch {
	case r.after == nil:
		o := lifecycle.Object{Node: r.before}.WithoutContents()
		o.Metadata.ResourceVersion = r.revision
		return &coppicev1.GraphChange{Type: coppicev1.WatchEvent_TYPE_DELETED, Resource: r.resource, Object: o}
	case r.before == nil:
		return GraphObject(r.resource, lifecycle.Object{Node: r.after, Body: r.afterBody})
	}
	c := GraphObject(r.resource, lifecycle.Object{Node: r.after, Body: r.afterBody})
	c.Type = coppicev1.WatchEvent_TYPE_MODIFIED
	return c
}

// GraphObject returns an object that exists as a change of the graph.
func GraphObject(resource string, o lifecycle.Object) *coppicev1.GraphChange {
	return &coppicev1.GraphChange{Type: coppicev1.WatchEvent_TYPE_ADDED, Resource: resource, Object: o.WithoutContents()}
}

// graphSession is a watch of the graph that is being served.
type graphSession struct {
	t    GraphTarget
	last uint64 // revision of the batch before
}

func (w *graphSession) beat(revision uint64) error {
	view := w.t.View()
	return w.send(&view, nil, revision)
}

func (w *graphSession) send(view *GraphView, changes []*coppicev1.GraphChange, revision uint64) error {
	b := &coppicev1.GraphBatch{PreviousRevision: w.last, Revision: revision, Changes: changes, Partial: view.Partial, Rules: view.Rules, RealmId: w.t.RealmID()}
	w.last = revision
	return w.t.Send(b)
}

func (w *graphSession) sendChanges(records []record, revision uint64) error {
	view := w.t.View()
	var changes []*coppicev1.GraphChange
	size, last := 0, w.last
	for i := range records {
		r := &records[i]
		n := r.after
		if n == nil {
			n = r.before
		}
		if view.Sees != nil && !view.Sees(r.resource, n.Namespace) {
			continue
		}
		c := r.change()
		bytes := proto.Size(c)
		if len(changes) > 0 && size+bytes > w.t.MaxBytes {
			if err := w.send(&view, changes, last); err != nil {
				return err
			}
			changes, size = nil, 0
		}
		changes, size, last = append(changes, c), size+bytes, r.revision
	}
	if len(changes) == 0 {
		return nil // the next heartbeat has the new revision
	}
	return w.send(&view, changes, revision)
}
