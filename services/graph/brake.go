package graph

import (
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// tripped reports brakes that a commit has tripped.
func (r *following) tripped(brakes []writer.Tripped) {
	for _, t := range brakes {
		resource := t.Kind.Resource()
		r.metrics.all.trips.WithLabelValues(r.name, resource).Inc()
		r.log.Warn("a brake is tripped: the collector deletes no more objects of the kind until it is released", "kind", resource, "deleted", t.Brake.Counted)
	}
}

// countTripped counts the brakes that are tripped, and warns of each.
func (r *following) countTripped() error {
	all, err := r.state.Tripped()
	if err != nil {
		return err
	}
	r.metrics.all.tripped.WithLabelValues(r.name).Set(float64(len(all)))
	if len(all) == 0 {
		return nil
	}
	snap := r.state.Snapshot()
	defer snap.Close()
	for resource, b := range all {
		if k := snap.Kinds().Resource(resource); k != nil {
			if n := snap.Node(k.UID); n != nil {
				r.warner.Braked(snap, n, resource, b)
			}
		}
	}
	return snap.Err()
}
