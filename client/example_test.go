package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// A controller creates dependents, and reports the generation that it has seen in
// status.observedGeneration. The orphan finalizer of an App waits until the controller has
// seen the deletion, so that every dependent is orphaned.
func Example_observedGeneration() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, stop, err := everything(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	err = orphanStory(ctx, c)
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// ana deletes the App and orphans what it owns: generation 2
	// the controller, which has seen generation 1, makes one more
	// nothing happens: the App is there, and owns 2 objects
	// the controller has seen generation 2
	// the App is gone, and 2 objects are left without an owner
}

func orphanStory(ctx context.Context, c *client.Client) error {
	kinds := c.Resource(client.KindsResource, "")
	if _, err := kinds.Create(ctx, &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "apps.example.com"},
		Spec: []byte(`{"group":"example.com","kind":"App","plural":"apps","scope":"Namespaced",
			"versions":[{"name":"v1"}],"observesGeneration":true}`),
	}); err != nil {
		return err
	}
	apps, parts := c.Resource(client.Resource{Group: "example.com", Plural: "apps"}, "shop"), c.Resource(configMaps, "shop")
	created, err := apps.Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "web"}})
	if err != nil {
		return err
	}
	app := created
	makePart := func(name string) error {
		part := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "shop"}}
		if err := client.SetControllerReference(app, part); err != nil {
			return err
		}
		_, err := parts.Create(ctx, part)
		return err
	}
	observe := func(generation int) error {
		_, err := apps.UpdateStatus(ctx, &coppicev1.Object{
			Metadata: &coppicev1.ObjectMeta{Name: "web"}, Status: fmt.Appendf(nil, `{"observedGeneration":%d}`, generation),
		})
		return err
	}
	if err := errors.Join(makePart("first"), observe(1)); err != nil {
		return err
	}

	deleted, err := apps.Delete(ctx, "web", client.Orphan)
	if err != nil {
		return err
	}
	fmt.Println("ana deletes the App and orphans what it owns: generation", deleted.Object.GetMetadata().GetGeneration())
	fmt.Println("the controller, which has seen generation 1, makes one more")
	if err := makePart("second"); err != nil {
		return err
	}
	family, err := apps.Resolve(ctx, []string{"web"})
	if err != nil {
		return err
	}
	fmt.Println("nothing happens: the App is there, and owns", family.GetNodes()[0].GetDependents(), "objects")

	fmt.Println("the controller has seen generation 2")
	if err := observe(2); err != nil {
		return err
	}
	if err := poll.Until(ctx, func() (bool, error) {
		_, err := apps.Get(ctx, "web")
		if errors.Is(err, client.ErrNotFound) {
			return true, nil
		}
		return false, err
	}); err != nil {
		return err
	}
	free := 0
	for o, err := range parts.List(ctx) {
		if err != nil {
			return err
		}
		if len(o.GetMetadata().GetOwnerReferences()) == 0 {
			free++
		}
	}
	fmt.Println("the App is gone, and", free, "objects are left without an owner")
	return nil
}

// everything runs all services in a temporary directory.
func everything(ctx context.Context) (c *client.Client, stop func(), err error) {
	dir, err := os.MkdirTemp("", "coppice-example-")
	if err != nil {
		return nil, nil, err
	}
	s, err := allinone.Start(ctx, allinone.Config{Dir: dir})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() {
		if err := errors.Join(s.Stop(), os.RemoveAll(dir)); err != nil {
			fmt.Println(err)
		}
	}
	if err := s.Await(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	nc, err := s.Conn(bus.LocalUser)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return client.New(nc, client.WithActor("ana")), stop, nil
}
