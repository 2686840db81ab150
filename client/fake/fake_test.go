package fake_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// created creates an object in namespace shop.
func created(t *testing.T, c client.Interface, r client.Resource, o *client.Object) *client.Object {
	t.Helper()
	o, err := c.Resource(r, "shop").Create(t.Context(), o)
	must.Succeed(t, err)
	return o
}

func named(name string, finalizers ...string) *client.Object {
	return &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: "shop", Finalizers: finalizers}}
}

// A watch delivers the objects, then changes in the order of revisions, each once, and says
// with bookmarks how far it is. From a revision it delivers the changes after it.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		owner := created(t, c, deployments, named("web"))
		for _, name := range []string{"b", "a"} {
			o := named(name)
			o.Metadata.Labels = map[string]string{"app": "web"}
			must.Succeed(t, client.SetControllerReference(owner, o))
			created(t, c, configMaps, o)
		}
		created(t, c, configMaps, named("other"))
		ctx, stop := context.WithCancel(t.Context())
		watch := func(opts ...client.WatchOption) *[]string {
			var seen []string
			go func() {
				last := uint64(0)
				for e, err := range c.Resource(configMaps, "shop").Watch(ctx, opts...) {
					if err != nil {
						t.Error(err)
						return
					}
					if e.Type != client.Added && e.Revision < last {
						t.Errorf("revision %d after %d", e.Revision, last)
					}
					last = max(last, e.Revision)
					text := string(e.Type)
					if e.Type == client.Bookmark {
						text = fmt.Sprintf("bookmark %t", e.Synced)
						status, err := c.Status(t.Context())
						if err != nil || e.Revision != status.GetRevision() {
							t.Errorf("the bookmark has revision %d, want that of %v, %v", e.Revision, status, err)
						}
					} else {
						text += " " + e.Object.GetMetadata().GetName() + " " + strings.TrimPrefix(e.Reason.String(), "REASON_")
						if e.Object.GetMetadata().GetResourceVersion() != e.Revision {
							t.Errorf("%s has resourceVersion %d, want %d", text, e.Object.GetMetadata().GetResourceVersion(), e.Revision)
						}
						e.Object.Metadata.Name = "changed by the watcher"
					}
					seen = append(seen, text)
				}
			}()
			return &seen
		}
		before, err := c.Resource(configMaps, "shop").ListPage(ctx)
		must.Succeed(t, err)
		all, web := watch(), watch(client.LabelSelector("app=web"))
		synctest.Wait()
		if _, err := c.Resource(configMaps, "shop").Patch(ctx, "a", []byte(`{"metadata":{"labels":null}}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := c.Resource(deployments, "shop").Delete(ctx, "web"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		late := watch(client.FromRevision(before.Revision))
		synctest.Wait()
		stop()
		synctest.Wait()
		changes := []string{"MODIFIED a REQUESTED", "bookmark false", "DELETED a OWNER_ABSENT", "DELETED b OWNER_ABSENT", "bookmark false"}
		for _, x := range []struct {
			got  *[]string
			want []string
		}{
			{all, append([]string{"ADDED a UNSPECIFIED", "ADDED b UNSPECIFIED", "ADDED other UNSPECIFIED", "bookmark true"}, changes...)},
			{web, []string{"ADDED a UNSPECIFIED", "ADDED b UNSPECIFIED", "bookmark true", "DELETED a REQUESTED", "bookmark false", "DELETED b OWNER_ABSENT", "bookmark false"}},
			{late, slices.Concat(changes[:1], changes[2:])},
		} {
			// The order in which the collector deletes a and b is that of their uids.
			sortDeletions(*x.got)
			if !slices.Equal(*x.got, x.want) {
				t.Errorf("got %q, want %q", *x.got, x.want)
			}
		}
	})
}

// sortDeletions sorts neighbouring deletions.
func sortDeletions(events []string) {
	for i := 1; i < len(events); i++ {
		if strings.HasPrefix(events[i-1], "DELETED") && strings.HasPrefix(events[i], "DELETED") && events[i] < events[i-1] {
			events[i-1], events[i] = events[i], events[i-1]
		}
	}
}

// RunFinalizer calls the function until it succeeds, with pauses, and removes the
// finalizer. Permanent errors are not retried for ever.
func TestRunFinalizer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		created(t, c, configMaps, named("a", external, "example.com/other"))
		created(t, c, configMaps, named("b", external))
		ctx, stop := context.WithCancel(t.Context())
		// Time that passes in the bubble does not order accesses to memory: hence the mutex.
		var mu sync.Mutex
		var calls, reported []string
		take := func(list *[]string) []string {
			mu.Lock()
			defer mu.Unlock()
			taken := *list
			*list = nil
			return taken
		}
		ended := make(chan error, 1)
		go func() {
			ended <- c.RunFinalizer(ctx, external, func(_ context.Context, call *client.Call) error {
				name := call.Object.GetMetadata().GetName()
				mu.Lock()
				defer mu.Unlock()
				calls = append(calls, fmt.Sprintf("%s/%s %d", call.Resource, name, call.Attempt))
				switch {
				case name == "b":
					return client.Permanent(errors.New("malformed"))
				case call.Attempt < 3:
					return client.ErrConflict
				}
				return nil
			}, client.Concurrency(1), client.ParkAfter(2), client.Backoff{Min: time.Second, Max: time.Minute},
				client.OnError(func(err error) {
					mu.Lock()
					defer mu.Unlock()
					reported = append(reported, err.Error())
				}))
		}()
		synctest.Wait()
		if got := take(&calls); len(got) != 0 {
			t.Errorf("called for objects that are not being deleted: %v", got)
		}
		if _, err := c.Resource(configMaps, "shop").Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		pass(time.Second)
		synctest.Wait()
		pass(2*time.Second - time.Millisecond)
		synctest.Wait()
		if got, want := take(&calls), []string{"configmaps/a 1", "configmaps/a 2"}; !slices.Equal(got, want) {
			t.Errorf("called for %q, want %q", got, want)
		}
		pass(time.Millisecond)
		synctest.Wait()
		a, err := c.Resource(configMaps, "shop").Get(ctx, "a")
		if err != nil || !slices.Equal(a.GetMetadata().GetFinalizers(), []string{"example.com/other"}) {
			t.Errorf("a is %v, %v", a, err)
		}
		if _, err := c.Resource(configMaps, "shop").RemoveFinalizer(ctx, "a", "example.com/other"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Resource(configMaps, "shop").Get(ctx, "a"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("a without finalizers: %v", err)
		}
		if got := take(&calls); !slices.Equal(got, []string{"configmaps/a 3"}) {
			t.Errorf("called for %q at last, want configmaps/a 3", got)
		}
		if _, err := c.Resource(configMaps, "shop").Delete(ctx, "b"); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		synctest.Wait()
		if got, want := take(&calls), []string{"configmaps/b 1", "configmaps/b 2"}; !slices.Equal(got, want) {
			t.Errorf("called for %q, want %q", got, want)
		}
		if got, want := take(&reported), []string{"Conflict", "Conflict", "malformed", "malformed"}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// RunAgent ends what an object stands for, and confirms it.
func TestRunAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		pod := named("p")
		pod.Spec = []byte(`{"nodeName":"n1","terminationGracePeriodSeconds":7}`)
		created(t, c, pods, pod)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var deadline time.Time
		go func() {
			if err := c.RunAgent(ctx, pods, func(_ context.Context, call *client.Termination) error {
				deadline = call.Deadline
				return nil
			}, nil, client.Concurrency(-1), client.ParkAfter(-1)); err != nil {
				t.Error(err)
			}
		}()
		if r, err := c.Resource(pods, "shop").Delete(ctx, "p"); err != nil || r.State != client.Pending {
			t.Fatalf("delete: %v, %v", r, err)
		}
		now := time.Now()
		synctest.Wait()
		if left := deadline.Sub(now); left != 7*time.Second {
			t.Errorf("the deadline is in %v, want 7 s", left)
		}
		if _, err := c.Resource(pods, "shop").Get(ctx, "p"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("after the confirmation: %v", err)
		}
	})
}

// Advance makes work due that waits for time: the owner of an imported object that was
// never seen counts as absent after the owner grace period, 10 minutes.
func TestAdvance(t *testing.T) {
	t.Parallel()
	c := fake.New()
	o := named("a")
	o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c13"
	o.Metadata.OwnerReferences = []*client.OwnerReference{{ApiVersion: "apps/v1", Kind: "Deployment", Name: "x", Uid: "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c14"}}
	if _, err := c.Resource(configMaps, "shop").ImportBatch(t.Context(), "s", []*client.Object{o}, client.CloseSession(true)); err != nil {
		t.Fatal(err)
	}
	c.Advance(9 * time.Minute)
	if _, err := c.Resource(configMaps, "shop").Get(t.Context(), "a"); err != nil {
		t.Errorf("after 9 minutes: %v", err)
	}
	c.Advance(2 * time.Minute)
	if _, err := c.Resource(configMaps, "shop").Get(t.Context(), "a"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("after 11 minutes: %v", err)
	}
}

// A caller cannot change what the fake has by changing an object that it passed or got.
func TestObjectsAreCopied(t *testing.T) {
	t.Parallel()
	c := fake.New()
	o := named("a", external)
	o.Spec = []byte(`{"n":1}`)
	created := created(t, c, configMaps, o)
	got, err := c.Resource(configMaps, "shop").Get(t.Context(), "a")
	must.Succeed(t, err)
	for _, x := range []*client.Object{o, created, got} {
		x.Metadata.Finalizers[0] = "example.com/changed"
		copy(x.Spec, `{"n":2}`)
	}
	now, err := c.Resource(configMaps, "shop").Get(t.Context(), "a")
	if err != nil || now.GetMetadata().GetFinalizers()[0] != external || string(now.GetSpec()) != `{"n":1}` {
		t.Errorf("the object is %v, %v", now, err)
	}
}

// What the fake does not have is an error, and an ended context too.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := fake.New()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, last := c.Log().Last(t.Context())
	_, verify := c.Operations().Verify(t.Context())
	expiry := c.RunExpiry(t.Context(), "keeper", nil)
	for what, err := range map[string]error{"log": last, "verify": verify, "expiry policies": expiry} {
		if !errors.Is(err, client.ErrMethodNotAllowed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, get := c.Resource(configMaps, "shop").Get(ended, "a")
	_, create := c.Resource(configMaps, "shop").Create(ended, named("a"))
	for what, err := range map[string]error{"get": get, "create": create} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A lease has one leader at a time, and each lease its own.
func TestRunLeader(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c := fake.New()
	led, ended, let := make(chan string, 3), make(chan error, 3), make(chan struct{})
	run := func(lease, name string) {
		ended <- c.RunLeader(ctx, lease, func(context.Context) error { led <- name; <-let; return nil })
	}
	go run("a", "first")
	testkit.Receive(t, ctx, "the first leader", led)
	go run("a", "second")
	go run("b", "other")
	if name := testkit.Receive(t, ctx, "the leader of the other lease", led); name != "other" {
		t.Errorf("%s leads", name)
	}
	close(let)
	if name := testkit.Receive(t, ctx, "the second leader", led); name != "second" {
		t.Errorf("%s leads", name)
	}
	for range 3 {
		must.Succeed(t, testkit.Receive(t, ctx, "the end", ended))
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.RunLeader(over, "a", func(context.Context) error { return errors.New("it leads") }); err != nil {
		t.Error(err)
	}
	if err := c.RunLeader(ctx, "A", nil); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("an invalid name: %v", err)
	}
}

// A test can follow a cascade step by step.
func Example() {
	ctx := context.Background()
	c := fake.New()
	deployment, err := c.Resource(deployments, "shop").Create(ctx, named("web", "example.com/dns"))
	if err != nil {
		fmt.Println(err)
		return
	}
	config := named("web")
	if err := client.SetControllerReference(deployment, config); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Resource(configMaps, "shop").Create(ctx, config); err != nil {
		fmt.Println(err)
		return
	}
	r, err := c.Resource(deployments, "shop").Delete(ctx, "web", client.Foreground)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Resource(configMaps, "shop").Get(ctx, "web")
	fmt.Println(r.State, "and its ConfigMap is", err)
	if _, err := c.Resource(deployments, "shop").RemoveFinalizer(ctx, "web", "example.com/dns"); err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Resource(deployments, "shop").Get(ctx, "web")
	fmt.Println("now the Deployment is", err)
	// Output:
	// Pending and its ConfigMap is configmaps "web" in namespace "shop" not found
	// now the Deployment is deployments.apps "web" in namespace "shop" not found
}

// pass lets time pass in the bubble of a test.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // no real time passes

// The external finalizers of an object that another uses are called after its last user is gone, as in
// a realm.
func TestFinalizersOfUsedObjects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		network := created(t, c, configMaps, named("network", external))
		machine := named("machine", external)
		must.Succeed(t, client.AddUse(network, machine))
		created(t, c, configMaps, machine)
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var order []string
		ended := make(chan error, 1)
		go func() {
			ended <- c.RunFinalizer(ctx, external, func(_ context.Context, call *client.Call) error {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, call.Object.GetMetadata().GetName())
				return nil
			})
		}()
		for _, name := range []string{"network", "machine"} {
			if _, err := c.Resource(configMaps, "shop").Delete(ctx, name); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if !slices.Equal(order, []string{"machine", "network"}) {
			t.Errorf("called for %v", order)
		}
		if _, err := c.Resource(configMaps, "shop").Get(t.Context(), "network"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("the network: %v", err)
		}
	})
}
