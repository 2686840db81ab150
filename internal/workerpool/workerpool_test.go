package workerpool_test

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/workerpool"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// What is begun is done, also while all others are busy, and by one who ends.
func TestPool(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c := workerpool.New()
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

// goroutine is the line that names the goroutine that calls it.
func goroutine() string {
	b := make([]byte, 64)
	line, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("["))
	return string(line)
}

// Who has done something does the next, until the worker pool is dismissed.
func TestStay(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c := workerpool.New()
	by := func() string {
		who := make(chan string, 1)
		c.Go(func() { who <- goroutine() })
		return testkit.Receive(t, ctx, "who does it", who)
	}
	first := by()
	testkit.WaitFor(t, ctx, "the first to do something again", func() bool { return by() == first })
	c.Dismiss()
	testkit.WaitFor(t, ctx, "the end of the first", func() bool {
		all := make([]byte, 1<<20)
		return !bytes.Contains(all[:runtime.Stack(all, true)], []byte(first+"["))
	})
}
