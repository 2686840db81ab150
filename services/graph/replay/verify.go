package replay

import (
	"context"
	"errors"
	"os"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Verify folds the log up to the position of the snapshot into an empty state, without
// elision, and compares the two key by key. The other state is in a temporary directory,
// which becomes as large as the realm's state. begin, unless it is nil, puts a state of an
// earlier commit there, from which the fold continues. After each batch Verify calls progress
// with the sequence of the last commit that was folded, and that of the snapshot's last commit.
// When ctx has ended, reads of snap fail.
func Verify(
	ctx context.Context, snap *state.Snapshot, log Source, keys *eventlog.Keys, begin func(ctx context.Context, dir string) error, progress func(sequence, last uint64),
) (v *coppicev1.VerifyReply, err error) {
	dir, err := os.MkdirTemp("", "coppice-verify-")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if begin != nil {
		if err := begin(ctx, dir); err != nil {
			return v, err
		}
	}
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snap.Until(ctx)
	f := NewFolder(s, snap.Checkpoint().GetStreamCreated(), keys)
	f.Applied = func(uint64, []state.Change) { progress(f.chain.Sequence, snap.Checkpoint().GetSequence()) }
	if err := f.FoldTo(ctx, log, snap.Checkpoint().GetPosition()); err != nil {
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
