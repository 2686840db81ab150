package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/consumers"
)

// Limits of the consumers of finalizers and agents. A NATS server allows a
// bounded number for a stream.
const (
	maxConsumersActor = 64
	maxConsumers      = 900
	maxProcess        = 256 // bytes
	maxConsumerNames  = 1000
	maxCallNames      = 100
)

// ConsumeFinalizer creates the consumer of an external finalizer, unless it exists. Clients
// have no permission to create consumers: a consumer's configuration can name a subject to
// which the NATS server publishes with its own permissions.
func (s *Server) ConsumeFinalizer(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	if lifecycle.IsBuiltinFinalizer(at.Finalizer) {
		return lifecycle.ErrBadRequest("finalizer %s is built in; clients cannot consume its work", at.Finalizer)
	}
	if err := lifecycle.CheckFinalizer(at.Finalizer); err != nil {
		return err
	}
	return s.consume(q, at, bus.FinalizerConsumer(s.Realm, at.Finalizer))
}

// ConsumeAgent creates the consumer of a kind's agent, unless it exists.
func (s *Server) ConsumeAgent(q *serve.Request, at bus.API) *lifecycle.Error {
	if at.Namespace != "" {
		return lifecycle.ErrBadRequest("an agent ends the objects of a kind in all namespaces: the subject has _ for the namespace")
	}
	if s.State.Kinds().Resource(serve.Resource(at)) == nil {
		return lifecycle.ErrUnknownKind(serve.Resource(at))
	}
	return s.consume(q, at, bus.AgentConsumer(s.Realm, at.Group, at.Plural))
}

// ConsumeExpiry creates the consumer of a program that answers notices, unless it exists. No policy
// needs to name the program yet.
func (s *Server) ConsumeExpiry(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	if err := lifecycle.CheckFinalizer(at.Finalizer); err != nil {
		return err
	}
	return s.consume(q, at, bus.ExpiryConsumer(s.Realm, at.Finalizer))
}

func (s *Server) consume(q *serve.Request, at bus.API, c jetstream.ConsumerConfig) *lifecycle.Error {
	var r coppicev1.ConsumeRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if len(r.GetProcess()) > maxProcess {
		return lifecycle.ErrBadRequest("process: it has %d bytes, at most %d", len(r.GetProcess()), maxProcess)
	}
	if err := bus.CheckActor(at.Actor); err != nil {
		return lifecycle.ErrBadRequest("%v", err)
	}
	process := r.GetProcess()
	if process == "" {
		process = at.Actor
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		if err := s.ensureConsumer(ctx, at.Actor, process, c); err != nil {
			return nil, err
		}
		stream := bus.FinalizeStream(s.Realm)
		return &coppicev1.ConsumeReply{
			Stream: stream, Durable: c.Durable, Subject: bus.PullSubject(stream, c.Durable),
			AckWait: c.AckWait.Milliseconds(), MaxAckPending: uint32(c.MaxAckPending), InactiveThreshold: int64(c.InactiveThreshold / time.Second),
		}, nil
	})
	return nil
}

// ensureConsumer creates a consumer, or updates the configuration of an existing one. A consumer that
// leaves out calls is deleted, and created again.
func (s *Server) ensureConsumer(ctx context.Context, actor, process string, c jetstream.ConsumerConfig) *lifecycle.Error {
	c.Metadata = map[string]string{bus.MetaProcess: process, bus.MetaActor: actor}
	stream, info, inherits, fail := s.createConsumer(ctx, &c)
	if fail != nil || info == nil {
		return fail
	}
	leave, err := []*jetstream.ConsumerInfo{info}, error(nil)
	if !inherits {
		if leave, err = bus.Ahead(ctx, stream, []*jetstream.ConsumerInfo{info}); err == nil && len(leave) == 0 {
			leave, err = bus.LeaveOut(ctx, stream, []*jetstream.ConsumerInfo{info})
		}
	}
	if err == nil && len(leave) > 0 {
		err = s.renewConsumer(ctx, stream, info, c)
	}
	if err != nil {
		return s.ErrJetStream("consumer of "+c.Description, err)
	}
	return nil
}

// renewConsumer deletes a consumer that leaves out calls, and creates it again. If the NATS server cannot store a new one, the old one stays.
func (s *Server) renewConsumer(ctx context.Context, stream jetstream.Stream, was *jetstream.ConsumerInfo, c jetstream.ConsumerConfig) error {
	select {
	case s.consuming <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.consuming }()
	const what = "a consumer leaves out calls, as after a power loss of the NATS server; "
	if err := bus.StoresConsumers(ctx, s.c.JS, s.Realm); err != nil {
		s.Log.Warn(what+"it is not created again, because no new one can be stored; start its program again when NATS can store one", "consumer", c.Durable, "error", err)
		return nil
	}
	s.Log.Warn(what+"it is created again", "consumer", c.Durable)
	return bus.RenewConsumer(ctx, stream, was, c)
}

// createConsumer creates a consumer, or updates the configuration of an existing one; then c gets the actor that
// created it. info is nil if the stream was created again together with the consumer. inherits says that the
// consumer is new, and that the NATS server gave it the state of an earlier one.
func (s *Server) createConsumer(ctx context.Context, c *jetstream.ConsumerConfig) (stream jetstream.Stream, info *jetstream.ConsumerInfo, inherits bool, fail *lifecycle.Error) {
	what := "consumer of " + c.Description
	select {
	case s.consuming <- struct{}{}: // so that no other consumer is created after the count
	case <-ctx.Done():
		return nil, nil, false, s.ErrJetStream(what, ctx.Err())
	}
	defer func() { <-s.consuming }()
	stream, err := s.c.JS.Stream(ctx, bus.FinalizeStream(s.Realm))
	if err != nil {
		return nil, nil, false, s.ErrJetStream(what, err)
	}
	was, err := stream.Consumer(ctx, c.Durable)
	found := err == nil
	switch {
	case found:
		if actor := was.CachedInfo().Config.Metadata[bus.MetaActor]; actor != "" {
			c.Metadata[bus.MetaActor] = actor
		}
	case errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil, nil, false, s.otherConsumer(c.Durable, err)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		if err := s.roomForConsumer(ctx, stream, c.Metadata[bus.MetaActor]); err != nil {
			return nil, nil, false, err
		}
	default:
		return nil, nil, false, s.ErrJetStream(what, err)
	}
	created, err := stream.CreateOrUpdateConsumer(ctx, *c)
	if err == nil {
		info = created.CachedInfo()
		// If another service has created it meanwhile, it has delivered nothing, or has the time of that.
		return stream, info, !found && info.Delivered.Consumer > 0 && info.Delivered.Last == nil, nil
	}
	if bus.IsConsumerDamaged(err) && bus.StoresConsumers(ctx, s.c.JS, s.Realm) == nil {
		s.Log.Warn("a consumer is damaged, as after a power loss of the NATS server; its stream is created again, and its calls published again", "consumer", c.Durable, "error", err)
		if err = bus.RecreateStream(ctx, s.c.JS, bus.FinalizeStream(s.Realm)); err == nil {
			_, err = s.c.JS.CreateConsumer(ctx, bus.FinalizeStream(s.Realm), *c)
		}
	}
	var api *jetstream.APIError
	switch {
	case err == nil:
		return stream, nil, false, nil
	case errors.As(err, &api) && bus.Classify(err) == bus.Refused && found:
		return nil, nil, false, s.otherConsumer(c.Durable, err)
	}
	return nil, nil, false, s.ErrJetStream(what, err)
}

func (s *Server) otherConsumer(durable string, err error) *lifecycle.Error {
	return &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf(
		"consumer %s of stream %s was created with other settings, which the NATS server does not change (%v); delete the consumer", durable, bus.FinalizeStream(s.Realm), err)}
}

// roomForConsumer returns an error if the actor, or all actors together, have the maximum
// number of consumers.
func (s *Server) roomForConsumer(ctx context.Context, stream jetstream.Stream, actor string) *lifecycle.Error {
	all, own := 0, 0
	list := stream.ListConsumers(ctx)
	for i := range list.Info() {
		all++
		if i.Config.Metadata[bus.MetaActor] == actor {
			own++
		}
	}
	switch {
	case list.Err() != nil:
		return s.ErrJetStream("consumers", list.Err())
	case own >= maxConsumersActor || all >= maxConsumers:
		return &lifecycle.Error{Reason: api.ErrTooManyRequests, RetryAfter: time.Minute, Message: fmt.Sprintf(
			"actor %q has %d consumers of calls, and the realm %d; at most %d and %d; one without pull requests for %s is deleted",
			actor, own, all, maxConsumersActor, maxConsumers, bus.CallInactive)}
	}
	return nil
}

// ListConsumers answers with the state of consumers.
func (s *Server) ListConsumers(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.ListConsumersRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	if n := len(r.GetFinalizers()) + len(r.GetAgents()); n > maxConsumerNames {
		return lifecycle.ErrBadRequest("%d finalizers and agents; a request names at most %d", n, maxConsumerNames)
	}
	if n := len(r.GetCalls()); n > maxCallNames {
		return lifecycle.ErrBadRequest("%d calls; a request names at most %d", n, maxCallNames)
	}
	for _, c := range r.GetCalls() {
		if err := checkCall(c); err != nil {
			return err
		}
	}
	// They become parts of subjects. The NATS server closes a connection that publishes to
	// a subject of more than 4 KiB, and this connection also appends to the log.
	for _, a := range r.GetAgents() {
		if err := lifecycle.CheckResource(lifecycle.SplitResource(a)); err != nil {
			return err
		}
	}
	s.Background(q, func(ctx context.Context) (proto.Message, *lifecycle.Error) {
		reply, err := s.consumerStates(ctx, &r)
		if err != nil {
			return nil, s.ErrJetStream("consumers", err)
		}
		if !q.Rules.SeesAll() {
			s.hideCalls(q, &r, reply)
		}
		return reply, nil
	})
	return nil
}

// hideCalls removes the states of calls for objects that the actor may not get, and the errors of consumers, which are about the
// object of any call.
func (s *Server) hideCalls(q *serve.Request, r *coppicev1.ListConsumersRequest, reply *coppicev1.ListConsumersReply) {
	snap := s.State.Snapshot()
	defer snap.Close()
	for i, of := range r.GetCalls() {
		u, _ := uid.Parse(of.GetUid()) // checked
		if n := snap.Node(u); n == nil || !q.Sees(snap.Kinds().OfNode(n), n) {
			reply.Calls[i] = &coppicev1.CallStatus{}
		}
	}
	for _, c := range reply.GetConsumers() {
		c.LastError = ""
	}
}

func (s *Server) consumerStates(ctx context.Context, r *coppicev1.ListConsumersRequest) (*coppicev1.ListConsumersReply, error) {
	calls, err := s.c.JS.Stream(ctx, bus.FinalizeStream(s.Realm))
	if err != nil {
		return nil, err
	}
	work, err := s.c.JS.Stream(ctx, bus.WorkStream(s.Realm))
	if err != nil {
		return nil, err
	}
	reply := &coppicev1.ListConsumersReply{QueuedWork: work.CachedInfo().State.Msgs, QueuedCalls: calls.CachedInfo().State.Msgs}
	var wanted []*coppicev1.ConsumerState
	for _, f := range r.GetFinalizers() {
		wanted = append(wanted, &coppicev1.ConsumerState{Durable: bus.FinalizerDurable(f), Finalizer: f})
	}
	for _, a := range r.GetAgents() {
		group, plural := lifecycle.SplitResource(a)
		wanted = append(wanted, &coppicev1.ConsumerState{Durable: bus.AgentDurable(group, plural), Agent: a})
	}
	for _, c := range wanted {
		is, info, err := s.c.Consumers.Of(ctx, c.GetDurable())
		if err != nil {
			return nil, err
		}
		fill(c, info)
		fillState(c, &is)
		reply.Consumers = append(reply.Consumers, c)
	}
	states := map[string]*consumers.State{} // many calls may be of one consumer
	for _, c := range r.GetCalls() {
		subject, durable := consumers.NamesOf(s.Realm, c)
		of := states[durable]
		if of == nil {
			is, _, err := s.c.Consumers.Of(ctx, durable)
			if err != nil {
				return nil, err
			}
			of = &is
			states[durable] = of
		}
		is, err := s.c.Consumers.Status(ctx, subject, of)
		if err != nil {
			return nil, err
		}
		reply.Calls = append(reply.Calls, is)
	}
	if len(wanted)+len(r.GetCalls()) > 0 {
		return reply, nil
	}
	for _, stream := range []jetstream.Stream{calls, work} {
		list := stream.ListConsumers(ctx)
		for i := range list.Info() {
			c := &coppicev1.ConsumerState{Durable: i.Name}
			fill(c, i)
			if stream == calls {
				is := s.c.Consumers.State(i.Name, i)
				fillState(c, &is)
			}
			reply.Consumers = append(reply.Consumers, c)
		}
		if err := list.Err(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(reply.GetConsumers(), func(a, b *coppicev1.ConsumerState) int { return cmp.Compare(a.GetDurable(), b.GetDurable()) })
	return reply, nil
}

// checkCall refuses the name of a call that cannot be part of a subject.
func checkCall(c *coppicev1.CallOf) *lifecycle.Error {
	if _, err := uid.Parse(c.GetUid()); err != nil {
		return lifecycle.ErrBadRequest("calls: %v", err)
	}
	if c.GetFinalizer() != "" {
		if err := lifecycle.CheckFinalizer(c.GetFinalizer()); err != nil {
			return err
		}
	}
	return lifecycle.CheckResource(lifecycle.SplitResource(c.GetResource()))
}

// fillState fills in what is known of the programs that take calls.
func fillState(c *coppicev1.ConsumerState, is *consumers.State) {
	c.Status, c.Live, c.Answered = is.Status, is.Live, is.Answered
	c.WorkingSince, c.SilentSince = consumers.Micro(is.Working), consumers.Micro(is.Silent)
	c.LastError, c.LastErrorTime, c.NextRetry = is.Error, consumers.Micro(is.Failed), consumers.Micro(is.Retry)
}

// fill fills in what the NATS server says about a consumer, unless that is nil.
func fill(c *coppicev1.ConsumerState, i *jetstream.ConsumerInfo) {
	if i == nil {
		return
	}
	c.Exists, c.Process = true, i.Config.Metadata[bus.MetaProcess]
	c.Pending, c.Unacknowledged, c.Pulling = i.NumPending, uint64(i.NumAckPending), uint32(i.NumWaiting)
	for _, at := range []*time.Time{i.Delivered.Last, i.AckFloor.Last} {
		if at != nil && !at.IsZero() {
			c.LastActive = max(c.GetLastActive(), at.UnixMicro())
		}
	}
	filter := i.Config.FilterSubject
	if f, ok := bus.FinalizerOfFilter(filter); ok {
		c.Finalizer = f
	} else if group, plural, ok := bus.AgentOfFilter(filter); ok {
		c.Agent = lifecycle.ResourceName(group, plural)
	} else if queue, ok := bus.QueueOf(filter); ok {
		c.Queue = queue
	}
}
