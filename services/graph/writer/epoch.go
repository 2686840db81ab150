package writer

import (
	"crypto/rand"
	"fmt"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// beginEpoch appends the commit that begins the epoch of this writer. In a new realm it is
// the first commit, and registers the built-in kinds; in a realm that continues another one,
// it records the origin.
func (w *Writer) beginEpoch() error {
	w.chain.Epoch++
	verb := bus.VerbEpoch
	switch {
	case w.c.Origin != nil:
		verb = bus.VerbOrigin
	case w.chain.RealmID == ([16]byte{}):
		verb = bus.VerbGenesis
	}
	begins := verb != bus.VerbEpoch
	if begins {
		_, _ = rand.Read(w.chain.RealmID[:]) // never fails
	}
	if w.c.Loss != nil {
		w.chain.Revision = max(w.chain.Revision, w.c.Loss.Revision)
	}
	w.chain.Revision += w.c.Ahead
	key := w.chain.Key
	newest := w.c.NewestKey(w.chain.RealmID)
	if begins { // the first commit both announces this key and is authenticated with it
		key, w.chain.Key = eventlog.KeyID{}, newest
	}
	c, err := w.begin()
	if err != nil {
		return err
	}
	d := c.d
	defer d.Tx.Drop()
	if newest.Number > key.Number {
		d.b.NewKey(newest)
		w.chain.Key = newest
	}
	if w.c.Loss != nil || w.c.Ahead > 0 {
		d.Tx.Pass(w.chain.Revision)
	}
	if w.c.Loss != nil {
		d.startCommand(eventlog.Command{Actor: "graph", Verb: bus.VerbAcceptLoss, Note: w.c.Loss.Note})
		d.addCommand()
		d.b.End(eventlog.CommandRef{}, nil)
	}
	d.startCommand(eventlog.Command{Actor: "graph", Verb: verb})
	d.addCommand()
	if w.c.Origin != nil {
		d.ChangeRealm(lifecycle.RealmChange{Origin: *w.c.Origin, Paused: true, Since: lifecycle.Time(d.Tx.Checkpoint().GetTime())})
	}
	if verb == bus.VerbGenesis {
		kind := d.Ctx.Kinds().Of(lifecycle.Group, "Kind")
		for _, spec := range lifecycle.BuiltinKinds() {
			out, err := lifecycle.Create(d.Ctx, lifecycle.Key{Kind: kind}, registration(spec))
			if err != nil {
				return fmt.Errorf("writer: genesis: %w", err)
			}
			if _, ok := d.Add(out.Events, 0); !ok {
				return fmt.Errorf("writer: the bus takes messages of %d bytes, which is too little for a realm's first commit", w.c.MaxPayload)
			}
		}
	}
	d.b.End(eventlog.CommandRef{}, nil)
	if err := w.startAppend(c); err != nil {
		return err
	}
	<-w.inFlight[0].ended
	return w.removeEnded()
}

// registration returns the object that registers a kind.
func registration(spec lifecycle.KindSpec) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: lifecycle.APIVersion,
		Kind:       "Kind",
		Metadata:   &coppicev1.ObjectMeta{Name: lifecycle.ResourceName(spec.Group, spec.Plural)},
		Spec:       spec.JSON(),
	}
}
