package client

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// GraphEvent is a change of an object of a realm, or a bookmark.
type GraphEvent struct {
	// Type is Added, Modified, Deleted or Bookmark.
	Type EventType
	// Resource is the resource of the object.
	Resource Resource
	// Object is the object after the change: apiVersion, kind, and metadata without annotations,
	// generateName and uses. If it was deleted, it is the object before the change, without labels.
	// Nil for a Bookmark.
	Object *Object
	// Revision is the revision of the change. Of a Bookmark, every change up to it has been delivered.
	Revision uint64
	// Synced is set in a Bookmark when every object that existed when the watch started, or
	// started again, has been delivered.
	Synced bool
	// Restarted is set in a Bookmark after which all objects are delivered again, as Added:
	// changes were lost, the users file allows the actor something else, or the realm was deleted
	// and created again. Objects that are not delivered again before the next event with Synced do
	// not exist any more, or the actor may not get them any more. After a Restarted whose Revision
	// is 0 revisions begin again: those from before are of another log.
	Restarted bool
}

// WatchGraph keeps a copy of the graph of a realm: of the objects of all kinds that the actor may get,
// without their contents. Objects that wait for their initializers are included. The copy is equal to what
// List returns for all kinds if the caller applies every event by uid: sets the object of Added and
// Modified, removes that of Deleted, and after Restarted removes the objects that were not delivered
// again when Synced comes. That is true after lost messages, restarts and changes of servers, and for
// callers that are slower than the changes. Between Restarted and Synced, and before the first Synced,
// objects are of several revisions.
//
// No object is delivered with a revision that is older than the last one, except after a Restarted with the
// revision 0. Unlike Watch, WatchGraph
// does not remember objects: after an interruption for which the server no longer has the changes, it
// delivers all objects again.
//
// WatchGraph returns when ctx ends, when the caller breaks, or with an error. ErrForbidden says that the
// actor lacks the verb watchgraph, which comes with get. With WithRetryTimeout it returns the reason if
// no server has replied for that long since the call; a watch that was served continues.
//
// Up to 16 MiB of changes wait for the caller. Further changes are dropped and requested again. The objects
// that exist are read in pages of 1 MiB, at the pace of the caller.
func (c *Client) WatchGraph(ctx context.Context, opts ...WatchGraphOption) iter.Seq2[GraphEvent, error] {
	return func(yield func(GraphEvent, error) bool) {
		if c.past != nil {
			yield(GraphEvent{}, c.errPast(bus.VerbWatchGraph))
			return
		}
		o := collect(opts, WatchGraphOption.ApplyToWatchGraph)
		if o.IdleTimeout == 0 {
			o.IdleTimeout = defaultIdleTimeout
		}
		w := graphWatcher{watching: watching{c: c, name: "watch the graph", idle: o.IdleTimeout, onError: o.OnError}, yield: yield}
		err := w.repeat(ctx, w.session, func() bool {
			w.complete = false // read all objects again
			return true
		})
		if err != nil {
			yield(GraphEvent{}, err)
		}
	}
}

// graphWatcher is the state of a WatchGraph that outlives its sessions.
type graphWatcher struct {
	watching
	yield    func(GraphEvent, error) bool
	revision uint64 // every change up to it has been delivered
	reached  uint64 // the highest revision from which a replica has replied
	complete bool   // the objects that existed at the start have been delivered
	began    bool   // an object has been delivered
	rules    string // GraphBatch.rules, of all that was delivered
	realm    []byte // GraphBatch.realm_id, of all that was delivered and of the revisions above; empty if it is not known
	// ahead has the revisions of the objects of pages that changed after the revision that the changes
	// follow, until that reaches the last page. Of these objects, older changes are not delivered.
	ahead map[string]uint64
}

// errRules ends a session because of other rules than before. While graph services read a users file that has
// changed, some have the former rules, so that the next session begins after a pause.
var errRules = &Error{
	Reason: ErrServiceUnavailable, RetryAfter: time.Second,
	Message: "the users file allows the actor something else than before; all objects are read again",
}

// errRealm ends a session because the log of the realm is another one than before. While graph services notice
// that, some may still serve the former log, so that the next session begins after a pause.
var errRealm = &Error{
	Reason: ErrServiceUnavailable, RetryAfter: time.Second,
	Message: "the realm was deleted and created again, or restored: its log is another one than before; all objects are read again",
}

// session watches until something is lost, and returns the reason.
func (w *graphWatcher) session(ctx context.Context) error {
	r := &coppicev1.WatchGraphRequest{RealmId: w.realm}
	if w.complete = w.complete && w.revision > 0; w.complete { // from_revision = 0 is a watch that begins
		r.FromRevision = w.revision
	} else {
		r.MinRevision = w.reached
	}
	in, err := w.open(ctx, w.at(), r)
	if err != nil {
		return err
	}
	defer in.close()
	if !w.complete {
		// The watch starts before the objects are read, so that no change is missed.
		var b coppicev1.GraphBatch
		if err := in.next(&b); err != nil {
			return err
		}
		_ = w.sameRealm(&b) // nothing of the other log was read
		interrupted, err := w.readAll(ctx, &b)
		if err != nil {
			return err
		}
		if interrupted {
			return errGap // the server that sends the changes may be gone
		}
	}
	for {
		var b coppicev1.GraphBatch
		if err := in.next(&b); err != nil {
			return err
		}
		if !w.sameRealm(&b) {
			return errRealm
		}
		if b.GetPreviousRevision() != w.revision {
			return errGap
		}
		if b.GetRules() != w.rules {
			w.complete = false
			return errRules
		}
		if err := w.changes(&b, w.ahead); err != nil {
			return err
		}
		w.resumable = true
		w.revision = b.GetRevision()
		if w.reached = max(w.reached, w.revision); w.revision == w.reached {
			w.ahead = nil
		}
		if err := w.deliver(GraphEvent{Type: Bookmark, Revision: w.revision}); err != nil {
			return err
		}
	}
}

// sameRealm reports whether a batch is of the same log as what was delivered. If it is not, revisions begin again, and
// all objects are to be read again. The log of a realm without a commit has no id yet.
func (w *graphWatcher) sameRealm(b *coppicev1.GraphBatch) bool {
	same := len(w.realm) == 0 || bytes.Equal(w.realm, b.GetRealmId())
	if w.realm = b.GetRealmId(); !same {
		w.revision, w.reached, w.complete = 0, 0, false
	}
	return same
}

func (w *graphWatcher) at() bus.API { return bus.RealmAPI(w.c.realm, w.c.actor, bus.VerbWatchGraph) }

// readAll reads and delivers all objects, page by page, at the caller's pace. first is the batch
// after whose revision the session's changes begin. interrupted reports that a server did not reply
// meanwhile: it may be the one that sends the changes.
func (w *graphWatcher) readAll(ctx context.Context, first *coppicev1.GraphBatch) (interrupted bool, err error) {
	base := first.GetRevision()
	w.reached = max(w.reached, base)
	w.rules, w.ahead = first.GetRules(), map[string]uint64{}
	if w.began {
		if err := w.deliver(GraphEvent{Type: Bookmark, Revision: w.revision, Restarted: true}); err != nil {
			return false, err
		}
	}
	for next, more := "", true; more; more = next != "" {
		request, err := encode(&coppicev1.WatchGraphRequest{Page: true, Continue: next, MinRevision: w.reached, RealmId: w.realm})
		if err != nil {
			return interrupted, err
		}
		var b coppicev1.GraphBatch
		err = w.c.send(ctx, w.at(), request, &b, func(err error) {
			interrupted = interrupted || errors.Is(err, ErrServiceUnavailable) || errors.Is(err, ErrTimeout)
		})
		if err == nil && !w.sameRealm(&b) {
			return interrupted, errRealm
		}
		if err == nil && b.GetRules() != w.rules || next != "" && errors.Is(err, ErrBadRequest) { // a token of other rules is refused
			return interrupted, errRules
		}
		if err != nil {
			return interrupted, err
		}
		for _, change := range b.GetChanges() {
			if m := change.GetObject().GetMetadata(); m.GetResourceVersion() > base {
				w.ahead[m.GetUid()] = m.GetResourceVersion()
			}
		}
		if err := w.changes(&b, nil); err != nil {
			return interrupted, err
		}
		w.reached = max(w.reached, b.GetRevision())
		if next = b.GetContinue(); next == "" && b.GetPartial() {
			w.c.lacks(bus.VerbWatchGraph, &b)
		}
	}
	w.revision, w.complete = base, true
	return interrupted, w.deliver(GraphEvent{Type: Bookmark, Revision: base, Synced: true})
}

// changes delivers the changes of a batch, except those that are not newer than the revision of their
// object in ahead.
func (w *graphWatcher) changes(b *coppicev1.GraphBatch, ahead map[string]uint64) error {
	for _, change := range b.GetChanges() {
		m := change.GetObject().GetMetadata()
		if m.GetResourceVersion() <= ahead[m.GetUid()] {
			continue
		}
		w.began = true
		if err := w.deliver(GraphEvent{
			Type: eventType(change.GetType()), Resource: ParseResource(change.GetResource()), Object: change.GetObject(), Revision: m.GetResourceVersion(),
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *graphWatcher) deliver(e GraphEvent) error {
	if !w.yield(e, nil) {
		return errBreak
	}
	return nil
}
