package plan_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/plan"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// BenchmarkCompute plans a cascade of one owner with 20,000 dependents: what the
// writer computes at the most.
func BenchmarkCompute(b *testing.B) {
	r := statetest.New(b)
	r.Create("deployments/web", nil)
	const n = 20000
	list := make([]statetest.Decide, n-1)
	for i := range list {
		list[i] = r.Creation(fmt.Sprintf("pods/p%05d", i), owned(r, "deployments/web"))
	}
	r.Must(list...)
	for _, policy := range []string{lifecycle.Background, lifecycle.Foreground} {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				snap := r.Snapshot()
				p, err := plan.Compute(context.Background(), snap, deletion(r, policy, "deployments/web"), r.Clock, n)
				if err != nil || len(p.Objects) != n {
					b.Fatal(err)
				}
				p.Hash()
				snap.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
		})
	}
}
