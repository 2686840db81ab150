package allinone_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph/propagator"
)

const keeper = "example.com/keeper"

// called is a realm with a policy that calls keeper.
type called struct {
	*braked
	js jetstream.JetStream
}

func startCalled(t *testing.T, config allinone.Config) *called {
	t.Helper()
	b := startBraked(t, config, 10_000)
	_, err := b.Resource(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "").Apply(b.Ctx, &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "previews"},
		Spec:     []byte(`{"kind":"ConfigMap","condition":"true","notice":"1s","onSilence":"keep","call":"` + keeper + `"}`),
	})
	must.Succeed(t, err)
	return &called{b, b.JetStream(bus.RoleGraph)}
}

// decide runs the program until stop is called.
func (c *called) decide(by func(context.Context, *client.ExpiryCall) (client.ExpiryAnswer, error)) (stop func()) {
	return testkit.Run(c.TB, func(ctx context.Context) error {
		return c.RunExpiry(ctx, keeper, by, client.Concurrency(1), client.Backoff{Min: time.Millisecond})
	}).Stop
}

// queued returns the number of calls in the stream.
func (c *called) queued() uint64 {
	c.TB.Helper()
	s, err := c.js.Stream(c.Ctx, bus.FinalizeStream(bus.DefaultRealm))
	if err != nil {
		return 0 // it is created again
	}
	return s.CachedInfo().State.Msgs
}

// evaluated waits until the policy was evaluated three times more, and returns what was found.
func (c *called) evaluated() *client.ExpiryStatus {
	c.TB.Helper()
	var is *client.ExpiryStatus
	ends := map[int64]bool{}
	c.WaitFor("three more evaluations", func() bool {
		list, err := c.Operations().ExpiryPolicies(c.Ctx)
		if err != nil || len(list) != 1 {
			c.TB.Fatal(list, err)
		}
		if is = list[0]; is.GetEvaluated() == 0 {
			return false // a new writer has not evaluated it yet
		}
		ends[is.GetEvaluated()] = true
		return len(ends) > 3
	})
	return is
}

// B6.8: a program is called about a notice, also if a call is lost and after it has failed, and answers it.
// Shortly before its veto ends it is called again.
func TestExpiryCalls(t *testing.T) {
	t.Parallel()
	c := startCalled(t, allinone.Config{Scanner: soon})
	c.Create(configMaps, "shop", named("a"))
	c.WaitFor("the notice", func() bool { return c.evaluated().GetNoticed() == 1 })
	if n := c.queued(); n != 0 {
		t.Errorf("%d calls are published that no program has asked for", n)
	}
	calls, answers := make(chan *client.ExpiryCall), make(chan client.ExpiryAnswer)
	stop := c.decide(func(ctx context.Context, call *client.ExpiryCall) (client.ExpiryAnswer, error) {
		select {
		case calls <- call:
		case <-ctx.Done():
			return client.ExpiryAnswer{}, ctx.Err()
		}
		select {
		case a := <-answers:
			if a.Reason == "" {
				return a, errors.New("not now")
			}
			return a, nil
		case <-ctx.Done():
			return client.ExpiryAnswer{}, ctx.Err()
		}
	})
	defer stop()
	next := func() *client.ExpiryCall {
		t.Helper()
		return testkit.Receive(t, c.Ctx, "a call of the program", calls)
	}
	call := next()
	if call.Object.GetMetadata().GetName() != "a" || call.Policy != "previews" || !call.Keep || call.Ends.IsZero() || call.Resource != configMaps {
		t.Errorf("the call is %+v", call)
	}
	const failures = 3
	for range failures {
		answers <- client.ExpiryAnswer{} // fails
		call = next()
	}
	if call.Attempt < 1+failures { // an attempt may be lost
		t.Errorf("after %d failures it is attempt %d", failures, call.Attempt)
	}
	// The stream is lost, as after a power loss.
	must.Succeed(t, bus.RecreateStream(c.Ctx, c.js, bus.FinalizeStream(bus.DefaultRealm)))
	answers <- client.ExpiryAnswer{}
	if call = next(); call.Attempt > failures {
		t.Errorf("after the loss of the call it is attempt %d", call.Attempt)
	}
	answers <- client.ExpiryAnswer{Until: time.Now().Add(9 * time.Minute), Reason: "in use"}
	next()
	if is := c.evaluated(); is.GetVetoed() != 1 {
		t.Errorf("after the veto: %v", is)
	}
	answers <- client.ExpiryAnswer{Agree: true, Reason: "merged"}
	c.gone("a")
	var actors []string
	c.read(func(e client.LogEvent) {
		if e.Type == "ObjectDeleted" && e.Name == "a" {
			actors = append(actors, e.Actor)
		}
	})
	if !slices.Equal(actors, []string{"expiry:previews"}) {
		t.Errorf("deleted by %v", actors)
	}
}

// A program that is slow has a bounded number of calls in the stream, and leaves none behind.
func TestExpiryCallsAreBounded(t *testing.T) {
	t.Parallel()
	c := startCalled(t, allinone.Config{Scanner: soon})
	stop := c.decide(func(ctx context.Context, _ *client.ExpiryCall) (client.ExpiryAnswer, error) {
		<-ctx.Done()
		return client.ExpiryAnswer{}, ctx.Err()
	})
	list := make([]*coppicev1.Object, propagator.MaxNoticeCalls+500)
	for i := range list {
		list[i] = named(fmt.Sprint("c-", i))
	}
	results, err := c.objects.CreateBatch(c.Ctx, list)
	must.Succeed(t, err)
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.WaitFor("all notices", func() bool { return c.evaluated().GetNoticed() == uint64(len(list)) })
	c.WaitFor("the calls", func() bool { return c.queued() >= propagator.MaxNoticeCalls })
	c.evaluated()
	if n := c.queued(); n != propagator.MaxNoticeCalls {
		t.Errorf("%d calls are queued, want %d", n, propagator.MaxNoticeCalls)
	}
	stop()
	// What nothing can answer any more is removed.
	c.Delete(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "", "previews")
	c.WaitFor("the calls to be removed", func() bool { return c.queued() == 0 })
}

// B6.8: the call before a veto ends stays in the stream also if no commit has followed the veto.
func TestExpiryCallBeforeVetoEnds(t *testing.T) {
	t.Parallel()
	k := &clocks{}
	c := startCalled(t, k.configure(t.TempDir()))
	called := make(chan struct{}, 1)
	stop := c.decide(func(ctx context.Context, _ *client.ExpiryCall) (client.ExpiryAnswer, error) {
		select {
		case called <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return client.ExpiryAnswer{}, ctx.Err()
	})
	c.Create(configMaps, "shop", named("a"))
	testkit.Receive(t, c.Ctx, "a call of the program", called)
	stop()
	must.Succeed(t, c.objects.Veto(c.Ctx, "a", time.Now().Add(time.Hour), "in use"))
	c.WaitFor("the call that is answered to be removed", func() bool { return c.queued() == 0 })
	k.passed.Store(int64(50 * time.Minute))
	c.WaitFor("the call before the veto ends", func() bool { return c.queued() == 1 })
	c.evaluated() // and swept
	if n := c.queued(); n != 1 {
		t.Errorf("%d calls are queued after a sweep, want 1", n)
	}
}
