package graph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// keepTail is the time between two writes of the mark of the log's end, if it has grown.
const keepTail = time.Second

// Written returns patterns of fs.Glob for the files in the directory of a graph service that belong to one secret: those of
// states and of marks.
func Written() []string { return []string{"*/MANIFEST-*", "*/marker.*", tail.File("", "*")} }

// openTail reads the mark of the log's end. A mark that cannot be read is replaced, since
// the checkpoint of the state is compared with the log too.
func (r *opening) openTail() {
	k, err := tail.Open(tail.File(r.c.Dir, r.name))
	if err != nil {
		r.log.Warn("cannot read which commit of the log was the last; only the state is compared with the log", "error", err)
	}
	r.tail = k
}

// keepTail writes the mark of the log's end about once a second until ctx ends.
func (r *following) keepTail(ctx context.Context) {
	tick := time.NewTicker(keepTail)
	defer tick.Stop()
	reported := false
	for {
		if err := r.tail.Keep(r.state.Checkpoint()); err != nil && !reported {
			reported = true
			r.log.Warn("cannot write which commit of the log is the last; a loss of the newest commits may not be noticed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// known returns the sequence of the last commit that this process has seen of the log.
func (r *opening) known() uint64 { return max(r.seen.GetSequence(), r.tail.Mark().Sequence) }

// accepts reports whether an operator has accepted that commits up to a sequence are lost.
func (r *realm) accepts(sequence uint64) bool {
	return sequence > 0 && r.c.AcceptLoss[r.name] == sequence
}

// checkLog compares the state and the mark of the log's end with the log. If the log has
// lost commits and an operator has accepted that, it sets aside a state that has them.
func (r *opening) checkLog(ctx context.Context, catching func() bool) error {
	lost, err := r.compareLog(ctx, catching)
	if err != nil || !lost {
		return err
	}
	r.unusable = nil // an empty state takes its place
	return r.setAside()
}

// compareLog is checkLog, but leaves the state where it is: lost reports whether it has commits that the log has
// lost, which an operator has accepted.
func (r *opening) compareLog(ctx context.Context, catching func() bool) (lost bool, err error) {
	compare := func(check func(ctx context.Context, catching bool) error) (lost *replay.MismatchError, err error) {
		err = r.await(ctx, func(ctx context.Context) error { return check(ctx, catching()) })
		if errors.As(err, &lost) {
			lost.Known = r.known()
		}
		if foreign := (*replay.ForeignError)(nil); errors.As(err, &foreign) {
			foreign.DataDir = r.c.DataDir
		}
		return lost, err
	}
	ofState, err := compare(func(ctx context.Context, catching bool) error {
		return replay.CheckLog(ctx, r.seen, r.wholeLog, r.name, r.dir(), catching)
	})
	if errors.As(err, &r.cut) && r.archive != nil {
		err = nil // the archive may have a snapshot: see findState
	}
	checkTail := func(ctx context.Context, catching bool) error {
		return replay.CheckTail(ctx, r.tail.Mark(), r.wholeLog, r.name, r.dir(), catching)
	}
	if err != nil && (ofState == nil || !r.accepts(r.known())) {
		if ofState != nil {
			_, lost := compare(checkTail)
			ofState.Rebuild = lost == nil
		}
		return false, err
	}
	ofTail, err := compare(checkTail)
	if err != nil && (ofTail == nil || !r.accepts(r.known())) {
		return false, err
	}
	newest := cmp.Or(ofTail, ofState)
	if newest == nil {
		return false, nil
	}
	r.tail.Freeze()
	r.loss = &writer.Loss{Note: newest.What, Revision: max(r.seen.GetRevision(), r.tail.Mark().Revision) + writer.LostAhead}
	r.log.Error("continuing without commits that the log has lost, because of --accept-loss", "loss", newest.What)
	return ofState != nil, nil
}

// setAside renames the directory of a state that has commits which the log has lost. findState
// then puts another state in its place.
func (r *opening) setAside() error {
	if r.state != nil {
		if err := r.state.Close(); err != nil {
			return err
		}
		r.state = nil
	}
	to := filepath.Join(r.c.Dir, fmt.Sprintf(".lost-%s-%d", r.name, r.known()))
	if err := errors.Join(state.CheckUnlocked(r.dir()), os.RemoveAll(to)); err != nil {
		return err
	}
	if err := os.Rename(r.dir(), to); err != nil {
		return err
	}
	r.log.Warn("the state with the lost commits is set aside", "directory", to)
	return nil
}

// lossRecorded notes that the log has a commit that records a loss. revision is the one from which
// the log continues.
func (r *withLog) lossRecorded(revision uint64) {
	if r.tail.Forget(revision) {
		r.loss = nil
	}
}

// errRecorded ends the run of a realm whose writer has recorded a loss. It is started
// again, so that watches cannot resume from a revision that was lost.
var errRecorded = errors.New("the loss of commits is recorded")

// recordLoss runs a writer until its first commit, which records the loss.
func (r *following) recordLoss(ctx context.Context, w *writer.Writer, ready <-chan struct{}) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(writing) }()
	select {
	case err := <-ended:
		return err
	case <-ready:
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	r.lossRecorded(r.loss.Revision + 1)
	return errors.Join(errRecorded, r.state.Sync())
}
