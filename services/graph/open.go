package graph

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/tail"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// withLog is a realm with its log, and with the state into which it is folded. Later phases are built on it.
type withLog struct {
	*realm
	events *eventlog.Log
	// wholeLog is events with what the archive has before the stream's first message.
	wholeLog *wholelog.Log
	// clientLog is the whole log for clients: it passes over damaged segments.
	clientLog    *wholelog.Log
	parkedStream jetstream.Stream
	// begins is the last position of the stream with which it was found to begin: what precedes it is archived. See
	// logBegins.
	begins atomic.Uint64
	// end is the last position of the log that this replica has caught up with.
	end  uint64
	tail *tail.Keeper
	loss *writer.Loss // of commits of the log, until it is recorded; nil for none
	// state is nil while there is none that can be used: until findState has found one, and while that replaces
	// it.
	state *state.State
}

// opening is a realm for which a state is looked for that fits its log. Nothing is served yet, and one goroutine uses
// it.
type opening struct {
	*withLog
	// seen is the checkpoint of the state when it was opened, also of one whose rebuild was interrupted.
	seen *coppicev1.Checkpoint
	// unusable is why the state must be rebuilt before it is opened; nil if it need not be.
	unusable error
	// cut is set if the log begins behind the state: see findState.
	cut *replay.CutError
}

// newOpening begins a run of the realm.
func newOpening(r *realm) *opening {
	o := &opening{withLog: &withLog{realm: r}}
	o.skips.Report = o.reportSkipped
	o.openTail()
	return o
}

// openHistory opens the log of the realm, with what the archive has before it, and checks that it is
// the one that this replica knows.
func (r *opening) openHistory(ctx context.Context) error {
	if err := r.openLog(ctx); err != nil {
		return err
	}
	if err := r.openArchived(ctx); err != nil {
		return err
	}
	r.clock.Compare() // NATS replies now; earlier comparisons may have failed
	begun := time.Now()
	catching := func() bool { return time.Since(begun) < r.events.MaxLag() }
	lost := r.restoreTail(ctx, catching)
	if err := r.checkLog(ctx, catching); err != nil {
		return errors.Join(err, lost)
	}
	return r.checkExtent(ctx)
}

// openLog opens the log and creates the other streams if they do not exist. It creates a
// log only if the state is empty. Otherwise a missing log is a MismatchError: an operator
// has to restore it. A mark of another installation is a ForeignError.
func (r *opening) openLog(ctx context.Context) error {
	seen := r.known()
	return r.await(ctx, func(ctx context.Context) (err error) {
		if seen > 0 && !r.accepts(seen) {
			r.events, err = eventlog.OpenExisting(ctx, r.js, r.name, r.keys)
		} else {
			r.events, err = eventlog.Open(ctx, r.js, r.name, r.c.Replicas, r.keys)
		}
		switch {
		case seen > 0 && errors.Is(err, jetstream.ErrStreamNotFound):
			if r.seen.GetSequence() == 0 {
				if err := replay.CheckMark(r.tail.Mark(), r.keys, r.name, r.dir()); err != nil {
					return err
				}
			}
			return &replay.MismatchError{Realm: r.name, Dir: r.dir(), Known: seen, What: fmt.Sprintf("the stream of the log, %s, is gone, and this graph service has seen %d commits of it. If the NATS server warns of the meta.inf or meta.sum of the stream at its start, its messages are still there: see \"Metadata of NATS\" in docs/operations.md", bus.LogStream(r.name), seen)}
		case err != nil:
			return err
		}
		r.events.Report(r.log)
		r.raiseReplicas(ctx)
		if err = r.ensureStreams(ctx); err != nil {
			return err
		}
		r.parkedStream, err = r.js.Stream(ctx, bus.ParkedStream(r.name))
		return err
	})
}

// raiseReplicas has as many servers store the log as the configuration says, if they are fewer, as after a restore. A
// log whose copies cannot be made is served as before.
func (r *withLog) raiseReplicas(ctx context.Context) {
	before, err := r.events.Raise(ctx, r.c.Replicas)
	switch {
	case err != nil:
		r.log.Warn("the log may be stored by fewer NATS servers than --replicas says, and that could not be changed", "replicas", r.c.Replicas, "error", err)
	case before < r.c.Replicas:
		r.log.Warn("the log was stored by fewer NATS servers than --replicas says; copies are being made", "stored", before, "replicas", r.c.Replicas)
	}
}

// ensureStreams creates or updates the streams of work and of calls. It creates consumers again that leave out
// messages, and a stream whose consumers are damaged, as after a power loss: what it had is published again.
func (r *realm) ensureStreams(ctx context.Context) error {
	failed := bus.EnsureStreams(ctx, r.js, r.name, r.c.Replicas)
	if failed != nil && !bus.IsConsumerDamaged(failed) {
		return failed
	}
	of := &bus.StreamError{}
	errors.As(failed, &of)
	again := false
	for _, name := range []string{bus.WorkStream(r.name), bus.FinalizeStream(r.name)} {
		why := failed
		if of.Stream != name {
			err := r.renewConsumers(ctx, name)
			if err == nil {
				continue
			}
			if !bus.IsConsumerDamaged(err) {
				return err
			}
			why = err
		}
		again = true
		r.log.Warn("the consumers of a stream are damaged, as after a power loss of the NATS server, or are of a newer version of it; the stream is created again, and its messages published again", "stream", name, "error", why)
		if err := bus.RecreateStream(ctx, r.js, name); err != nil {
			return err
		}
	}
	if !again {
		return failed // it is of a stream that nothing can publish again
	}
	return bus.EnsureStreams(ctx, r.js, r.name, r.c.Replicas)
}

// renewConsumers creates consumers of a stream again that leave out messages. It does not look for messages that
// consumers of calls leave out, since there may be hundreds of consumers: that is done when their programs ask for them.
func (r *realm) renewConsumers(ctx context.Context, stream string) error {
	s, err := r.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	all, err := bus.Consumers(ctx, s)
	if err != nil {
		return err
	}
	leave, err := bus.Ahead(ctx, s, all)
	if err == nil && len(leave) == 0 && stream == bus.WorkStream(r.name) {
		leave, err = bus.LeaveOut(ctx, s, all)
	}
	if err != nil || len(leave) == 0 {
		return err
	}
	if err := bus.StoresConsumers(ctx, r.js, r.name); err != nil {
		r.log.Warn("a consumer leaves out messages, as after a power loss of the NATS server, and no new one can be stored; start this process again when NATS can store one", "stream", stream, "consumer", leave[0].Name, "error", err)
		return nil
	}
	for _, c := range leave {
		r.log.Warn("a consumer leaves out messages, as after a power loss of the NATS server; it is created again", "stream", stream, "consumer", c.Name)
		if err := bus.RenewConsumer(ctx, s, c, c.Config); err != nil {
			return fmt.Errorf("stream %s: consumer %s: %w", stream, c.Name, err)
		}
	}
	return nil
}

// await calls do until it succeeds or fails with an error that waiting does not cure. It
// waits for NATS, for JetStream, and for the leader of a stream.
func (r *realm) await(ctx context.Context, do func(context.Context) error) error {
	reported := ""
	defer r.waits.Store(nil)
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return do(ctx)
		}()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !bus.IsNotReady(err) && !errors.Is(err, replay.ErrBehind):
			return err
		case err.Error() != reported:
			reported = err.Error()
			err = waiting(ctx, r.log, "waiting for JetStream", err)
			r.waits.Store(&err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// waiting logs why a request to JetStream is tried again, and returns it with what to do if NATS
// has refused storage or memory.
func waiting(ctx context.Context, log *slog.Logger, what string, err error) error {
	level := slog.LevelInfo
	if advice := bus.Advice(err); advice != "" {
		level, err = slog.LevelWarn, fmt.Errorf("%w: %s", err, advice)
	}
	log.Log(ctx, level, what, "error", err)
	return err
}

// openState opens the state. A state that cannot be used, or whose rebuild was interrupted, is not
// withLog: it stays on disk until checkLog has found that its log still exists. Then findState
// replaces it.
func (r *opening) openState() error {
	s, err := state.Open(r.dir(), r.c.State)
	var unfinished *state.UnfinishedError
	var newer *state.NewerError
	switch {
	case errors.As(err, &unfinished):
		r.log.Warn("the state cannot be used, and is rebuilt from the log", "error", err)
		r.seen = unfinished.Checkpoint
		return nil
	case errors.Is(err, state.ErrSchema), errors.Is(err, state.ErrDamaged):
		r.log.Warn("the state cannot be used, and is rebuilt from the log", "error", err)
		r.unusable = err
		return nil
	case errors.As(err, &newer):
		return fmt.Errorf("realm %s: %w; nothing was changed", r.name, err)
	case errors.Is(err, state.ErrLocked):
		return fmt.Errorf("realm %s: %s is in use by another process; give each graph service a directory of its own", r.name, r.dir())
	case err != nil:
		return r.failure(err)
	}
	r.state, r.seen = s, s.Checkpoint()
	return nil
}

// resetState deletes the state, which must not be open, and opens an empty one.
func (r *opening) resetState() error {
	if err := state.Remove(r.dir()); err != nil {
		return err
	}
	s, err := state.Open(r.dir(), r.c.State)
	if err != nil {
		return r.failure(err)
	}
	r.state, r.seen = s, s.Checkpoint()
	return nil
}

// rebuildState replaces a state that cannot be used by a replay of the log. If the log
// cannot be read to its end, the state stays as it is.
func (r *opening) rebuildState(ctx context.Context) error {
	why := r.unusable
	r.enter(phaseCatching)
	done, err := replay.Replace(ctx, r.wholeLog, r.c.Dir, r.c.State)
	if errors.Is(err, state.ErrLocked) {
		return fmt.Errorf("realm %s: %w, and must be rebuilt, but it is still in use: restart this process", r.name, why)
	}
	if err != nil {
		return fmt.Errorf("realm %s: %w; it cannot be rebuilt: %w", r.name, why, err)
	}
	if err := r.open(); err != nil {
		return err
	}
	r.rebuilt("the log", "events", done.Events, "revision", done.Revision)
	return nil
}

// rebuilt reports that a state which could not be used was replaced.
func (r *opening) rebuilt(from string, attrs ...any) {
	why := r.unusable
	if why == nil {
		return
	}
	r.unusable = nil
	r.log.Warn("the state was rebuilt from "+from, append(attrs, "reason", why)...)
	if !errors.Is(why, state.ErrDamaged) {
		return
	}
	r.metrics.all.rebuilds.WithLabelValues(r.name).Inc()
	if id, err := uuid.FromBytes(r.seen.GetRealmId()); err == nil {
		r.warner.Rebuilt(uid.FromUUID(id), fmt.Sprintf("the state of the graph service %s was rebuilt from %s: %v; check its disk", r.c.Instance, from, why))
	}
}

// failure adds to an error of the state what to do about it.
func (r *realm) failure(err error) error {
	what := "free disk space or replace the disk, and start again"
	if errors.Is(err, state.ErrDamaged) {
		what = "the next start rebuilds the state from it"
	}
	return fmt.Errorf("realm %s: %w; the log is unharmed: %s", r.name, err, what)
}

// whenFailed calls end when the state fails, unless stop was called before.
func (r *withLog) whenFailed(end func()) (stop func()) {
	if r.state == nil {
		return func() {}
	}
	stopped, done := make(chan struct{}), make(chan struct{})
	failed := r.state.Failed()
	go func() {
		defer close(done)
		select {
		case <-failed:
			end()
		case <-stopped:
		}
	}()
	return func() {
		close(stopped)
		<-done
	}
}

// closeState closes the state, when everything that uses it has ended because of why. If
// the state has failed, it returns that failure instead of the errors that followed.
func (r *withLog) closeState(why error) error {
	if r.state == nil {
		return why
	}
	if r.state.Failure() == nil { // also if the log is lost: then the state is the last copy
		if err := r.state.Sync(); err != nil {
			r.log.Warn("cannot flush the state; the next start folds the last commits again", "error", err)
		}
	}
	err := r.state.Close()
	if fail := r.state.Failure(); fail != nil {
		return r.failure(fail)
	}
	return errors.Join(why, err)
}
