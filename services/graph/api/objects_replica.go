package api

import "github.com/coppice-gc/coppice/services/graph/consumers"

// objectsReplica serves the verbs about objects that any replica can answer.
type objectsReplica struct {
	*servedReplica
	c ReplicaConfig
}

// ReplicaConfig is what an objectsReplica needs in addition to a server.
type ReplicaConfig struct {
	// Consumers observes the consumers of calls; nil for a recording.
	Consumers *consumers.Observer
	// Grants gives and checks the grants of deletions with several parts. If it is nil, no other
	// service accepts its grants.
	Grants *Grants
}

// newObjectsReplica returns the verbs of a replica.
func newObjectsReplica(s *servedReplica, c ReplicaConfig) *objectsReplica {
	if c.Grants == nil {
		c.Grants = ownGrants(s.Realm)
	}
	return &objectsReplica{s, c}
}
