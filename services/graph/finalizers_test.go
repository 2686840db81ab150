package graph_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph"
)

// gauge returns the value of a metric with a finalizer, and with a state unless that is empty. It returns
// false if there is none.
func gauge(tb testing.TB, r *prometheus.Registry, name, finalizer, state string) (value float64, ok bool) {
	tb.Helper()
	return testkit.Metric(tb, r, name, "finalizer", finalizer, "state", state)
}

// While the stream of work does not answer, a metric says so: commands succeed, and cascades wait.
func TestWorkStreamUp(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	n, registry := newInstallation(t), prometheus.NewRegistry()
	s := n.serve(t.TempDir(), func(c *graph.Config) {
		c.Registry = registry
		c.MeasuresEvery(20 * time.Millisecond)
	}).writing()
	up := func(want float64) func() bool {
		return func() bool {
			v, ok := testkit.Metric(t, registry, "coppice_graph_work_stream_up")
			return ok && v == want
		}
	}
	js := n.JetStream(bus.RoleGraph)
	testkit.WaitFor(t, ctx, "the work stream", up(1))
	must.Succeed(t, js.DeleteStream(ctx, bus.WorkStream(bus.DefaultRealm)))
	testkit.WaitFor(t, ctx, "the metric to say that there is none", up(0))
	must.Succeed(t, bus.EnsureStreams(ctx, js, bus.DefaultRealm, 1))
	testkit.WaitFor(t, ctx, "the work stream again", up(1))
	s.Stop()
}

// The first reply to a write of a finalizer whose calls no program asks for warns of it,
// and the next one does not. Metrics show for how many objects a finalizer is pending, and the state
// of its consumer, until it is pending for none.
func TestFinalizerLiveness(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	n, registry := newInstallation(t), prometheus.NewRegistry()
	s := n.serve(t.TempDir(), func(c *graph.Config) {
		c.Registry = registry
		c.MeasuresEvery(100 * time.Millisecond)
	}).writing()
	// An attempt is not repeated: the reply to the first one has the warnings.
	writer := n.as(bus.RoleApplication, client.WithTimeout(testkit.Timeout))
	objects := writer.Resource(configMaps, "a")
	write := func(name string, finalizers ...string) []string {
		t.Helper()
		o, reply := configMap(name), client.Reply{}
		o.Metadata.Finalizers = finalizers
		if _, err := objects.Create(ctx, o, client.ReplyInto(&reply)); err != nil {
			t.Fatal(err)
		}
		return reply.Warnings
	}
	w := write("one", bus.ExampleFinalizer)
	for i := 0; len(w) == 0 && i < 100; i++ { // NATS was slow, and the next reply warns
		w = write(fmt.Sprint("one-", i), bus.ExampleFinalizer)
	}
	if len(w) != 1 || !strings.Contains(w[0], "no program asks for the calls of "+bus.ExampleFinalizer) {
		t.Errorf("the first object with a finalizer that nothing answers: %q", w)
	}
	if w := write("two", bus.ExampleFinalizer); len(w) != 0 {
		t.Errorf("the second one: %q", w)
	}
	var reply client.Reply
	patch := func(other string) error {
		reply = client.Reply{}
		_, err := objects.Patch(ctx, "two", []byte(`{"metadata":{"finalizers":["`+bus.ExampleFinalizer+`","`+other+`"]}}`), client.ReplyInto(&reply))
		return err
	}
	err := patch("example.com/other")
	for i := 0; err == nil && len(reply.Warnings) == 0 && i < 100; i++ { // NATS was slow
		err = patch(fmt.Sprint("example.com/other-", i))
	}
	if err != nil || len(reply.Warnings) != 1 || !strings.Contains(reply.Warnings[0], "example.com/other") {
		t.Errorf("a patch that adds another: %q, %v", reply.Warnings, err)
	}
	if _, err := objects.Delete(ctx, "one"); err != nil {
		t.Fatal(err)
	}
	has := func(state string) func() bool {
		return func() bool {
			objects, _ := gauge(t, registry, "coppice_graph_finalizer_objects", bus.ExampleFinalizer, "")
			_, old := gauge(t, registry, "coppice_graph_finalizer_oldest_seconds", bus.ExampleFinalizer, "")
			is, _ := gauge(t, registry, "coppice_graph_finalizer_consumer", bus.ExampleFinalizer, state)
			return objects == 1 && old && is == 1
		}
	}
	testkit.WaitFor(t, ctx, "the metrics of a finalizer without a consumer", has("none"))

	working, done := make(chan struct{}), make(chan error, 1)
	var failed atomic.Bool
	running, end := context.WithCancel(ctx)
	defer end()
	controller := n.as(bus.RoleFinalizer)
	go func() {
		done <- controller.RunFinalizer(running, bus.ExampleFinalizer, func(ctx context.Context, _ *client.Call) error {
			select {
			case <-working:
			case <-ctx.Done():
			}
			if failed.CompareAndSwap(false, true) {
				return errors.New("the first attempt fails")
			}
			return ctx.Err()
		})
	}()
	testkit.WaitFor(t, ctx, "the metrics of a finalizer whose program works", has("working"))
	if w := write("three", bus.ExampleFinalizer); len(w) != 0 {
		t.Errorf("an object with a finalizer that a program answers: %q", w)
	}
	close(working)
	testkit.WaitFor(t, ctx, "the metrics to go", func() bool {
		for name, state := range map[string]string{
			"coppice_graph_finalizer_objects": "", "coppice_graph_finalizer_oldest_seconds": "", "coppice_graph_finalizer_consumer": "working",
		} {
			if _, ok := gauge(t, registry, name, bus.ExampleFinalizer, state); ok {
				return false
			}
		}
		return true
	})
	testkit.WaitFor(t, ctx, "the attempts to be counted", func() bool {
		attempts := func(outcome string) float64 {
			n, _ := testkit.Metric(t, registry, "coppice_graph_finalizer_attempts_total", "finalizer", bus.ExampleFinalizer, "outcome", outcome)
			return n
		}
		return attempts("done") == 1 && attempts("failed") == 1 && attempts("returned") == 0
	})
	end()
	if err := testkit.Receive(t, ctx, "the end of RunFinalizer", done); err != nil {
		t.Error(err)
	}
	_, pending := testkit.Metric(t, registry, "coppice_graph_pending_rows", "type", "evaluate")
	ahead, compared := testkit.Metric(t, registry, "coppice_graph_clock_ahead_seconds")
	if !pending || !compared || math.Abs(ahead) > testkit.Timeout.Seconds() {
		t.Errorf("the writer has pending rows: %t; the clock is ahead by %v, %t", pending, ahead, compared)
	}
	s.Stop()
	for _, name := range []string{"coppice_graph_pending_rows", "coppice_graph_idle", "coppice_graph_work_messages", "coppice_graph_parked_messages", "coppice_graph_brakes_tripped"} {
		if v, ok := testkit.Metric(t, registry, name); ok {
			t.Errorf("%s of a process that is not the writer any more: %v", name, v)
		}
	}
}
