package testkit

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Metric is the sum of the counters or gauges of a name. Of metrics with labels it takes those whose labels have the given
// values: labels are names, each before its value. It returns false if there is none.
func Metric(tb testing.TB, g prometheus.Gatherer, name string, labels ...string) (sum float64, ok bool) {
	tb.Helper()
	families, err := g.Gather()
	must.Succeed(tb, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			for i := 0; i < len(labels); i += 2 {
				if has[labels[i]] != labels[i+1] {
					continue metrics
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			ok = true
		}
	}
	return sum, ok
}
