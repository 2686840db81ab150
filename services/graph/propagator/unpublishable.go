package propagator

import (
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/objectcodec"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A call that cannot be published, because it cannot be written or because of its
// size or subject, must not keep other work from being published: its row is
// warned of, passed over, and looked at again after a pause.

// skipPause is after how long a row is looked at again whose call could not be
// published: the object may have changed, or the limits of the stream.
const skipPause = time.Minute

// callID is which call a message is. It is empty for a chunk of work.
type callID struct {
	object  uid.UID
	durable string // the consumer of the call
}

// skip passes over a message that cannot be published, and has the row that it is
// about looked at again later. Where too many are remembered, the scanner has the
// row published again.
func (p *Propagator) skip(about callID, err error) {
	u := about.object
	if u == "" {
		p.c.Log.Error("a chunk of work cannot be published; its rows are published again later", "realm", p.c.Realm, "error", err)
		return
	}
	p.quota.forget(u, about.durable) // it does not wait in the stream
	p.mu.Lock()
	again := p.skipped[u]
	if again || len(p.skipped) < maxHints {
		p.skipped[u] = true
		p.schedule(u, lifecycle.TimeOf(p.c.Now()).Add(skipPause))
	}
	p.mu.Unlock()
	if !again {
		p.c.Log.Warn("a call cannot be published; trying again later", "realm", p.c.Realm, "uid", u, "pause", skipPause, "error", err)
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
	if !bus.Unsendable(err) {
		return err
	}
	o.skip(s.about, err)
	return nil
}

// maxCallObject is the size in bytes, as JSON, from which on an object is left out
// of the calls of its finalizers: there may be many of them, and they wait in a
// stream.
const maxCallObject = 64 << 10

// wordiness is by how much an object is larger as JSON than in protobuf at most,
// about: a control character takes six bytes instead of one, the shortest owner
// reference 98 instead of 19.
const wordiness = 8

// callObject returns the object as it is in calls, and whether that is only what
// identifies it.
func callObject(n *lifecycle.Node, body *coppicev1.Body) (o *coppicev1.Object, truncated bool) {
	whole := lifecycle.Object{Node: n, Body: body}
	o = whole.API()
	if size := objectcodec.Size(o); size <= maxCallObject/wordiness || size <= maxCallObject && jsonSize(o) <= maxCallObject {
		return o, false
	}
	o = whole.Brief()
	o.Metadata.Finalizers = nil // there may be many
	return o, true
}

// jsonSize is the size of an object as JSON, 0 if it cannot be written: then the
// call fails, and says why.
func jsonSize(o *coppicev1.Object) int {
	data, err := manifest.ToJSON(o)
	if err != nil {
		return 0
	}
	return len(data)
}

// maxChunk bounds a chunk in bytes. Uids of imported objects may be long, and
// NATS servers take 1 MiB by default.
const maxChunk = 256 << 10

// full reports whether a chunk has as many dependents, or as many bytes, as one
// may have.
func (c *chunk) full(most int) bool { return c.n >= most || c.bytes >= maxChunk }

// groupBytes is about how much an owner takes in a chunk beside its uid.
const groupBytes = 16
