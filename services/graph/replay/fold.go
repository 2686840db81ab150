package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Folder folds the log into a state. It is for one goroutine.
type Folder struct {
	// Begin is called before a batch of commits and returns the resources that are watched,
	// nil for none. Applied is called with their changes when the batch is in the state.
	Begin   func() (watched func(resource string) bool)
	Applied func(revision uint64, changes []state.Change)
	// Skipped is called for each message that is no commit of the realm.
	Skipped func(position uint64, why string)
	// Lost is called for a commit that records the loss of commits, with its first
	// revision: see eventlog.Chain.Leaps.
	Lost func(revision uint64)

	state   *state.State
	created int64    // time at which the stream of the log was created
	elision *elision // nil if the fold leaves out no objects
	most    bounds   // of elision

	keys    *eventlog.Keys
	chain   eventlog.Chain
	at      uint64 // the position of the last message, commit or not
	tx      *state.Tx
	watched func(resource string) bool
	changes []state.Change
	events  int // in tx
	bytes   int // of the messages in tx
	total   uint64
}

// NewFolder returns a folder that continues after the checkpoint of a state. created is the
// time at which the stream of the log was created, in Unix nanoseconds.
func NewFolder(s *state.State, created int64, keys *eventlog.Keys) *Folder {
	chain := eventlog.ChainOf(s.Checkpoint())
	return &Folder{
		state: s, created: created, keys: keys, chain: chain, at: chain.Position,
		Begin:   func() func(string) bool { return nil },
		Applied: func(uint64, []state.Change) {},
		Skipped: func(uint64, string) {},
		Lost:    func(uint64) {},
		most:    memoryBounds,
	}
}

// Position returns the position of the last message, whether it was a commit or not.
func (f *Folder) Position() uint64 { return f.at }

// Sequence returns the sequence of the last commit, 0 before the first.
func (f *Folder) Sequence() uint64 { return f.chain.Sequence }

// Revision returns the revision of the last event.
func (f *Folder) Revision() uint64 { return f.chain.Revision }

// Events returns the number of events that this folder has folded.
func (f *Folder) Events() uint64 { return f.total }

// Bounds of a batch. It is written when one of them is reached.
const (
	maxFolded      = 30000    // events
	maxFoldedBytes = 32 << 20 // of messages
)

// Follow folds the log, and the commits that are appended to it, until ctx ends or a
// message cannot be folded. The error is never nil.
func (f *Folder) Follow(ctx context.Context, log Source) error { return f.follow(ctx, log, f.fold) }

// follow calls fold for each message of the log, also for those that are appended later,
// until fold returns an error or ctx ends.
func (f *Folder) follow(ctx context.Context, log Source, fold func(eventlog.Message, unpacked) error) error {
	elision := f.elision
	return readAhead(ctx, log, f.at+1, func(m eventlog.Message) (u unpacked, err error) {
		h, foreign := f.keys.Check(m)
		if u.foreign = foreign; foreign != "" {
			return u, nil
		}
		if err := h.Readable(); err != nil {
			return u, err
		}
		if u.commit, err = m.Open(new([]byte)); err != nil {
			return u, err
		}
		if u.Decoded, err = eventlog.Decode(u.commit); err != nil {
			return u, err
		}
		return u, u.Unpack(elision.filter())
	}, fold)
}

// unpacked is a commit in its encoded and its decoded form.
type unpacked struct {
	*eventlog.Decoded
	commit  []byte
	foreign string // why the message is no commit; "" if it is one
}

// fold folds one message. It writes the effects when a bound is reached, or when the
// log has no further message yet.
func (f *Folder) fold(m eventlog.Message, c unpacked) error {
	f.at = m.Position
	why := c.foreign
	if why == "" {
		if len(c.Realm) > 0 && f.keys.Unkeyed() {
			f.chain.Adopt(&c.Header, c.Realm[0].Origin)
		}
		why = f.chain.Skips(&c.Header)
	}
	if why != "" {
		f.Skipped(m.Position, why)
		if m.Pending == 0 {
			return f.apply()
		}
		return nil
	}
	leaps := f.chain.Leaps(&c.Header)
	if err := f.chain.Next(m.Position, c.commit, c.Decoded); err != nil {
		return err
	}
	if f.tx == nil {
		f.tx, f.watched = f.state.Begin(), f.Begin()
	}
	if leaps {
		f.tx.Pass(c.FirstRevision - 1)
		f.Lost(c.FirstRevision)
	}
	if err := f.add(c.Decoded); err != nil {
		return fmt.Errorf("sequence %d: %w", m.Position, err)
	}
	f.bytes += len(c.commit)
	f.tx.EndCommit(state.Commit{
		Sequence: c.Sequence, Position: m.Position, Epoch: c.Epoch, Time: c.Time, Checksum: f.chain.Checksum, RealmID: c.RealmID[:], Commands: writer.CommandsOf(c.Commands),
		StreamCreated: f.created, ElidedUntil: f.elidedUntil(), Key: f.chain.Key.Number, KeyFingerprint: bytes.Clone(f.chain.Key.Fingerprint[:]),
	})
	f.chain.Revision = f.tx.Checkpoint().GetRevision()
	if c.NewKey != (eventlog.KeyID{}) {
		if err := f.keys.Fit(&f.chain); err != nil {
			return errors.Join(err, f.apply()) // the state records the key
		}
	}
	if f.events >= maxFolded || f.bytes >= maxFoldedBytes || m.Pending == 0 {
		return f.apply()
	}
	return nil
}

func (f *Folder) add(c *eventlog.Decoded) error {
	f.tx.Prefetch(c.Existing())
	for _, s := range c.Sessions {
		f.tx.TouchSession(s.ID, c.Time, s.Closed)
	}
	for _, r := range c.Realm {
		f.tx.ChangeRealm(r, c.Time)
	}
	err := c.Each(func(e *eventlog.Entry) error {
		f.events++
		f.total++
		switch {
		case e.Passed && e.Type == lifecycle.ObjectDeleted:
			f.tx.PassRemoval(e.UID, e.Identity, e.Revision)
			return nil
		case e.Passed:
			f.tx.Pass(e.Revision)
			return nil
		}
		if f.watched == nil {
			_, err := f.tx.Add(e.Event, e.Revision, e.Body)
			return err
		}
		return f.addWatched(e)
	})
	for resource, b := range c.Brakes {
		f.tx.SetBrake(resource, b)
	}
	f.tx.LetThrough(c.Released)
	for _, n := range c.Notices {
		f.tx.Prefetch(n.Objects)
		for _, u := range n.Objects {
			f.tx.SetNotice(u, n.Notice)
		}
	}
	return err
}

// addWatched adds an event and keeps its change if its resource is watched.
func (f *Folder) addWatched(e *eventlog.Entry) error {
	n := e.Object.Node
	if n == nil {
		n = f.tx.Node(e.UID)
	}
	resource := ""
	if n != nil {
		if k := f.tx.Kinds().OfNode(n); k != nil {
			resource = k.Resource()
		}
	}
	watched := f.watched(resource)
	var before *coppicev1.Body
	if watched && e.Type != lifecycle.ObjectCreated {
		before = f.tx.ReadableBody(n)
	}
	event := *e.Event // the change outlives the call
	change, err := f.tx.Add(&event, e.Revision, e.Body)
	if err != nil || !watched {
		return err
	}
	if change.After != nil && e.Body != nil {
		event.Object.Body = f.tx.ReadableBody(change.After)
	}
	change.Record(resource, before)
	f.changes = append(f.changes, change)
	return nil
}

// apply writes the effects of the batch.
func (f *Folder) apply() error {
	if f.tx == nil {
		return nil
	}
	if _, err := f.tx.Apply(); err != nil {
		return err
	}
	f.Applied(f.chain.Revision, f.changes)
	f.tx, f.changes, f.events, f.bytes = nil, nil, 0, 0
	return nil
}

// errReached ends a fold at the requested position.
var errReached = errors.New("reached")

// FoldTo folds the log up to a position in its stream.
func (f *Folder) FoldTo(ctx context.Context, log Source, position uint64) error {
	if f.at < position {
		err := f.follow(ctx, log, func(m eventlog.Message, c unpacked) error {
			if err := f.fold(m, c); err != nil {
				return err
			}
			if m.Position >= position {
				return errReached
			}
			return nil
		})
		if !errors.Is(err, errReached) {
			return err
		}
	}
	return f.apply()
}

// FoldFromEmpty folds the log into an empty state up to a position in its stream, and
// leaves out objects that the log itself removes (replay elision). The state is a fold of
// the log only when FoldFromEmpty has returned nil. Nothing may be read from it before.
func (f *Folder) FoldFromEmpty(ctx context.Context, log Source, position uint64) (err error) {
	defer func() { f.elision = nil }()
	for f.at < position {
		if f.elision, err = findElisions(ctx, log, f.keys, f.chain, f.at+1, position, f.most); err != nil {
			return err
		}
		if err := f.FoldTo(ctx, log, f.elision.until); err != nil {
			return err
		}
	}
	return nil
}

// elidedUntil returns the sequence at which the state becomes the fold of the log; 0 if no
// object is left out.
func (f *Folder) elidedUntil() uint64 {
	if f.elision == nil || len(f.elision.candidates.keys) == 0 {
		return 0
	}
	return f.elision.commit
}
