package graph

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
)

// Bounds of the series of refused requests for a realm: on a server without accounts, clients choose their actors.
const (
	maxRefusedActors = 200
	maxRefusedSeries = 2000
)

// refusedOther stands for the actors that are beyond the bounds, or that are no names of actors.
const refusedOther = "other"

// refusals counts the requests to a realm that were refused. They are not in the log. It is safe for concurrent use.
type refusals struct {
	all   *prometheus.CounterVec
	realm string

	mu     sync.Mutex
	actors map[string]struct{}
	series map[refusal]prometheus.Counter
}

type refusal struct {
	actor, verb string
	reason      api.Reason
}

func newRefusals(all *prometheus.CounterVec, realm string) *refusals {
	return &refusals{all: all, realm: realm, actors: map[string]struct{}{}, series: map[refusal]prometheus.Counter{}}
}

// count counts refusals of an actor's requests, or of objects of one.
func (r *refusals) count(actor, verb string, reason api.Reason, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counter(refusal{actor, verb, reason}).Add(float64(n))
}

func (r *refusals) counter(of refusal) prometheus.Counter {
	if c := r.series[of]; c != nil {
		return c
	}
	_, known := r.actors[of.actor]
	if !known && (len(r.actors) >= maxRefusedActors || bus.CheckActor(of.actor) != nil) || len(r.series) >= maxRefusedSeries {
		of.actor = refusedOther // of which there are few series: verbs and reasons are fixed
		if c := r.series[of]; c != nil {
			return c
		}
	} else {
		r.actors[of.actor] = struct{}{}
	}
	c := r.all.WithLabelValues(r.realm, of.actor, of.verb, string(of.reason))
	r.series[of] = c
	return c
}
