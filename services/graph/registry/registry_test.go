package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/registry"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// list is a list of realms whose calls are repeated when a busy machine does not carry them out in their time.
type list struct{ *registry.Registry }

// open returns the list of realms.
func open(js jetstream.JetStream) list { return list{registry.New(js, 1)} }

func again[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		result, err := call()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return result, err
		}
	}
}

func (l list) List(ctx context.Context) (registry.List, error) {
	return again(ctx, func() (registry.List, error) { return l.Registry.List(ctx) })
}

func (l list) Create(ctx context.Context, name, actor, id string, now time.Time) (*coppicev1.Realm, error) {
	return again(ctx, func() (*coppicev1.Realm, error) { return l.Registry.Create(ctx, name, actor, id, now) })
}

func (l list) Ensure(ctx context.Context, name string, now time.Time) (*coppicev1.Realm, error) {
	return again(ctx, func() (*coppicev1.Realm, error) { return l.Registry.Ensure(ctx, name, now) })
}

func (l list) Delete(ctx context.Context, name, actor string, withoutArchive bool, now time.Time) (*coppicev1.Realm, error) {
	return again(ctx, func() (*coppicev1.Realm, error) { return l.Registry.Delete(ctx, name, actor, withoutArchive, now) })
}

func (l list) Waiting(ctx context.Context, name, why string) error {
	_, err := again(ctx, func() (any, error) { return nil, l.Registry.Waiting(ctx, name, why) })
	return err
}

func (l list) Deleting(ctx context.Context, name string, id []byte) error {
	_, err := again(ctx, func() (any, error) { return nil, l.Registry.Deleting(ctx, name, id) })
	return err
}

func (l list) Deleted(ctx context.Context, name string) error {
	_, err := again(ctx, func() (any, error) { return nil, l.Registry.Deleted(ctx, name) })
	return err
}

// Of graph services that create the same realm at once one succeeds, and all changes of
// different realms are in the list, in order.
func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NATS(t)
	const services, realms = 4, 20
	var mu sync.Mutex
	created := map[string]int{}
	var wg sync.WaitGroup
	for service := range services {
		g := open(testkit.JetStream(t, server, bus.RoleGraph))
		wg.Go(func() {
			for i := range realms {
				name := fmt.Sprintf("realm-%02d", i)
				_, err := g.Create(ctx, name, "ana", fmt.Sprint(service), time.Now())
				var refusal *lifecycle.Error
				if err != nil && (!errors.As(err, &refusal) || refusal.Reason != api.ErrAlreadyExists) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					created[name]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	list, err := open(testkit.JetStream(t, server, bus.RoleGraph)).List(ctx)
	must.Succeed(t, err)
	if len(list.Realms) != realms {
		t.Errorf("there are %d realms, want %d", len(list.Realms), realms)
	}
	for i, r := range list.Realms {
		if want := fmt.Sprintf("realm-%02d", i); r.GetName() != want || created[want] != 1 {
			t.Errorf("realm %d is %s, created %d times", i, r.GetName(), created[want])
		}
	}
}

// A realm goes from one state to the next, and back only when it is created again. What
// was deleted is remembered.
func TestStates(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	g := open(testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph))
	refused := func(what string, err error, reason lifecycle.Reason) {
		t.Helper()
		if !errors.Is(err, reason) {
			t.Errorf("%s: %v, want %s", what, err, reason)
		}
	}
	now := time.UnixMicro(1_000_000)
	_, err := g.Delete(ctx, "shop", "ana", false, now)
	refused("deletion of a realm that does not exist", err, api.ErrNotFound)
	if _, err := g.Ensure(ctx, "shop", now); err != nil {
		t.Fatal(err)
	}
	before, err := g.List(ctx)
	must.Succeed(t, err)
	_, err = g.Create(ctx, "shop", "ana", "", now)
	refused("creation of a realm that exists", err, api.ErrAlreadyExists)
	if again, err := g.List(ctx); err != nil || again.Version != before.Version {
		t.Errorf("a refusal has changed the list: %v, %v", again, err)
	}
	must.Succeed(t, g.Deleted(ctx, "shop"))
	if list, err := g.List(ctx); err != nil || fmt.Sprint(list.Active()) != "[shop]" {
		t.Errorf("a realm that is not being deleted became deleted: %v, %v", list, err)
	}
	if r, err := g.Create(ctx, "other", "ana", "1", now); err != nil || r.GetCreated() != now.UnixMicro() {
		t.Errorf("created with an id: %v, %v", r, err)
	}
	if r, err := g.Create(ctx, "other", "ana", "1", now.Add(time.Hour)); err != nil || r.GetCreated() != now.UnixMicro() {
		t.Errorf("a repetition: %v, %v", r, err)
	}
	for actor, id := range map[string]string{"ana": "2", "bob": "1"} {
		_, err := g.Create(ctx, "other", actor, id, now)
		refused("another request", err, api.ErrAlreadyExists)
	}
	if r, err := g.Delete(ctx, "shop", "ana", false, now); err != nil || r.GetState() != coppicev1.RealmState_REALM_STATE_DELETING || r.GetWithoutArchive() {
		t.Errorf("deletion: %v, %v", r, err)
	}
	if r, err := g.Delete(ctx, "shop", "bob", true, now.Add(time.Hour)); err != nil || r.GetDeletedBy() != "ana" || r.GetDeleted() != now.UnixMicro() || !r.GetWithoutArchive() {
		t.Errorf("second deletion: %v, %v", r, err)
	}
	_, err = g.Create(ctx, "shop", "ana", "", now)
	refused("creation of a realm that is being deleted", err, api.ErrConflict)
	id := []byte("0123456789abcdef")
	for _, step := range []func() error{
		func() error { return g.Waiting(ctx, "shop", "for a process") },
		func() error { return g.Deleting(ctx, "shop", id) },
		func() error { return g.Deleting(ctx, "shop", id) },
		func() error { return g.Deleted(ctx, "shop") },
	} {
		must.Succeed(t, step())
	}
	if r, err := g.Ensure(ctx, "shop", now); err != nil || r.GetState() != coppicev1.RealmState_REALM_STATE_DELETED || r.GetWaiting() != "" {
		t.Errorf("after the deletion: %v, %v", r, err)
	}
	r, err := g.Create(ctx, "shop", "bob", "3", now)
	if err != nil || r.GetState() != coppicev1.RealmState_REALM_STATE_ACTIVE || r.GetCreatedBy() != "bob" || r.GetDeletedBy() != "" || r.GetWithoutArchive() {
		t.Errorf("created again: %v, %v", r, err)
	}
	if !registry.WasDeleted(r, id) || len(r.GetDeletedIds()) != 1 || registry.WasDeleted(r, nil) {
		t.Errorf("the ids of deleted logs are %x", r.GetDeletedIds())
	}
}

// A bucket that was removed while the service runs is created again, and the list is empty:
// no realm counts as deleted.
func TestBucketRemoved(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	g := open(js)
	if _, err := g.Create(ctx, "shop", "ana", "1", time.Now()); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, js.DeleteKeyValue(ctx, bus.RealmBucket))
	testkit.WaitFor(t, ctx, "the list to be empty", func() bool {
		list, err := g.List(ctx)
		return err == nil && len(list.Realms) == 0
	})
}

// A call waits for others, which may wait for a connection that cannot write, only until its context ends.
func TestCallsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	g := registry.New(testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph), 1)
	for _, occupy := range []func() (release func()){g.OccupyOpening, g.OccupyReading} {
		release := occupy()
		ended, cancel := context.WithCancel(ctx)
		cancel()
		result := make(chan error, 1)
		go func() {
			_, err := g.List(ended)
			result <- err
		}()
		if err := testkit.Receive(t, ctx, "the end of the call", result); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		release()
		if _, err := (list{g}).List(ctx); err != nil { // the bucket is open from the first on
			t.Fatal(err)
		}
	}
}

// A key that is no realm is an error of each list, and not only of the first.
func TestUnreadableKey(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	g := open(js)
	if _, err := g.Create(ctx, "shop", "ana", "1", time.UnixMicro(1)); err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue(ctx, bus.RealmBucket)
	must.Succeed(t, err)
	if _, err := bucket.Put(ctx, "bad", []byte("\xff\xff")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if list, err := g.List(ctx); err == nil || !strings.Contains(err.Error(), "remove the key") {
			t.Errorf("the list is %v, %v", list, err)
		}
	}
}
