package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// run runs the example's finalizer, as its controller, until the test has ended.
func (s *shop) run(finalize func(context.Context, *client.Call) error, opts ...client.WorkerOption) {
	s.TB.Helper()
	c := s.As(bus.RoleFinalizer)
	testkit.Run(s.TB, func(ctx context.Context) error { return c.RunFinalizer(ctx, bus.ExampleFinalizer, finalize, opts...) })
}

// A call that fails is repeated. When it has succeeded, the finalizer is removed, and
// with the last finalizer the object.
func TestRunFinalizer(t *testing.T) {
	t.Parallel()
	s := start(t)
	calls := make(chan *client.Call, 10)
	failures := 0
	s.run(func(_ context.Context, call *client.Call) error {
		calls <- call
		if failures++; failures < 3 {
			return errors.New("not yet")
		}
		return nil
	}, client.Backoff{Min: time.Millisecond}, client.Concurrency(1))
	o := s.create("a", bus.ExampleFinalizer)
	s.delete("a")
	last := 0
	for attempt := 1; attempt <= 3; attempt++ {
		call := testkit.Receive(t, s.Ctx, "a call", calls)
		// An attempt can be lost, before the function is called.
		if call.Attempt < attempt || call.Attempt <= last || call.Finalizer != bus.ExampleFinalizer || call.Resource != configMaps ||
			call.Object.GetMetadata().GetUid() != o.GetMetadata().GetUid() || call.Object.GetMetadata().GetDeletionTimestamp() == nil {
			t.Errorf("call %d is %+v", attempt, call)
		}
		last = call.Attempt
	}
	s.gone("a")
}

// The function is not called for a call that is delivered after the finalizer was removed
// by hand.
func TestLateCall(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.create("late", bus.ExampleFinalizer)
	s.delete("late")
	js := s.JetStream(bus.RoleGraph)
	stream, err := js.Stream(s.Ctx, bus.FinalizeStream(bus.DefaultRealm))
	must.Succeed(t, err)
	waits := func(want uint64) func() bool {
		return func() bool {
			info, err := stream.Info(s.Ctx)
			return err == nil && info.State.Msgs == want
		}
	}
	s.WaitFor("the call", waits(1))
	if _, err := s.objects.RemoveFinalizer(s.Ctx, "late", bus.ExampleFinalizer, client.Note("by hand")); err != nil {
		t.Fatal(err)
	}
	s.gone("late")
	// Another one under the same name, which is not being deleted.
	s.create("late", bus.ExampleFinalizer)
	s.run(func(_ context.Context, call *client.Call) error {
		t.Errorf("called for %v", call.Object)
		return nil
	})
	s.WaitFor("the call to be over", waits(0))
}

// A call that fails with a permanent error is parked with the error, and blocks no other
// call.
func TestPermanent(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.run(func(_ context.Context, call *client.Call) error {
		if call.Object.GetMetadata().GetName() == "poison" {
			return client.Permanent(errors.New("no such bucket"))
		}
		return nil
	}, client.ParkAfter(2), client.Backoff{Min: time.Millisecond}, client.Concurrency(1))
	o := s.create("poison", bus.ExampleFinalizer)
	s.create("good", bus.ExampleFinalizer)
	s.delete("poison")
	s.delete("good")
	s.gone("good")
	js := s.JetStream(bus.RoleGraph)
	subject := bus.ParkedSubject(bus.DefaultRealm, bus.Finalize{
		Realm: bus.DefaultRealm, Plural: "configmaps", UID: o.GetMetadata().GetUid(), Finalizer: bus.ExampleFinalizer,
	}.Subject(), 0)
	var parked coppicev1.Parked
	s.WaitFor("the call to be parked", func() bool {
		stream, err := js.Stream(s.Ctx, bus.ParkedStream(bus.DefaultRealm))
		if err != nil {
			return false
		}
		m, err := stream.GetLastMsgForSubject(s.Ctx, subject)
		return err == nil && proto.Unmarshal(m.Data, &parked) == nil
	})
	if !strings.Contains(parked.GetError(), "no such bucket") || parked.GetAttempts() < 2 || !strings.HasPrefix(parked.GetBy(), bus.RoleFinalizer+" (") {
		t.Errorf("parked as %v", &parked)
	}
}

// A consumer with other settings is updated. If the server cannot update it, RunFinalizer
// fails and the error says what to do.
func TestConsumerOfOtherSettings(t *testing.T) {
	t.Parallel()
	s := start(t)
	js := s.JetStream(bus.RoleGraph)
	stream, durable := bus.FinalizeStream(bus.DefaultRealm), bus.FinalizerDurable(bus.ExampleFinalizer)
	if _, err := js.CreateConsumer(s.Ctx, stream, jetstream.ConsumerConfig{
		Durable: durable, FilterSubject: bus.FinalizeFilter(bus.DefaultRealm, bus.ExampleFinalizer), AckPolicy: jetstream.AckExplicitPolicy, DeliverSubject: "elsewhere",
	}); err != nil {
		t.Fatal(err)
	}
	c := s.As(bus.RoleFinalizer)
	err := c.RunFinalizer(s.Ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error { return nil })
	if !errors.Is(err, client.ErrConflict) || !strings.Contains(err.Error(), durable) || !strings.Contains(err.Error(), "delete the consumer") {
		t.Fatalf("got %v", err)
	}
	must.Succeed(t, js.DeleteConsumer(s.Ctx, stream, durable))
	want := bus.FinalizerConsumer(bus.DefaultRealm, bus.ExampleFinalizer)
	other := want
	other.AckWait, other.MaxAckPending, other.InactiveThreshold = 7*time.Second, 1, 0
	other.Metadata = map[string]string{bus.MetaProcess: "bucket-controller (node-7/42)", bus.MetaActor: "ana"}
	if _, err := js.CreateConsumer(s.Ctx, stream, other); err != nil {
		t.Fatal(err)
	}
	s.run(func(context.Context, *client.Call) error { return nil })
	s.create("a", bus.ExampleFinalizer)
	s.delete("a")
	s.gone("a")
	consumer, err := js.Consumer(s.Ctx, stream, durable)
	must.Succeed(t, err)
	is := consumer.CachedInfo().Config
	if is.AckWait != want.AckWait || is.MaxAckPending != want.MaxAckPending || is.InactiveThreshold != want.InactiveThreshold ||
		is.Metadata[bus.MetaActor] != "ana" || !strings.HasPrefix(is.Metadata[bus.MetaProcess], bus.RoleFinalizer+" (") {
		t.Errorf("the consumer is %+v", is)
	}
}

// An object that is too large for a call is read from the realm: the function gets the
// complete object.
func TestLargeObjectsAreFetched(t *testing.T) {
	t.Parallel()
	s := start(t)
	spec := []byte(`"` + strings.Repeat("x", 100<<10) + `"`)
	calls := make(chan *client.Call, 1)
	s.run(func(_ context.Context, call *client.Call) error {
		calls <- call
		return nil
	})
	s.Create(configMaps, "shop", &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "large", Finalizers: []string{bus.ExampleFinalizer}}, Spec: spec,
	})
	s.delete("large")
	call := testkit.Receive(t, s.Ctx, "a call", calls)
	if o := call.Object; len(o.GetSpec()) != len(spec) || o.GetMetadata().GetName() != "large" || len(o.GetMetadata().GetFinalizers()) != 1 {
		t.Errorf("the call has a spec of %d bytes and metadata %v", len(o.GetSpec()), o.GetMetadata())
	}
	s.gone("large")
}
