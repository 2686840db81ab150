package api

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Replica is what ServeReplica needs in addition to a serve.Config.
type Replica struct {
	// Reached waits until the state has reached a revision.
	Reached func(ctx context.Context, revision uint64) error
	Now     func() time.Time
	Objects ReplicaConfig
	Streams StreamsConfig
}

// queueReplicas is the queue group in which replicas share requests.
const queueReplicas = "replicas"

// ServeReplica serves reads at a named revision until it is stopped.
func ServeReplica(c Config, r Replica) (Stopper, error) {
	served, err := newServer(c, c.Process.ofReplicas(), "coppice-replica", "Coppice's graph: owners, dependents, watches", queueReplicas)
	if err != nil {
		return nil, err
	}
	s := newServedReplica(served, r.Reached, r.Now)
	verbs, ops, streams := newObjectsReplica(s, r.Objects), newOperationsReplica(s), newStreamsServer(s, r.Streams)
	return s.serve(
		s.verb(bus.VerbResolve, verbs.resolve),
		s.verb(bus.VerbPlan, verbs.plan),
		s.verb(bus.VerbListFinalizers, verbs.listFinalizers),

		s.verb(bus.VerbWatch, streams.watch),
		s.verb(bus.VerbReadLog, streams.readLog),
		s.verb(bus.VerbReadWarnings, streams.readWarnings),
		s.verb(bus.VerbVerify, streams.verify),
		s.verb(bus.VerbConsumeFinalizer, streams.consumeFinalizer),
		s.verb(bus.VerbConsumeAgent, streams.consumeAgent),
		s.verb(bus.VerbConsumeExpiry, streams.consumeExpiry),
		s.verb(bus.VerbListConsumers, streams.listConsumers),
		s.verb(bus.VerbListParked, streams.listParked),
		s.verb(bus.VerbRetryParked, streams.retryParked),
		s.verb(bus.VerbDropParked, streams.dropParked),

		s.operation(bus.OpResolve, ops.resolve, bus.RoleProcessor, bus.RoleScanner),
		s.operation(bus.OpWalk, ops.walk, bus.RoleScanner),
		s.operation(bus.OpDue, ops.due, bus.RoleScanner),
	)
}
