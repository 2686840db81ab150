package lifecycle_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
)

var teardowns = flag.Int("teardowns", 1000, "how many graphs TestTeardown draws")

// TestTeardown deletes drawn graphs of objects whose resources a cloud refuses to delete
// while others use them: by deletions of every policy, in every order of work.
//
// B3.6: The cloud refuses nothing, because the finalizers of a used object are called after
// its last user is gone. B3.1: In the end nothing is left.
func TestTeardown(t *testing.T) {
	t.Parallel()
	inUse := 0
	first := nightly.Seed(t)
	for seed := first; seed < first+uint64(*teardowns); seed++ {
		random := rand.New(rand.NewPCG(seed, 3))
		g := lifecycletest.DrawTeardown(random.IntN)
		cloud := lifecycletest.NewCloud()
		cloud.Add("", g)
		r, uids, _ := g.Play()
		left := g.Tear(r, uids, cloud, random.Perm, func() int { return random.IntN(3) })
		if refused := cloud.Refused(); len(refused) > 0 || len(left) > 0 || cloud.Left() > 0 {
			t.Fatalf("graph %d, %+v: left are %v; the cloud has %d resources and refused %v", seed, g, left, cloud.Left(), refused)
		}
		for _, m := range g.Members {
			inUse += len(m.Uses)
		}
	}
	if inUse == 0 {
		t.Error("no graph has a use")
	}
}
