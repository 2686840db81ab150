package reconcile_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/client/reconcile"
)

// A controller gives each Deployment a ConfigMap, which the Deployment owns.
func ExampleRun() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var c client.Interface = fake.New() // client.New(nc) in a program

	controller := func(ctx context.Context, key reconcile.Key) (reconcile.Result, error) {
		owner, err := c.Resource(deployments, key.Namespace).Get(ctx, key.Name)
		if errors.Is(err, client.ErrNotFound) {
			fmt.Println(key, "is gone; the collector deletes its ConfigMap")
			cancel()
			return reconcile.Result{}, nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		owned := &client.Object{Metadata: &client.ObjectMeta{Name: key.Name, Namespace: key.Namespace}}
		if err := client.SetControllerReference(owner, owned); err != nil {
			return reconcile.Result{}, err
		}
		_, err = c.Resource(configMaps, key.Namespace).Create(ctx, owned)
		if errors.Is(err, client.ErrAlreadyExists) {
			fmt.Println(key, "has a ConfigMap")
			_, err = c.Resource(deployments, key.Namespace).Delete(ctx, key.Name)
		}
		return reconcile.Result{}, err
	}

	if _, err := c.Resource(deployments, "shop").Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web"}}); err != nil {
		fmt.Println(err)
		return
	}
	if err := reconcile.Run(ctx, c, deployments, reconcile.Func(controller), reconcile.Owns(configMaps)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// shop/web has a ConfigMap
	// shop/web is gone; the collector deletes its ConfigMap
}
