package coppicetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	configMaps  = client.Resource{Plural: "configmaps"}
)

// A realm has the real collector, and runs external finalizers.
func TestStart(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c := coppicetest.Start(t, client.WithActor("ana"))
	if c.Actor() != "ana" {
		t.Errorf("the actor is %q", c.Actor())
	}
	const finalizer = "example.com/bucket"
	web, err := c.Resource(deployments, "shop").Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web", Finalizers: []string{finalizer}}})
	must.Succeed(t, err)
	owned := &client.Object{Metadata: &client.ObjectMeta{Name: "web", Namespace: "shop"}}
	must.Succeed(t, client.SetControllerReference(web, owned))
	if _, err := c.Resource(configMaps, "shop").Create(ctx, owned); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Resource(deployments, "shop").Delete(ctx, "web"); err != nil || r.State != client.Pending {
		t.Fatalf("delete: %v, %v", r, err)
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunFinalizer(run, finalizer, func(context.Context, *client.Call) error { return nil })
	}()
	testkit.WaitFor(t, ctx, "the collection of the dependent", func() bool {
		_, err := c.Resource(configMaps, "shop").Get(ctx, "web")
		return errors.Is(err, client.ErrNotFound)
	})
	stop()
	if err := testkit.Receive(t, ctx, "the end of RunFinalizer", ended); err != nil {
		t.Error(err)
	}
}

// Each call of Start has a realm of its own, which a cleanup function can still use.
func TestRealmsAreSeparate(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	one, two := coppicetest.Start(t), coppicetest.Start(t)
	if _, err := one.Resource(configMaps, "shop").Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Resource(configMaps, "shop").Get(ctx, "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("the other realm: %v", err)
	}
	t.Cleanup(func() {
		if _, err := one.Resource(configMaps, "shop").Get(context.WithoutCancel(ctx), "a"); err != nil {
			t.Errorf("in a cleanup function: %v", err)
		}
	})
}
