package propagator

import (
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/codec/objectcodec"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A call may be impossible to publish, because the object cannot be encoded or because
// of its size or subject. It must not prevent other work from being published: the
// object is warned of, and its row is read again later.

// unpublishablePause is after how long a row is read again whose call could not
// be published: the object may have changed, or the limits of the stream.
const unpublishablePause = time.Minute

// callID says which call a message is. It is empty for a chunk of work.
type callID struct {
	object  uid.UID
	durable string // the consumer of the call
	again   bool   // it could not be published before
}

// skip passes over a message that cannot be published, and adds its row for later. If
// the queue has no room for the row, the scanner has it published again.
func (p *Propagator) skip(about callID, err error) {
	u := about.object
	if u == "" {
		p.c.Log.Error("a chunk of work cannot be published; its rows are published again later", "realm", p.c.Realm, "error", err)
		return
	}
	p.quota.forget(u, about.durable) // it does not wait in the stream
	p.rows.AddAt(u, publishAgain|unpublishable, p.c.Now().Add(unpublishablePause))
	if !about.again {
		p.c.Log.Warn("a call cannot be published; trying again later", "realm", p.c.Realm, "uid", u, "pause", unpublishablePause, "error", err)
	}
	if p.c.Unpublished == nil {
		return
	}
	snap := p.c.State.Snapshot()
	defer snap.Close()
	if n := snap.Node(u); n != nil {
		p.c.Unpublished(snap, n, err)
	}
}

// newOutbox returns an outbox that passes over what cannot be published.
func (p *Propagator) newOutbox() outbox { return outbox{js: p.c.JS, skip: p.skip} }

// unsendable handles the failure to publish a message. It returns nil if the
// message is passed over.
func (o *outbox) unsendable(s sent, err error) error {
	err = fmt.Errorf("propagator: %s, %d bytes: %w", s.m.Subject, len(s.m.Data), err)
	s.span.end(err)
	if o.skip == nil || !bus.Unsendable(err) {
		return err
	}
	o.skip(s.about, err)
	return nil
}

// maxCallObject is the size in bytes, as JSON, above which an object is left out of
// the calls of its finalizers: there may be many calls, and they wait in a stream.
const maxCallObject = 64 << 10

// wordiness is about how many times larger an object is at most as JSON than in
// protobuf: a control character takes six bytes instead of one, the shortest owner
// reference 98 instead of 19.
const wordiness = 8

// callObject returns the object for its calls, and whether it was reduced to what
// identifies it because it has more than a number of bytes as JSON.
func callObject(n *lifecycle.Node, body *coppicev1.Body, most int) (o *coppicev1.Object, truncated bool) {
	object := lifecycle.Object{Node: n, Body: body}
	o = object.API()
	if size := objectcodec.Size(o); size <= most/wordiness || size <= most && jsonSize(o) <= most {
		return o, false
	}
	return briefObject(object), true
}

// briefObject returns the object of a truncated call.
func briefObject(object lifecycle.Object) *coppicev1.Object {
	o := object.Brief()
	o.Metadata.Finalizers = nil // there may be many
	return o
}

// jsonSize is the size of an object as JSON in bytes, 0 if it cannot be encoded: then
// encoding the call returns the error.
func jsonSize(o *coppicev1.Object) int {
	data, err := manifest.ToJSON(o)
	if err != nil {
		return 0
	}
	return len(data)
}
