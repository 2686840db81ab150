package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The agent of Pods is called with a Pod that has a grace period, under the
// permissions of its role, and again when it has failed; the Pod goes when it
// is done. Another DELETE without grace does not wait for it.
func TestRunAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	pods := client.Resource{Plural: bus.ExampleAgent}
	create := func(name string) {
		s.Create(pods, "shop", &coppicev1.Object{
			Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(`{"nodeName":"n","terminationGracePeriodSeconds":600}`),
		})
	}
	remove := func(name string, opts ...client.DeleteOption) client.DeleteState {
		return s.Delete(pods, "shop", name, opts...).State
	}
	create("forced")
	if state := remove("forced"); state != client.Pending {
		t.Errorf("%s, want Pending: its agent has not confirmed", state)
	}
	if state := remove("forced", client.GracePeriod(0)); state != client.Removed {
		t.Errorf("%s, want Removed: a deletion without grace does not wait for the agent", state)
	}

	calls := make(chan *client.Termination, 10)
	failed := false
	c := s.As(bus.RoleAgent)
	testkit.Run(t, func(ctx context.Context) error {
		return c.RunAgent(ctx, pods, func(_ context.Context, call *client.Termination) error {
			calls <- call
			if !failed {
				failed = true
				return errors.New("it is still running")
			}
			return nil
		}, client.Backoff{Min: time.Millisecond}, client.Concurrency(1))
	})
	create("web")
	before := time.Now()
	remove("web")
	last := 0
	for attempt := 1; attempt <= 2; attempt++ {
		call := testkit.Receive(t, s.Ctx, "a call", calls)
		// Clients see whole seconds. An attempt can be lost, before the function is called.
		if call.Object.GetMetadata().GetName() != "web" || call.Attempt < attempt || call.Attempt <= last || call.Deadline.Before(before.Add(599*time.Second)) {
			t.Errorf("call %d is %+v", attempt, call)
		}
		last = call.Attempt
	}
	s.Gone(pods, "shop", "web")
}
