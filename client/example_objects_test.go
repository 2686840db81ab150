package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
)

var (
	pods        = client.Resource{Plural: "pods"}
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
)

// embedded runs a whole realm in a temporary directory until stop is called.
func embedded() (ctx context.Context, c *client.Client, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c, end, err := everything(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return ctx, c, func() { end(); cancel() }
}

// A program connects to NATS, and creates a Client for a realm and its actor.
func Example() {
	nc, err := nats.Connect(nats.DefaultURL)
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	c := client.New(nc, client.WithRealm("default"), client.WithActor("shop-controller"))

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pod, err := c.Resource(client.Resource{Plural: "pods"}, "shop").Get(ctx, "web-1")
	switch {
	case errors.Is(err, client.ErrNotFound):
		fmt.Println("there is no such pod")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(pod.GetMetadata().GetUid())
	}
}

// Create returns the object as stored. CreateBatch creates many objects in one request;
// each has its own result.
func ExampleResourceClient_create() {
	ctx, c, stop := embedded()
	defer stop()
	objects := c.Resource(pods, "shop")

	pod, err := objects.Create(ctx, &client.Object{
		Metadata: &client.ObjectMeta{Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec:     []byte(`{"containers": [{"name": "web", "image": "web:1"}]}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pod.GetKind(), pod.GetMetadata().GetName(), "generation", pod.GetMetadata().GetGeneration())

	results, err := objects.CreateBatch(ctx, []*client.Object{
		{Metadata: &client.ObjectMeta{Name: "web-1"}},
		{Metadata: &client.ObjectMeta{Name: "web-2"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		fmt.Println(r.Created, r.Err)
	}
	// Output:
	// Pod web-1 generation 1
	// false pods "web-1" in namespace "shop" already exists
	// true <nil>
}

// List reads the objects page by page. ListPage returns one page and its revision.
func ExampleResourceClient_list() {
	ctx, c, stop := embedded()
	defer stop()
	objects := c.Resource(pods, "shop")
	for _, name := range []string{"db-1", "web-1", "web-2"} {
		if _, err := objects.Create(ctx, &client.Object{
			Metadata: &client.ObjectMeta{Name: name, Labels: map[string]string{"app": name[:len(name)-2]}},
		}); err != nil {
			fmt.Println(err)
			return
		}
	}

	for pod, err := range objects.List(ctx, client.LabelSelector("app=web")) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(pod.GetMetadata().GetName())
	}

	page, err := objects.ListPage(ctx, client.Limit(2), client.MinRevision(c.Revision()))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(page.Objects), "objects; more:", page.Continue != "")
	// Output:
	// web-1
	// web-2
	// 2 objects; more: true
}

// Watch delivers the objects, a Bookmark with Synced, and then the changes.
func ExampleResourceClient_watch() {
	ctx, c, stop := embedded()
	defer stop()
	objects := c.Resource(pods, "shop")
	if _, err := objects.Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web-1"}}); err != nil {
		fmt.Println(err)
		return
	}

	for event, err := range objects.Watch(ctx) {
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case event.Type == client.Bookmark && event.Synced:
			fmt.Println("every existing pod was delivered")
			if _, err := objects.Delete(ctx, "web-1"); err != nil {
				fmt.Println(err)
				return
			}
		case event.Type == client.Bookmark: // every change up to event.Revision was delivered
		default:
			fmt.Println(event.Type, event.Object.GetMetadata().GetName(), event.Reason)
		}
		if event.Type == client.Deleted {
			return
		}
	}
	// Output:
	// ADDED web-1 REASON_UNSPECIFIED
	// every existing pod was delivered
	// DELETED web-1 REASON_REQUESTED
}

// An error matches its reason. Causes name the fields that are wrong.
func ExampleError() {
	ctx, c, stop := embedded()
	defer stop()
	objects := c.Resource(pods, "shop")

	_, err := objects.Get(ctx, "web-1")
	fmt.Println(errors.Is(err, client.ErrNotFound), err)

	_, err = objects.Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "Web 1"}})
	var e *client.Error
	if errors.As(err, &e) {
		fmt.Println(e.Reason, e.Reason.Code(), e.Causes[0].Field)
	}

	pod, err := objects.Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web-1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = objects.Delete(ctx, "web-1", client.IfUID("another"))
	fmt.Println(errors.Is(err, client.ErrConflict))
	result, err := objects.Delete(ctx, "web-1", client.IfUID(pod.GetMetadata().GetUid()))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State)
	// Output:
	// true pods "web-1" in namespace "shop" not found
	// Invalid 422 metadata.name
	// true
	// Removed
}

// SetControllerReference makes an object a dependent: it is collected when its owner is
// gone, and a foreground deletion of the owner waits for it.
func ExampleSetControllerReference() {
	ctx, c, stop := embedded()
	defer stop()
	owner, err := c.Resource(deployments, "shop").Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web"}})
	if err != nil {
		fmt.Println(err)
		return
	}

	pod := &client.Object{Metadata: &client.ObjectMeta{Name: "web-1", Namespace: "shop"}}
	if err := client.SetControllerReference(owner, pod); err != nil {
		fmt.Println(err)
		return
	}
	if pod, err = c.Resource(pods, "shop").Create(ctx, pod); err != nil {
		fmt.Println(err)
		return
	}
	r := client.ControllerOf(pod)
	fmt.Println(r.GetApiVersion(), r.GetKind(), r.GetName(), r.GetBlockOwnerDeletion())
	// Output:
	// apps/v1 Deployment web true
}

// Plan computes what a deletion would do. ByPlan deletes the objects only if that is still
// what happens.
func ExampleByPlan() {
	ctx, c, stop := embedded()
	defer stop()
	owners := c.Resource(deployments, "shop")
	owner, err := owners.Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &client.Object{Metadata: &client.ObjectMeta{Name: "web-1", Namespace: "shop"}}
	if err := client.SetControllerReference(owner, pod); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Resource(pods, "shop").Create(ctx, pod); err != nil {
		fmt.Println(err)
		return
	}

	plan, err := owners.Plan(ctx, []string{"web"}, client.Foreground, client.MinRevision(c.Revision()))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range plan.GetObjects() {
		fmt.Println(o.GetResource(), o.GetName(), o.GetOutcome())
	}
	results, err := owners.DeleteBatch(ctx, []string{"web"}, client.Foreground, client.ByPlan(plan.GetPlan()))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(results[0].State, results[0].Object.GetMetadata().GetFinalizers())
	// Output:
	// deployments.apps web PLAN_OUTCOME_REMOVED
	// pods web-1 PLAN_OUTCOME_REMOVED
	// Pending [foregroundDeletion]
}

// An external finalizer cleans up something outside Coppice before an object is removed.
func ExampleClient_RunFinalizer() {
	ctx, c, stop := embedded()
	defer stop()
	buckets := c.Resource(client.Resource{Plural: "configmaps"}, "shop")
	if _, err := buckets.Create(ctx, &client.Object{
		Metadata: &client.ObjectMeta{Name: "images", Finalizers: []string{"example.com/bucket"}},
	}); err != nil {
		fmt.Println(err)
		return
	}
	result, err := buckets.Delete(ctx, "images")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State)

	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunFinalizer(ctx, "example.com/bucket", func(_ context.Context, call *client.Call) error {
			// Delete the bucket here. An error has the call repeated.
			fmt.Println("delete bucket", call.Object.GetMetadata().GetName())
			return nil
		}, client.Concurrency(1), client.OnError(func(err error) { log.Println("retry:", err) }))
	}()
	for event, err := range buckets.Watch(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if event.Type == client.Deleted || event.Synced && gone(ctx, buckets, "images") {
			fmt.Println("removed")
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output:
	// Pending
	// delete bucket images
	// removed
}

// gone reports whether an object does not exist.
func gone(ctx context.Context, objects client.ResourceClient, name string) bool {
	_, err := objects.Get(ctx, name)
	return errors.Is(err, client.ErrNotFound)
}

// An agent ends what the objects of a kind stand for, such as the process of a pod, within
// the grace period of a deletion.
func ExampleClient_RunAgent() {
	ctx, c, stop := embedded()
	defer stop()
	objects := c.Resource(pods, "shop")
	if _, err := objects.Create(ctx, &client.Object{
		Metadata: &client.ObjectMeta{Name: "web-1"}, Spec: []byte(`{"nodeName": "node-1"}`),
	}); err != nil {
		fmt.Println(err)
		return
	}
	result, err := objects.Delete(ctx, "web-1", client.GracePeriod(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.State)

	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunAgent(ctx, pods, func(_ context.Context, t *client.Termination) error {
			fmt.Println("end the process of", t.Object.GetMetadata().GetName())
			return nil
		})
	}()
	for event, err := range objects.Watch(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		if event.Type == client.Deleted || event.Synced && gone(ctx, objects, "web-1") {
			fmt.Println("removed")
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output:
	// Pending
	// end the process of web-1
	// removed
}
