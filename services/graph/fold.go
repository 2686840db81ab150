package graph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// folder folds the log into a state: what a replica does, and what a writer
// does before it is one.
type folder struct {
	state *state.State
	// created is when the stream of the log was created.
	created int64
	// begin is called before a batch of commits, and tells of which resources
	// the changes are wanted; flushed is called after it.
	begin   func() (watched func(resource string) bool)
	flushed func(revision uint64, changes []state.Change)
	// skipped is called for each message that is no commit of the realm.
	skipped func(position uint64, why string)
	// foresight is nil for a fold that leaves nothing out.
	foresight *foresight
	most      bounds // of it

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

func newFolder(s *state.State, created int64, keys *eventlog.Keys) *folder {
	chain := eventlog.ChainOf(s.Checkpoint())
	return &folder{
		state: s, created: created, keys: keys, chain: chain, at: chain.Position,
		begin:   func() func(string) bool { return nil },
		flushed: func(uint64, []state.Change) {},
		skipped: func(uint64, string) {},
		most:    memoryBounds,
	}
}

// Bounds of what is folded before it is written.
const (
	maxFolded      = 30000    // events
	maxFoldedBytes = 32 << 20 // of messages
)

// follow folds the log, as it is now and as it grows, until fold returns an
// error or ctx ends.
func (f *folder) follow(ctx context.Context, log source, fold func(eventlog.Message, unpacked) error) error {
	foresight := f.foresight
	return readAhead(ctx, log, f.at+1, func(m eventlog.Message) (u unpacked, err error) {
		if _, u.foreign = f.keys.Check(m); u.foreign != "" {
			return u, nil
		}
		if u.commit, err = m.Open(new([]byte)); err != nil {
			return u, err
		}
		if u.Decoded, err = eventlog.Decode(u.commit); err != nil {
			return u, err
		}
		return u, u.Unpack(foresight.filter())
	}, fold)
}

// unpacked is a commit, and what it says.
type unpacked struct {
	*eventlog.Decoded
	commit  []byte
	foreign string // why the message is no commit, if it is none
}

// fold folds one message. Effects are written when enough have come together,
// or nothing more waits to be folded.
func (f *folder) fold(m eventlog.Message, c unpacked) error {
	f.at = m.Sequence
	why := c.foreign
	if why == "" {
		why = f.chain.Skips(&c.Header)
	}
	if why != "" {
		f.skipped(m.Sequence, why)
		if m.Pending == 0 {
			return f.flush()
		}
		return nil
	}
	if err := f.chain.Next(m.Sequence, c.commit, c.Decoded); err != nil {
		return err
	}
	if f.tx == nil {
		f.tx, f.watched = f.state.Begin(), f.begin()
	}
	if err := f.apply(c.Decoded); err != nil {
		return fmt.Errorf("sequence %d: %w", m.Sequence, err)
	}
	f.bytes += len(c.commit)
	f.tx.EndCommit(state.Commit{
		Sequence: c.Sequence, Position: m.Sequence, Epoch: c.Epoch, Time: c.Time, Checksum: f.chain.Checksum, RealmID: c.RealmID[:], Commands: writer.CommandsOf(c.Commands),
		StreamCreated: f.created, Foreseen: f.foreseen(), Key: f.chain.Key.Number, KeyFingerprint: bytes.Clone(f.chain.Key.Fingerprint[:]),
	})
	f.chain.Revision = f.tx.Checkpoint().GetRevision()
	if c.NewKey != (eventlog.KeyID{}) {
		if err := f.keys.Fit(&f.chain); err != nil {
			return errors.Join(err, f.flush()) // the state records the key
		}
	}
	if f.events >= maxFolded || f.bytes >= maxFoldedBytes || m.Pending == 0 {
		return f.flush()
	}
	return nil
}

func (f *folder) apply(c *eventlog.Decoded) error {
	f.tx.Prefetch(c.Existing())
	for _, s := range c.Sessions {
		f.tx.TouchSession(s.ID, c.Time, s.Closed)
	}
	return c.Each(func(e *eventlog.Entry) error {
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
			_, err := f.tx.Apply(e.Event, e.Revision, e.Body)
			return err
		}
		return f.applyWatched(e)
	})
}

// applyWatched applies an event whose change may be wanted.
func (f *folder) applyWatched(e *eventlog.Entry) error {
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
		before = f.tx.Body(n)
	}
	event := *e.Event // the change outlives the call
	change, err := f.tx.Apply(&event, e.Revision, e.Body)
	if err != nil || !watched {
		return err
	}
	if change.After != nil && e.Body != nil {
		event.Object.Body = f.tx.Body(change.After)
	}
	change.Record(resource, before)
	f.changes = append(f.changes, change)
	return nil
}

// flush writes what was folded.
func (f *folder) flush() error {
	if f.tx == nil {
		return nil
	}
	if _, err := f.tx.Flush(); err != nil {
		return err
	}
	f.flushed(f.chain.Revision, f.changes)
	f.tx, f.changes, f.events, f.bytes = nil, nil, 0, 0
	return nil
}

// errReached ends a fold that has come to where it was to go.
var errReached = errors.New("reached")

// foldTo folds the log until a sequence.
func (f *folder) foldTo(ctx context.Context, log source, sequence uint64) error {
	if f.at < sequence {
		err := f.follow(ctx, log, func(m eventlog.Message, c unpacked) error {
			if err := f.fold(m, c); err != nil {
				return err
			}
			if m.Sequence >= sequence {
				return errReached
			}
			return nil
		})
		if !errors.Is(err, errReached) {
			return err
		}
	}
	return f.flush()
}

// foldAnew folds the log into an empty state until a sequence. What is removed on
// the way is left out, as far as that can be foreseen; so the state is a fold of
// the log only once it has come there, and nobody may be served before.
func (f *folder) foldAnew(ctx context.Context, log source, sequence uint64) (err error) {
	defer func() { f.foresight = nil }()
	for f.at < sequence {
		if f.foresight, err = foresee(ctx, log, f.keys, f.chain, f.at+1, sequence, f.most); err != nil {
			return err
		}
		if err := f.foldTo(ctx, log, f.foresight.until); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) foreseen() uint64 {
	if f.foresight == nil || len(f.foresight.fates.keys) == 0 {
		return 0 // nothing is left out
	}
	return f.foresight.commit
}

// verify folds the log into an empty state, as far as the snapshot has, and
// compares the two.
func verify(ctx context.Context, snap *state.Snapshot, log source, keys *eventlog.Keys, progress func(sequence, last uint64)) (v *coppicev1.VerifyReply, err error) {
	dir, err := os.MkdirTemp("", "coppice-verify-")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snap.Until(ctx)
	f := newFolder(s, snap.Checkpoint().GetStreamCreated(), keys)
	f.flushed = func(uint64, []state.Change) { progress(f.chain.Sequence, snap.Checkpoint().GetPosition()) }
	if err := f.foldTo(ctx, log, snap.Checkpoint().GetPosition()); err != nil {
		return v, err
	}
	fresh := s.Snapshot()
	defer func() { err = errors.Join(err, fresh.Close()) }()
	v = &coppicev1.VerifyReply{Sequence: fresh.Checkpoint().GetSequence(), Revision: fresh.Revision(), Events: f.total}
	difference, err := state.Diff(snap, fresh)
	if err != nil {
		return nil, err
	}
	if difference != nil {
		v.Difference = difference.String()
	}
	totals, err := fresh.Totals()
	v.Objects = uint64(totals.Objects)
	return v, err
}
