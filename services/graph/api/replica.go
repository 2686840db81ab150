package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/admission"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// replicaServer serves reads that any replica can answer.
type replicaServer struct {
	*server
	r         Replica
	consuming chan struct{} // has an element while a call creates a consumer

	verifiers *quota
	verifying sync.Mutex
	running   *verification // the one that was begun last; nil if there is none
	// verifyPlace is the place of the verification that is carried out.
	verifyPlace chan struct{}

	logReaders, warningReaders *quota
	logChunks                  *admission.Limiter // one place for each chunk that is read
}

// Replica is what ServeReplica needs in addition to Config.
type Replica struct {
	// Reached waits until the state has reached a revision.
	Reached func(ctx context.Context, revision uint64) error
	// Admit takes a place for a watch of an actor, which leave releases. It fails if no
	// place is free.
	Admit func(actor string) (leave func(), err *lifecycle.Error)
	// Watch serves an admitted watch until it ends, and returns the reason.
	Watch func(ctx context.Context, t watch.Target) error
	// Heartbeat is the maximum time between two messages of a streamed reply; it must be positive.
	Heartbeat time.Duration
	// ReplyTime is the maximum duration of a watch, and of a reply with commits or warnings; 5 min
	// and 1 min if zero.
	ReplyTime time.Duration
	// Verify compares the state with its log, from the first commit on if full is set. It calls
	// progress with sequences: of the last commit that was compared, and of the last one.
	Verify func(ctx context.Context, full bool, progress func(sequence, last uint64)) (*coppicev1.VerifyReply, error)
	Log    LogReader
	// JS reads and changes streams, on a connection that serves no requests.
	JS jetstream.JetStream
	// Consumers observes the consumers of calls; nil for a recording.
	Consumers *consumers.Observer
	Now       func() time.Time
}

// queueReplicas is the queue group in which replicas share requests.
const queueReplicas = "replicas"

// ServeReplica serves reads at a named revision until it is stopped.
func ServeReplica(c Config, r Replica) (Stopper, error) {
	s, err := newServer(c, c.Process.ofReplicas(), "coppice-replica", "Coppice's graph: owners, dependents, watches", queueReplicas)
	if err != nil {
		return nil, err
	}
	rs := newReplicaServer(s, r)
	for _, e := range []struct {
		*endpoint
		handle func(*request)
	}{
		{s.verb(bus.VerbResolve), rs.resolveObjects},
		{s.verb(bus.VerbPlan), rs.plan},
		{s.verb(bus.VerbWatch), rs.watch},
		{s.operation(bus.OpResolve, bus.RoleProcessor, bus.RoleScanner), rs.resolve},
		{s.operation(bus.OpWalk, bus.RoleScanner), rs.walk},
		{s.operation(bus.OpDue, bus.RoleScanner), rs.due},
		{s.verb(bus.VerbReadLog), rs.readLog},
		{s.verb(bus.VerbReadWarnings), rs.readWarnings},
		{s.verb(bus.VerbConsumeFinalizer), rs.consumeFinalizer},
		{s.verb(bus.VerbConsumeAgent), rs.consumeAgent},
		{s.verb(bus.VerbConsumeExpiry), rs.consumeExpiry},
		{s.verb(bus.VerbListConsumers), rs.listConsumers},
		{s.verb(bus.VerbListFinalizers), rs.listFinalizers},
		{s.verb(bus.VerbListParked), rs.listParked},
		{s.verb(bus.VerbRetryParked), rs.retryParked},
		{s.verb(bus.VerbDropParked), rs.dropParked},
		{s.verb(bus.VerbVerify), rs.verify},
	} {
		if err := s.add(e.endpoint, e.handle); err != nil {
			_ = s.Stop()
			return nil, err
		}
	}
	s.subscribed()
	return s, nil
}

func newReplicaServer(s *server, r Replica) *replicaServer {
	quota := func(what string, each, of int, shared *admission.Limiter) *quota {
		return &quota{what: what, places: admission.New(of, each).Within(shared, s.Realm), shared: shared}
	}
	return &replicaServer{
		server: s, r: r, consuming: make(chan struct{}, 1), verifyPlace: make(chan struct{}, 1),
		logChunks:      admission.New(maxLogReading, maxLogReading).Within(s.shared.logChunks, s.Realm),
		verifiers:      quota("verifications", maxVerifiersActor, maxVerifiers, s.shared.verifiers),
		logReaders:     quota("readers of the log", maxLogReadersActor, maxLogReaders, s.shared.logReaders),
		warningReaders: quota("readers of warnings", maxWarningReadersActor, maxWarningReaders, s.shared.warningReaders),
	}
}

// atLeast replies from a snapshot of a revision or a later one.
func (s *replicaServer) atLeast(q *request, revision uint64, answer func(*state.Snapshot) (proto.Message, *lifecycle.Error)) {
	s.readAtLeast(s.pages, q, revision, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) { return answer(snap) })
}

// readAtLeast is atLeast for a read that needs a place of a limiter; nil for none.
func (s *replicaServer) readAtLeast(
	places *admission.Limiter, q *request, revision uint64, answer func(context.Context, *state.Snapshot) (proto.Message, *lifecycle.Error),
) {
	s.within(places, q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		wait, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := s.r.Reached(wait, revision); err != nil {
			return nil, &lifecycle.Error{
				Reason: api.ErrServiceUnavailable, RetryAfter: 100 * time.Millisecond,
				Message: fmt.Sprintf("realm %s: this replica has not reached revision %d yet; try again", s.Realm, revision),
			}
		}
		return s.snapshot(ctx, answer)
	})
}

// snapshot answers from the state as it is now.
func (s *replicaServer) snapshot(ctx context.Context, answer func(context.Context, *state.Snapshot) (proto.Message, *lifecycle.Error)) (proto.Message, *lifecycle.Error) {
	snap := s.State.Snapshot().Until(ctx)
	defer snap.Close()
	m, err := answer(ctx, snap)
	if fail := snap.Err(); fail != nil {
		return nil, s.unreadable(fail)
	}
	return m, err
}

// now returns the time at which a snapshot is evaluated: the realm's time, and never before
// that of the snapshot.
func (s *replicaServer) now(snap *state.Snapshot) lifecycle.Time {
	return max(lifecycle.TimeOf(s.r.Now()), snap.Time())
}

// lagTime is how long a resolve for a processor waits for its revision. A chunk of dirty
// objects can name a revision that does not exist, and a processor's worker waits
// meanwhile.
const lagTime = 250 * time.Millisecond

// Limits of what is resolved at once.
const (
	maxResolve = 10000
	// maxTotal is where a resolve stops counting its total.
	maxTotal   = 1000000
	maxClosure = 10000
)

func (s *replicaServer) resolve(q *request) {
	var r coppicev1.ResolveRequest
	if err := q.read(&r); err != nil {
		q.answer(nil, err)
		return
	}
	uids, err := uid.Unpack(nil, r.GetUids())
	if err != nil || len(uids) > maxResolve {
		q.answer(nil, lifecycle.ErrBadRequest("uids: %d of them, at most %d: %v", len(uids), maxResolve, err))
		return
	}
	s.background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		lag, cancel := context.WithTimeout(ctx, lagTime)
		defer cancel()
		if least := r.GetMinRevision(); s.r.Reached(lag, least) != nil {
			return &coppicev1.ResolveReply{Revision: min(s.State.Checkpoint().GetRevision(), least-1)}, nil
		}
		return s.snapshot(ctx, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
			closure := min(int(r.GetClosure()), maxClosure)
			if !r.GetPartial() {
				return resolve.Resolve(snap, uids, closure, s.now(snap), s.Warn), nil
			}
			reply, left := resolve.Part(snap, uids, closure, s.now(snap), s.Warn)
			for _, u := range uids[len(uids)-left:] {
				reply.Left = append(reply.Left, u...)
			}
			return reply, nil
		})
	})
}

func (s *replicaServer) walk(q *request) {
	var r coppicev1.WalkRequest
	if err := q.read(&r); err != nil {
		q.answer(nil, err)
		return
	}
	after, fail := decodeToken(string(r.GetCursor()))
	if fail != nil {
		q.answer(nil, fail)
		return
	}
	s.readAtLeast(nil, q, 0, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		kind := snap.Kinds().Resource(r.GetResource())
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(r.GetResource())
		}
		if snap.Realm().Paused { // the scanner would enqueue work that cannot be done now
			return &coppicev1.WalkReply{}, nil
		}
		limit := min(max(int(r.GetLimit()), 1), maxResolve)
		var uids []uid.UID
		var names []state.NameCursor
		more := false
		snap.Names(kind, "", after, func(ns, name string, u uid.UID) bool {
			if more = len(uids) == limit; more {
				return false
			}
			uids, names = append(uids, u), append(names, state.NameCursor{Namespace: ns, Name: name})
			return true
		})
		objects, left := resolve.Part(snap, uids, 0, s.now(snap), s.Warn)
		reply := &coppicev1.WalkReply{Objects: objects}
		if more || left > 0 {
			reply.Cursor = []byte(encodeToken(names[len(names)-left-1]))
		}
		return reply, nil
	})
}

func (s *replicaServer) resolveObjects(q *request) {
	at, err := s.target(q)
	var r coppicev1.ResolveObjectsRequest
	if err == nil {
		err = q.read(&r)
	}
	var uids []uid.UID
	if err == nil {
		uids, err = uidsOf(&r)
	}
	if err != nil {
		q.answer(nil, err)
		return
	}
	places := s.pages
	if r.GetCountTotal() {
		places = s.plans // it takes as long, and as much memory, as a large plan
	}
	s.readAtLeast(places, q, r.GetMinRevision(), func(ctx context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		reply, err := s.resolved(ctx, snap, q, at, &r, uids, s.now(snap))
		if err == nil {
			s.conditions(ctx, reply)
		}
		return reply, err
	})
}

// uidsOf returns the uids of a resolve, which names at least one object.
func uidsOf(r *coppicev1.ResolveObjectsRequest) (uids []uid.UID, err *lifecycle.Error) {
	for i, text := range r.GetUids() {
		u, err := uid.Parse(text)
		if err != nil {
			return nil, lifecycle.ErrBadRequest("uids[%d]: %v", i, err)
		}
		uids = append(uids, u)
	}
	if err := checkCount(len(uids)+len(r.GetNames()), "names or uids"); err != nil || len(r.GetNames()) == 0 {
		return uids, err
	}
	return uids, checkNames("names", r.GetNames())
}

// resolved returns the reply to a resolve, evaluated at a time.
func (s *server) resolved(
	ctx context.Context, snap *state.Snapshot, q *request, at bus.API, r *coppicev1.ResolveObjectsRequest, uids []uid.UID, now lifecycle.Time,
) (*coppicev1.ResolveObjectsReply, *lifecycle.Error) {
	kind := snap.Kinds().Resource(resource(at))
	if kind == nil {
		return nil, lifecycle.ErrUnknownKind(resource(at))
	}
	for _, name := range r.GetNames() {
		n, err := lifecycle.Find(snap, lifecycle.Key{Kind: kind, Namespace: at.Namespace, Name: name})
		if err != nil {
			return nil, err
		}
		uids = append(uids, n.UID)
	}
	limit := int(r.GetLimit())
	if limit == 0 || limit > maxResolve {
		limit = maxResolve
	}
	reply := resolve.Graph(snap, uids, resolve.GraphOptions{
		Owners: r.GetOwners(), Dependents: r.GetDependents(), Namespace: at.Namespace, Limit: limit, MaxBytes: q.maxPayload / 3, Now: now,
	})
	if r.GetCountTotal() {
		total, ok := resolve.Total(ctx, snap, uids, at.Namespace, maxTotal)
		if !ok {
			return nil, s.overloaded(ctx, nil)
		}
		reply.Total = uint64(total)
	}
	return reply, nil
}
