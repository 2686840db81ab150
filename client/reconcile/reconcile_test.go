package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/client/reconcile"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	configMaps  = client.Resource{Plural: "configmaps"}
	secrets     = client.Resource{Plural: "secrets"}
)

// recorder is a Reconciler that records calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
	reply func(key reconcile.Key, n int) (reconcile.Result, error) // n counts the calls for the key
}

func (r *recorder) Reconcile(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, key.String())
	if r.reply == nil {
		return reconcile.Result{}, nil
	}
	n := 0
	for _, c := range r.calls {
		if c == key.String() {
			n++
		}
	}
	return r.reply(key, n)
}

// replies sets what Reconcile returns, nil for success.
func (r *recorder) replies(reply func(key reconcile.Key, n int) (reconcile.Result, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reply = reply
}

// take returns the calls so far, sorted, and forgets them.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	slices.Sort(calls)
	return calls
}

// harness runs a controller for deployments in a bubble of time.
type harness struct {
	t     *testing.T
	c     *fake.Client
	r     *recorder
	stop  context.CancelFunc
	ended chan error
}

func start(t *testing.T, c *fake.Client, r *recorder, opts ...reconcile.Option) *harness {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	h := &harness{t: t, c: c, r: r, stop: stop, ended: make(chan error, 1)}
	go func() { h.ended <- reconcile.Run(ctx, c, deployments, r, opts...) }()
	return h
}

// end ends the controller.
func (h *harness) end() {
	h.t.Helper()
	h.stop()
	if err := <-h.ended; err != nil {
		h.t.Error(err)
	}
}

// expect waits until nothing happens without the passage of time, and checks the calls.
func (h *harness) expect(want ...string) {
	h.t.Helper()
	synctest.Wait()
	if got := h.r.take(); !slices.Equal(got, want) {
		h.t.Errorf("reconciled %q, want %q", got, want)
	}
}

// created creates an object, perhaps with a controller.
func created(t *testing.T, c client.Interface, r client.Resource, name string, controller *client.Object) *client.Object {
	t.Helper()
	o := &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: "shop"}}
	if controller != nil {
		must.Succeed(t, client.SetControllerReference(controller, o))
	}
	o, err := c.Resource(r, "shop").Create(t.Context(), o)
	must.Succeed(t, err)
	return o
}

// Each object is reconciled at the start, after each change and after its removal, and
// also after each change of what it owns, or owned.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		a, b := created(t, c, deployments, "a", nil), created(t, c, deployments, "b", nil)
		h := start(t, c, &recorder{}, reconcile.Owns(configMaps), reconcile.Watches(secrets, func(o *client.Object) []reconcile.Key {
			return []reconcile.Key{{Namespace: o.GetMetadata().GetNamespace(), Name: o.GetMetadata().GetLabels()["for"]}}
		}))
		defer h.end()
		h.expect("shop/a", "shop/b")

		if _, err := c.Resource(deployments, "shop").Patch(t.Context(), "a", []byte(`{"spec":{"replicas":2}}`)); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/a")

		created(t, c, configMaps, "other", nil)
		owned := created(t, c, configMaps, "x", a)
		h.expect("shop/a")
		// The previous owner is reconciled too.
		owned.Metadata.OwnerReferences = nil
		must.Succeed(t, client.SetControllerReference(b, owned))
		if _, err := c.Resource(configMaps, "shop").Update(t.Context(), owned); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/a", "shop/b")
		if _, err := c.Resource(configMaps, "shop").Delete(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/b")

		if _, err := c.Resource(secrets, "shop").Create(t.Context(), &client.Object{Metadata: &client.ObjectMeta{Name: "s", Labels: map[string]string{"for": "b"}}}); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/b")

		if _, err := c.Resource(deployments, "shop").Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/a")
	})
}

// A controller may be for one namespace and for objects that match a selector.
func TestSelection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		for _, o := range []struct{ namespace, name, app string }{{"shop", "a", "web"}, {"shop", "b", "db"}, {"bank", "c", "web"}} {
			if _, err := c.Resource(deployments, o.namespace).Create(t.Context(), &client.Object{Metadata: &client.ObjectMeta{Name: o.name, Labels: map[string]string{"app": o.app}}}); err != nil {
				t.Fatal(err)
			}
		}
		all := start(t, c, &recorder{})
		all.expect("bank/c", "shop/a", "shop/b")
		all.end()
		web := start(t, c, &recorder{}, reconcile.WithSelector("app=web"))
		web.expect("bank/c", "shop/a")
		web.end()
		shop := start(t, c, &recorder{}, reconcile.WithSelector("app=web"), reconcile.InNamespace("shop"))
		defer shop.end()
		shop.expect("shop/a")
	})
}

// After an error an object is reconciled again with pauses that double, up to a limit; a
// change ends the pause, and a success the sequence. A permanent error is not retried.
func TestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		created(t, c, deployments, "a", nil)
		var reported []error
		r := &recorder{reply: func(reconcile.Key, int) (reconcile.Result, error) {
			return reconcile.Result{RequeueAfter: time.Nanosecond}, errors.New("down")
		}}
		h := start(t, c, r, reconcile.WithBackoff(time.Second, 3*time.Second), reconcile.OnError(func(key reconcile.Key, err error) {
			reported = append(reported, fmt.Errorf("%s: %w", key, err))
		}), reconcile.OnError(nil), reconcile.WithBackoff(0, 0))
		defer h.end()
		h.expect("shop/a")
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			pass(pause - time.Millisecond)
			h.expect()
			pass(time.Millisecond)
			h.expect("shop/a")
		}
		if len(reported) != 5 || reported[0].Error() != "shop/a: down" {
			t.Errorf("reported %v", reported)
		}
		r.replies(nil)
		if _, err := c.Resource(deployments, "shop").Patch(t.Context(), "a", []byte(`{"spec":{"replicas":2}}`)); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/a")
		pass(3 * time.Second) // the retry that was due
		h.expect("shop/a")
		pass(time.Hour)
		h.expect()

		r.replies(func(reconcile.Key, int) (reconcile.Result, error) {
			return reconcile.Result{}, client.Permanent(errors.New("malformed"))
		})
		if _, err := c.Resource(deployments, "shop").Patch(t.Context(), "a", []byte(`{"spec":{"replicas":3}}`)); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/a")
		pass(time.Hour)
		h.expect()
	})
}

// Retries of all objects together are limited.
func TestRetryLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		for i := range 5 {
			created(t, c, deployments, fmt.Sprint("d", i), nil)
		}
		r := &recorder{reply: func(_ reconcile.Key, n int) (reconcile.Result, error) {
			if n == 1 {
				return reconcile.Result{}, errors.New("down")
			}
			return reconcile.Result{}, nil
		}}
		h := start(t, c, r, reconcile.WithBackoff(time.Millisecond, time.Millisecond), reconcile.WithRetryLimit(1, 2))
		defer h.end()
		count := func() int {
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.calls)
		}
		for i, want := range []int{5, 7, 8, 9, 10, 10} {
			if i == 1 {
				pass(10 * time.Millisecond) // the burst
			} else if i > 1 {
				pass(time.Second)
			}
			if got := count(); got != want {
				t.Errorf("step %d: %d calls, want %d", i, got, want)
			}
		}
	})
}

// An object is reconciled again after RequeueAfter, and all are after each resync period.
func TestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		created(t, c, deployments, "a", nil)
		created(t, c, deployments, "b", nil)
		r := &recorder{reply: func(key reconcile.Key, n int) (reconcile.Result, error) {
			if key.Name == "a" && n == 1 {
				return reconcile.Result{RequeueAfter: time.Minute}, nil
			}
			return reconcile.Result{}, nil
		}}
		h := start(t, c, r, reconcile.WithResync(time.Hour))
		defer h.end()
		synctest.Wait()
		if n := len(r.calls); n != 2 {
			t.Fatalf("%d calls, want 2", n)
		}
		pass(59 * time.Second)
		h.expect("shop/a", "shop/b")
		r.replies(nil)
		pass(time.Second)
		h.expect("shop/a")
		pass(59 * time.Minute)
		h.expect("shop/a", "shop/b")
		if _, err := c.Resource(deployments, "shop").Delete(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		h.expect("shop/b")
		pass(time.Hour)
		h.expect("shop/a")
	})
}

// As many objects as there are workers are reconciled at the same time, and never one twice.
// Changes during a call result in one more call.
func TestWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fake.New()
		for i := range 5 {
			created(t, c, deployments, fmt.Sprint("d", i), nil)
		}
		var mu sync.Mutex
		active, most, calls := map[reconcile.Key]int{}, 0, map[reconcile.Key]int{}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- reconcile.Run(ctx, c, deployments, reconcile.Func(func(_ context.Context, key reconcile.Key) (reconcile.Result, error) {
				mu.Lock()
				active[key]++
				calls[key]++
				if active[key] > 1 {
					t.Errorf("%s is reconciled twice at the same time", key)
				}
				most = max(most, len(active))
				mu.Unlock()
				pass(time.Second)
				mu.Lock()
				defer mu.Unlock()
				delete(active, key)
				return reconcile.Result{}, nil
			}), reconcile.Workers(2))
		}()
		synctest.Wait()
		for i := range 3 { // while d0 is reconciled
			if _, err := c.Resource(deployments, "shop").Patch(t.Context(), "d0", fmt.Appendf(nil, `{"spec":{"n":%d}}`, i)); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Minute)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if most != 2 {
			t.Errorf("%d at the same time, want 2", most)
		}
		for key, n := range calls {
			want := 1
			if key.Name == "d0" {
				want = 2
			}
			if n != want {
				t.Errorf("%s was reconciled %d times, want %d", key, n, want)
			}
		}
	})
}

// Run fails if a kind is not registered.
func TestUnknownKind(t *testing.T) {
	t.Parallel()
	err := reconcile.Run(t.Context(), fake.New(), client.Resource{Group: "example.com", Plural: "sites"}, &recorder{})
	if !errors.Is(err, client.ErrUnknownKind) {
		t.Errorf("the error is %v", err)
	}
}

// pass lets time pass in the bubble of a test.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // no real time passes
