package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// uninitialized is an object that waits for an initializer.
func uninitialized(name string, finalizers ...string) *coppicev1.Object {
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{
		Name: name, Finalizers: finalizers,
		Initializers: &coppicev1.Initializers{Pending: []*coppicev1.Initializer{{Name: "vaccine.example.com"}}},
	}}
}

// removed deletes an object that was created, and waits for its end.
func removed(t *testing.T, s *shop, objects client.ResourceClient, o *coppicev1.Object) {
	t.Helper()
	if _, err := objects.Create(s.Ctx, o); err != nil {
		t.Fatal(err)
	}
	name := o.GetMetadata().GetName()
	if r, err := objects.Delete(s.Ctx, name); err != nil || r.State != client.Pending {
		t.Fatalf("%s: %+v, %v; want Pending", name, r, err)
	}
	s.WaitFor("the end of "+name, func() bool {
		_, err := objects.Get(s.Ctx, name, client.IncludeUninitialized(true))
		return errors.Is(err, client.ErrNotFound)
	})
}

// Calls of finalizers and agents are answered for uninitialized objects too: clients do
// not see these objects, but they exist.
func TestCallsForUninitialized(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.run(func(context.Context, *client.Call) error { return nil })
	removed(t, s, s.objects, uninitialized("bucket", bus.ExampleFinalizer))

	pods := client.Resource{Plural: bus.ExampleAgent}
	c := s.As(bus.RoleAgent)
	testkit.Run(t, func(ctx context.Context) error {
		return c.RunAgent(ctx, pods, func(context.Context, *client.Termination) error { return nil })
	})
	pod := uninitialized("web")
	pod.Spec = []byte(`{"nodeName":"n","terminationGracePeriodSeconds":600}`)
	removed(t, s, s.Resource(pods, "shop"), pod)
}
