package objects

import (
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/consumers"
)

// Replica serves the verbs about objects that any replica can answer.
type Replica struct {
	*serve.Replica
	c ReplicaConfig
}

// ReplicaConfig is what a Replica needs in addition to a serve.Replica.
type ReplicaConfig struct {
	// Consumers observes the consumers of calls; nil for a recording.
	Consumers *consumers.Observer
	// Grants gives and checks the grants of deletions with several parts. If it is nil, no other
	// service accepts its grants.
	Grants *Grants
}

// NewReplica returns the verbs of a replica.
func NewReplica(s *serve.Replica, c ReplicaConfig) *Replica {
	if c.Grants == nil {
		c.Grants = ownGrants(s.Realm)
	}
	return &Replica{s, c}
}
