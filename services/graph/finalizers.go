package graph

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/consumers"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

// maxFinalizerMetrics is the maximum number of finalizers of a realm that have metrics: those for
// which objects have waited longest.
const maxFinalizerMetrics = 100

// consumerStates are the values of the label state, by the status of a consumer.
var consumerStates = map[coppicev1.ConsumerStatus]string{
	coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE:     "none",
	coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT:   "silent",
	coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE:     "idle",
	coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING:  "working",
	coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING: "failing",
}

// countFinalizers sets the metrics of the external finalizers for which objects wait. If NATS does
// not answer, the metrics of the states of consumers stay as they are.
func (r *following) countFinalizers(ctx context.Context, counts []propagator.FinalizerCount) {
	counts = counts[:min(len(counts), maxFinalizerMetrics)]
	r.metrics.finalizers(counts, r.time.Now())
	attempts := r.consumers.TakeAttempts()
	if len(counts) == 0 && len(attempts) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	list, err := r.consumers.List(limited)
	if err != nil {
		return // what was attempted meanwhile is not counted
	}
	for durable, n := range attempts {
		if info := list[durable]; info != nil {
			if finalizer, ok := bus.FinalizerOfFilter(info.Config.FilterSubject); ok {
				r.metrics.attempted(finalizer, n)
			}
		}
	}
	for _, c := range counts {
		durable := bus.FinalizerDurable(c.Name)
		r.metrics.consumer(c.Name, r.consumers.State(durable, list[durable]).Status)
	}
}

// finalizers sets for how many objects each finalizer is pending, and for how long. It removes the
// metrics of all others.
func (m *metrics) finalizers(counts []propagator.FinalizerCount, now time.Time) {
	is := make(map[string]struct{}, len(counts))
	for _, c := range counts {
		is[c.Name] = struct{}{}
		m.all.finalizerObjects.WithLabelValues(m.realm, c.Name).Set(float64(c.Objects))
		m.all.finalizerOldest.WithLabelValues(m.realm, c.Name).Set(now.Sub(c.Oldest.Time()).Seconds())
		m.attempted(c.Name, consumers.Attempts{}) // the rate of a counter that appears with its first count misses this count
	}
	for name := range m.counted {
		if _, ok := is[name]; !ok {
			of := prometheus.Labels{"realm": m.realm, "finalizer": name}
			m.all.finalizerObjects.DeletePartialMatch(of)
			m.all.finalizerOldest.DeletePartialMatch(of)
			m.all.finalizerConsumer.DeletePartialMatch(of)
		}
	}
	m.counted = is
}

// attempted counts attempts at calls of a finalizer, unless too many others have metrics.
func (m *metrics) attempted(finalizer string, n consumers.Attempts) {
	if _, ok := m.called[finalizer]; !ok {
		if len(m.called) >= maxFinalizerMetrics {
			return
		}
		if m.called == nil {
			m.called = map[string]struct{}{}
		}
		m.called[finalizer] = struct{}{}
	}
	for outcome, count := range map[string]uint64{"done": n.Done, "failed": n.Failed, "returned": n.Returned} {
		m.all.finalizerAttempts.WithLabelValues(m.realm, finalizer, outcome).Add(float64(count))
	}
}

// consumer sets the state of the consumer of a finalizer.
func (m *metrics) consumer(finalizer string, status coppicev1.ConsumerStatus) {
	for s, name := range consumerStates {
		v := 0.0
		if s == status {
			v = 1
		}
		m.all.finalizerConsumer.WithLabelValues(m.realm, finalizer, name).Set(v)
	}
}
