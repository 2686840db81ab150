package crew_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/internal/crew"
	"github.com/coppice-gc/coppice/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// What is begun is done, also while all others are busy, and by one who ends.
func TestCrew(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c := crew.New()
	defer c.Dismiss()
	busy, begun := make(chan struct{}), make(chan struct{}, 10)
	var done sync.WaitGroup
	for range 10 {
		done.Add(1)
		c.Go(func() {
			defer done.Done()
			begun <- struct{}{}
			<-busy
		})
	}
	for range 10 {
		testkit.Receive(t, ctx, "the beginning of one of ten", begun)
	}
	close(busy)
	done.Wait()
	for range 100 {
		ended := make(chan struct{})
		c.Go(func() {
			defer close(ended)
			runtime.Goexit()
		})
		testkit.Receive(t, ctx, "one who ends", ended)
	}
}
