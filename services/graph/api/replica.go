package api

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/api/leases"
	"github.com/coppice-gc/coppice/services/graph/api/objects"
	"github.com/coppice-gc/coppice/services/graph/api/operations"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/api/streams"
)

// ReplicaConfig is what ServeReplica needs in addition to a serve.Config.
type ReplicaConfig struct {
	// Reached waits until the state has reached a revision.
	Reached func(ctx context.Context, revision uint64) error
	Now     func() time.Time
	Objects objects.ReplicaConfig
	Streams streams.Config
}

// queueReplicas is the queue group in which replicas share requests.
const queueReplicas = "replicas"

// ServeReplica serves reads at a named revision until it is stopped.
func ServeReplica(c serve.Config, r ReplicaConfig) (*serve.Server, error) {
	served, err := serve.New(c, c.Process.Replicas(), "coppice-replica", "Coppice's graph: owners, dependents, watches", queueReplicas)
	if err != nil {
		return nil, err
	}
	s := serve.NewReplica(served, r.Reached, r.Now)
	verbs, ops := objects.NewReplica(s, r.Objects), operations.NewReplica(s)
	r.Streams.Tokens = verbs
	readers := streams.New(s, r.Streams)
	return s.Serve(
		s.Verb(bus.VerbResolve, verbs.Resolve),
		s.Verb(bus.VerbPlan, verbs.Plan),
		s.Verb(bus.VerbListFinalizers, verbs.ListFinalizers),

		s.Verb(bus.VerbWatch, readers.Watch),
		s.Verb(bus.VerbWatchGraph, readers.WatchGraph),
		s.Verb(bus.VerbReadLog, readers.ReadLog),
		s.Verb(bus.VerbReadWarnings, readers.ReadWarnings),
		s.Verb(bus.VerbVerify, readers.Verify),
		s.Verb(bus.VerbArchive, readers.Archive).ToAll(),
		s.Verb(bus.VerbConsumeFinalizer, readers.ConsumeFinalizer),
		s.Verb(bus.VerbConsumeAgent, readers.ConsumeAgent),
		s.Verb(bus.VerbConsumeExpiry, readers.ConsumeExpiry),
		s.Verb(bus.VerbListConsumers, readers.ListConsumers),
		s.Verb(bus.VerbListParked, readers.ListParked),
		s.Verb(bus.VerbRetryParked, readers.RetryParked),
		s.Verb(bus.VerbDropParked, readers.DropParked),
		s.Verb(bus.VerbLease, leases.New(s, r.Streams.JS).Lease),

		s.Operation(bus.OpResolve, ops.Resolve, bus.RoleProcessor, bus.RoleScanner),
		s.Operation(bus.OpWalk, ops.Walk, bus.RoleScanner),
		s.Operation(bus.OpDue, ops.Due, bus.RoleScanner),
	)
}
