package graph

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/coppice-gc/coppice/services/graph/api"
	"github.com/coppice-gc/coppice/services/graph/api/objects"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
	"github.com/coppice-gc/coppice/services/graph/archiver"
	"github.com/coppice-gc/coppice/services/graph/clock"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/past"
	"github.com/coppice-gc/coppice/services/graph/watch"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// following is a realm with a state that follows the log: a replica.
type following struct {
	*withLog
	hub      *watch.Hub
	past     *past.Reader
	archiver *archiver.Archiver // nil without an archive
	// workless: the work stream did not answer the last measurement. Only measure uses it.
	workless bool
}

// newFollowing needs a state. The hub and the past must be closed.
func newFollowing(o *withLog) *following {
	r := &following{withLog: o, hub: o.watches.NewHub(o.name, o.state.Checkpoint().GetRevision(), o.clock.Now, o.c.Watch)}
	r.past = r.openPast()
	r.archiver = r.newArchiver()
	return r
}

// replicate follows the log, serves readers, and writes while it has the lease, until ctx ends or
// an error occurs. It calls cancel, which ends ctx, if the log has lost commits that the state has.
func (r *following) replicate(ctx context.Context, cancel func()) (err error) {
	watching, stopWatching := context.WithCancel(ctx)
	var watched sync.WaitGroup
	var lost error
	watched.Go(func() { r.keepTail(watching) })
	watched.Go(func() {
		if lost = r.checkLogs(watching); lost != nil {
			cancel()
		}
	})
	defer func() {
		stopWatching()
		watched.Wait()
		if lost != nil {
			err = lost
		}
		err = errors.Join(err, r.tail.Keep(r.state.Checkpoint()))
	}()
	state := r.state
	r.events.Knows(func() eventlog.Chain { return eventlog.ChainOf(state.Checkpoint()) })
	r.appends.Store(r.events)
	r.enter(phaseCatching)
	defer r.hub.Close()
	r.shown.Store(r.hub)
	defer func() { err = errors.Join(err, r.past.Close()) }()
	stopObserving, err := r.consumers.Observe(r.c.Conn)
	if err != nil {
		return err
	}
	defer stopObserving()
	// The replica serves when it has caught up for the first time. Before, its replies
	// would be out of date, or even empty; clients get "not ready" instead (X15).
	var replica *serve.Server
	caughtUp := func() (err error) {
		if replica == nil {
			watched.Go(func() { r.runArchiver(watching) })
			replica, err = r.serveReplica()
		}
		return err
	}
	defer func() {
		r.setServed(nil)
		if replica != nil {
			err = errors.Join(err, replica.Stop())
		}
	}()
	return r.takeTurns(ctx, caughtUp)
}

// takeTurns follows the log until this process has the lease, and then writes until it loses it, in turn. It calls
// caughtUp each time the replica has caught up with the log.
func (r *following) takeTurns(ctx context.Context, caughtUp func() error) error {
	for {
		l, err := r.follow(ctx, caughtUp)
		if err != nil {
			return err
		}
		if err = r.checkNewest(ctx); err == nil {
			err = r.write(ctx, l)
		}
		if fail := l.Release(context.WithoutCancel(ctx)); fail != nil {
			r.log.Warn("cannot release the lease", "error", fail)
		}
		var skew *clock.SkewError
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the run was ended
		case errors.Is(err, errRecorded):
			return err
		case errors.Is(err, errLeave):
			r.log.Info("not the writer any more; another process takes over")
		case errors.Is(err, writer.ErrLeaseLost), errors.Is(err, eventlog.ErrFenced), errors.As(err, &skew):
			r.log.Warn("not the writer any more", "reason", err)
		case errors.As(err, new(*eventlog.BrokenError)):
			return cmp.Or(r.checkExtent(ctx), err) // the former says what to do
		default:
			return err
		}
	}
}

// serveReplica begins to serve readers.
func (r *following) serveReplica() (*serve.Server, error) {
	r.setServed(&served{r.state, r.events})
	return api.ServeReplica(r.apiConfig(), api.ReplicaConfig{
		Reached: r.hub.Wait,
		Now:     r.time.Now,
		Objects: objects.ReplicaConfig{Consumers: r.consumers, Grants: r.grants()},
		Streams: streams.Config{
			Admit:     r.hub.Admit,
			Watch:     func(ctx context.Context, t watch.Target) error { return r.hub.Serve(ctx, r.state, t) },
			Graph:     r.hub.ServeGraph,
			Verify:    r.verify,
			Archive:   r.archiveVerb(),
			Log:       wholelog.NewLineage(r.clientLog),
			JS:        r.js,
			Consumers: r.consumers,
			Heartbeat: r.c.Heartbeat,
			ReplyTime: r.c.ReplyTime,
		},
	})
}

func (r *following) apiConfig() serve.Config {
	return serve.Config{
		Realm: r.name, Conn: r.c.Answers, AnyActor: r.c.AnyActor, Access: r.c.Access, Actors: r.c.Actors, State: r.state, Instance: r.c.Instance, Version: r.c.Version, Log: r.log, Warn: r.warner.Reference,
		Process: r.requests, Refused: r.metrics.refused.count, TracerProvider: r.c.TracerProvider,
	}
}

// grants returns the grants of the realm.
func (r *following) grants() *objects.Grants {
	state := r.state
	id := func() [16]byte { return realmID(state.Checkpoint()) } // a new realm has none at first
	return objects.NewGrants(r.c.Secrets, r.name, id)
}
