// Package workermetrics counts what workers do, for Prometheus. It is apart from package
// worker so that the SDK, which uses workers, does not import Prometheus.
package workermetrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/coppice-gc/coppice/internal/worker"
)

// Metrics are the metrics of a service that handles work messages.
type Metrics struct {
	messages    *prometheus.CounterVec
	redelivered *prometheus.CounterVec
	seconds     *prometheus.HistogramVec

	mu   sync.Mutex
	open map[place]bool // whether the consumer exists
}

// place is a queue of a realm.
type place struct{ realm, queue string }

// New registers the metrics of a service.
func New(r prometheus.Registerer, service string) *Metrics {
	if r == nil {
		r = prometheus.NewRegistry()
	}
	f := promauto.With(r)
	prefix := "coppice_" + service + "_"
	return &Metrics{
		open:        map[place]bool{},
		messages:    f.NewCounterVec(prometheus.CounterOpts{Name: prefix + "messages_total", Help: "Messages handled, by queue and outcome: done, failed, parked."}, []string{"realm", "queue", "outcome"}),
		redelivered: f.NewCounterVec(prometheus.CounterOpts{Name: prefix + "redeliveries_total", Help: "Messages that were delivered before."}, []string{"realm", "queue"}),
		seconds:     f.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + "message_seconds", Help: "Time of handling a message.", Buckets: prometheus.ExponentialBuckets(0.001, 3, 11)}, []string{"realm", "queue"}),
	}
}

// The outcomes of a message, as metrics name them.
const (
	outcomeDone   = "done"
	outcomeFailed = "failed"
	outcomeParked = "parked"
)

// Of returns an observer of the messages of a queue. It creates the queue's metrics at
// once: if a counter appeared with its first count, rate() would miss that count.
func (m *Metrics) Of(realm, queue string) func(worker.Outcome) {
	for _, outcome := range []string{outcomeDone, outcomeFailed, outcomeParked} {
		m.messages.WithLabelValues(realm, queue, outcome)
	}
	m.redelivered.WithLabelValues(realm, queue)
	m.seconds.WithLabelValues(realm, queue)
	return func(o worker.Outcome) {
		outcome := outcomeDone
		switch {
		case o.Parked:
			outcome = outcomeParked
		case o.Err != nil:
			outcome = outcomeFailed
		}
		m.messages.WithLabelValues(realm, queue, outcome).Inc()
		if o.Redelivered {
			m.redelivered.WithLabelValues(realm, queue).Inc()
		}
		m.seconds.WithLabelValues(realm, queue).Observe(o.Duration.Seconds())
	}
}

// Opened returns a function that records whether the consumer of a queue exists. Until it
// is called, the consumer counts as missing.
func (m *Metrics) Opened(realm, queue string) func(open bool) {
	of := place{realm, queue}
	record := func(open bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.open[of] = open
	}
	record(false)
	return record
}

// Remove removes the metrics of a realm that is not served any more.
func (m *Metrics) Remove(realm string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.open, func(of place, _ bool) bool { return of.realm == realm })
	labels := prometheus.Labels{"realm": realm}
	m.messages.DeletePartialMatch(labels)
	m.redelivered.DeletePartialMatch(labels)
	m.seconds.DeletePartialMatch(labels)
}

// Ready returns nil if all consumers exist, and otherwise an error that names a realm of
// which one is missing.
func (m *Metrics) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	places := slices.SortedFunc(maps.Keys(m.open), func(a, b place) int { return cmp.Compare(a.realm, b.realm) })
	for _, of := range places {
		if !m.open[of] {
			return fmt.Errorf("realm %s: waiting for the work stream", of.realm)
		}
	}
	return nil
}
