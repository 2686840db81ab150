package past

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// Log is a realm's log: an wholelog.Log or a recording.Log. See wholelog.Log for the methods.
type Log interface {
	replay.Source
	Readable(ctx context.Context) (eventlog.Readable, error)
	Seek(ctx context.Context, revision uint64) (position uint64, err error)
	SeekTime(ctx context.Context, t lifecycle.Time) (position uint64, err error)
	Read(ctx context.Context, from uint64, limit, maxBytes int, visit func(eventlog.Message) error) (pending uint64, err error)
	Skips(ctx context.Context, m eventlog.Message, h *eventlog.Header) (why string, err error)
}

// Config describes a realm. All fields are required, except Archive.
type Config struct {
	Realm string
	Log   Log
	Keys  *eventlog.Keys
	// Created is when the stream of the log was created, Unix nanoseconds; 0 without one.
	Created int64
	// Archive has the snapshots of the realm; nil for none.
	Archive archive.Store
	// State is the realm's present state. While it is that of the wanted commit, it is read itself.
	State *state.State
	// Now is the realm's time.
	Now    func() time.Time
	Logger *slog.Logger
}

// Reader reads the past of a realm. It is safe for concurrent use.
type Reader struct {
	c      Config
	cache  *Cache
	ctx    context.Context //nolint:containedctx // of the states that are being built
	cancel context.CancelFunc
	jobs   sync.WaitGroup
}

// Realm returns the Reader of a realm, which has no state yet. It must be closed.
func (c *Cache) Realm(of Config) *Reader {
	h := &Reader{c: of, cache: c}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close ends what is being built, and removes the states of the realm from the cache. Those
// that are in use are removed when they are released.
func (r *Reader) Close() error {
	r.cancel()
	r.jobs.Wait()
	return r.cache.drop(r)
}

func (r *Reader) realmID() (id [16]byte) {
	copy(id[:], r.c.State.Checkpoint().GetRealmId())
	return id
}

// State is a state of the past, which is in use until it is released. It is for one goroutine.
type State struct {
	Commit
	// Snapshot is the state. Release closes it.
	Snapshot *state.Snapshot
	release  func()
}

// Release ends the use of the state. It must be called once.
func (p *State) Release() error {
	defer p.release()
	return p.Snapshot.Close()
}

// At returns the state after a commit that Find has found, and builds it for an actor if the cache does not
// have it. If ctx ends first, the error is a BuildingError: the building goes on, and a later call
// returns the state.
//
// Other errors are a *lifecycle.Error: TooManyRequests if too many states are wanted at the same
// time, by all actors or by this one, or if the cache or the disk has no room now;
// RequestEntityTooLarge if the state is larger than the cache may be; ServiceUnavailable if the archive
// cannot be read now or the Reader is being closed; otherwise InternalError, for example for a
// damaged log.
func (r *Reader) At(ctx context.Context, actor string, c Commit) (*State, error) {
	if present := r.c.State.Snapshot(); present.Checkpoint().GetSequence() == c.Sequence {
		return &State{Commit: commitOf(present.Checkpoint()), Snapshot: present, release: func() {}}, nil
	} else if err := present.Close(); err != nil {
		return nil, r.failed(c, err)
	}
	return r.Rebuilt(ctx, actor, c)
}

// Rebuilt is At for a caller that does not trust the realm's present state: the returned state is never
// that one, also if the commit is the last one.
func (r *Reader) Rebuilt(ctx context.Context, actor string, c Commit) (*State, error) {
	e, err := r.cache.enter(r, actor, c)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.built:
	case <-ctx.Done():
		r.cache.release(e)
		return nil, &BuildingError{Realm: r.c.Realm, Revision: c.Revision, Percent: e.percent()}
	}
	if e.err != nil {
		r.cache.release(e)
		return nil, e.err
	}
	snap := e.state.Snapshot()
	return &State{Commit: commitOf(snap.Checkpoint()), Snapshot: snap, release: func() { r.cache.release(e) }}, nil
}

// BuildingError says that a state is still being built.
type BuildingError struct {
	Realm    string
	Revision uint64
	Percent  int // of the commits that are to be read
}

func (e *BuildingError) Error() string {
	return fmt.Sprintf("realm %s: the state at revision %d is being built: %d%% done; try again", e.Realm, e.Revision, e.Percent)
}

// failed returns the error for a state that cannot be built.
func (r *Reader) failed(c Commit, err error) error {
	var refused *lifecycle.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case r.ctx.Err() != nil:
		return &lifecycle.Error{
			Reason: api.ErrServiceUnavailable, RetryAfter: 250 * time.Millisecond,
			Message: fmt.Sprintf("realm %s: this process does not answer any more; try again", r.c.Realm),
		}
	}
	var unavailable *wholelog.UnavailableError
	if errors.As(err, &unavailable) {
		return r.unreadable(r.ctx, err)
	}
	r.c.Logger.Warn("cannot build a state of the past", "revision", c.Revision, "commit", c.Sequence, "error", err)
	return &lifecycle.Error{
		Reason:  api.ErrInternalError,
		Message: fmt.Sprintf("realm %s: the state at revision %d cannot be built: %v", r.c.Realm, c.Revision, err),
	}
}
