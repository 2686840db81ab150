package fake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A watch of the graph of a fake delivers what one of a real realm delivers.
func TestWatchGraphConformance(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	imitated := graphStory(t, newWorld(t, ctx, fake.New()))
	real := graphStory(t, newWorld(t, ctx, coppicetest.Start(t, client.WithTimeout(testkit.Timeout))))
	if !slices.Equal(imitated, real) || len(real) < 8 {
		t.Errorf("the fake delivered\n%q\nand the realm\n%q", imitated, real)
	}
}

// graphStory changes objects, and returns the events.
func graphStory(t *testing.T, w *world) (events []string) {
	t.Helper()
	c := w.c.Resource(configMaps, "shop")
	create := func(name string, o *client.Object) *client.Object {
		t.Helper()
		o.Metadata.Name = name
		created, err := c.Create(w.ctx, o)
		must.Succeed(t, err)
		return created
	}
	owner := create("owner", &client.Object{Metadata: &client.ObjectMeta{Labels: map[string]string{"app": "web"}}})
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	synced := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e, err := range w.c.WatchGraph(ctx) {
			m := e.Object.GetMetadata()
			switch {
			case err != nil:
				t.Error(err)
				return
			case e.Synced:
				events = append(events, "synced")
				close(synced)
			case m.GetNamespace() == "shop":
				events = append(events, fmt.Sprintf("%s %s %s %v owners:%d terminating:%t %v contents:%t", e.Type, e.Resource, m.GetName(), m.GetLabels(),
					len(m.GetOwnerReferences()), m.GetDeletionTimestamp() != nil, m.GetFinalizers(), len(e.Object.GetSpec())+len(m.GetAnnotations()) > 0))
			}
			if m.GetName() == "last" {
				return
			}
		}
	}()
	testkit.Receive(t, ctx, "the objects that exist", synced)
	create("dependent", &client.Object{
		Metadata: &client.ObjectMeta{OwnerReferences: []*client.OwnerReference{client.NewOwnerReference(owner)}, Annotations: map[string]string{"a": "b"}},
		Spec:     []byte(`{"a":1}`),
	})
	create("held", &client.Object{Metadata: &client.ObjectMeta{Finalizers: []string{"example.com/x"}}})
	for _, name := range []string{"held", "owner"} {
		_, err := c.Delete(w.ctx, name)
		must.Succeed(t, err)
		if name == "owner" {
			testkit.WaitFor(t, w.ctx, "the dependent to be collected", func() bool {
				_, err := c.Get(w.ctx, "dependent")
				return errors.Is(err, client.ErrNotFound)
			})
		}
	}
	_, err := c.RemoveFinalizer(w.ctx, "held", "example.com/x")
	must.Succeed(t, err)
	create("last", &client.Object{Metadata: &client.ObjectMeta{}})
	testkit.Receive(t, ctx, "the last event", done)
	return events
}
