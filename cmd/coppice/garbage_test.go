package main

import (
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"weak"

	"github.com/spf13/pflag"

	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, longest},
		{1 << 20, longest},
		{64 << 20, longest},
		{128 << 20, 200},
		{garbage, 100},
		{1 << 40, 100},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d MiB: %d, want %d", c.live>>20, got, c.want)
		}
	}
}

// After each collection GOGC fits the live heap. It is not changed if the user has set
// it.
func TestPaceCollection(t *testing.T) {
	was := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(was) })
	is := func() int {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return int(sample[0].Value.Uint64())
	}
	await := func(what string, ok func(percent int) bool) {
		t.Helper()
		testkit.WaitFor(t, testkit.Context(t), what, func() bool {
			runtime.GC()
			return ok(is())
		})
	}
	t.Setenv("GOGC", "77")
	paceCollection()
	if is() != 77 {
		t.Fatalf("GOGC is %d, which was said to be 77", is())
	}
	t.Setenv("GOGC", "")
	paceCollection()
	await("a small heap to get more room", func(percent int) bool { return percent > 100 })
	large := make([]byte, garbage)
	await("a large heap to get as much as lives", func(percent int) bool { return percent == 100 })
	runtime.KeepAlive(large)
	await("a small heap to get more room again", func(percent int) bool { return percent > 100 })
}

// A process that runs many commands, as tests do, keeps none of them. Their flags are what would stay: cobra has a
// global map of those with completions.
func TestCommandsAreCollected(t *testing.T) {
	t.Parallel()
	run := func() weak.Pointer[pflag.Flag] {
		root := newRoot(strings.NewReader(""), io.Discard, io.Discard)
		root.SetArgs([]string{"version", "--output", "json"})
		must.Succeed(t, root.Execute())
		c, _, err := root.Find([]string{"version"})
		must.Succeed(t, err)
		return weak.Make(c.Flag("output"))
	}
	flag := run()
	testkit.WaitFor(t, testkit.Context(t), "a command that has run to be collected", func() bool {
		runtime.GC()
		return flag.Value() == nil
	})
}
