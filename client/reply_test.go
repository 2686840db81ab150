package client_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// Every reply about the state has the realm's revision: of a read, of a write, of a write that changes
// nothing, of a deletion, and of a refused object of a batch.
func TestReplyRevision(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.Client
	objects := c.Resource(configMaps, "shop")
	o, err := objects.Create(s.Ctx, object("shop", "a", ""))
	must.Succeed(t, err)
	created := o.GetMetadata().GetResourceVersion()
	if _, err := objects.Create(s.Ctx, object("shop", "b", "")); err != nil { // so that the realm is ahead of a
		t.Fatal(err)
	}
	revision := c.Revision()
	var reply client.Reply
	for what, call := range map[string]func() error{
		"get":                     func() error { _, err := objects.Get(s.Ctx, "a", client.ReplyInto(&reply)); return err },
		"list":                    func() error { _, err := objects.ListPage(s.Ctx, client.ReplyInto(&reply)); return err },
		"update without a change": func() error { _, err := objects.Update(s.Ctx, o, client.ReplyInto(&reply)); return err },
		"patch without a change":  func() error { _, err := objects.Patch(s.Ctx, "a", []byte(`{}`), client.ReplyInto(&reply)); return err },
		"removal of no finalizer": func() error {
			_, err := objects.RemoveFinalizer(s.Ctx, "a", "example.com/x", client.ReplyInto(&reply))
			return err
		},
		"dry run of a deletion": func() error {
			_, err := objects.Delete(s.Ctx, "a", client.DryRun(true), client.ReplyInto(&reply))
			return err
		},
		"plan": func() error {
			_, err := objects.Plan(s.Ctx, []string{"a"}, client.MinRevision(revision), client.ReplyInto(&reply))
			return err
		},
		"plan of a deletion": func() error {
			_, err := objects.Plan(s.Ctx, []string{"a"}, client.DeleteOptions{Reply: &reply})
			return err
		},
		"resolve": func() error {
			_, err := objects.Resolve(s.Ctx, []string{"a"}, client.MinRevision(revision), client.ReplyInto(&reply))
			return err
		},
		"kinds":           func() error { _, err := c.Kinds(s.Ctx, client.ReplyInto(&reply)); return err },
		"status":          func() error { _, err := c.Status(s.Ctx, client.ReplyInto(&reply)); return err },
		"past":            func() error { _, err := c.At(s.Ctx, client.Moment{}, client.ReplyInto(&reply)); return err },
		"brakes":          func() error { _, err := c.Operations().Brakes(s.Ctx, client.ReplyInto(&reply)); return err },
		"finalizers":      func() error { _, err := c.Operations().Finalizers(s.Ctx, client.ReplyInto(&reply)); return err },
		"expiry policies": func() error { _, err := c.Operations().ExpiryPolicies(s.Ctx, client.ReplyInto(&reply)); return err },
		"storage":         func() error { _, err := c.Operations().Storage(s.Ctx, client.ReplyInto(&reply)); return err },
		"leaders":         func() error { _, err := c.Operations().Leaders(s.Ctx, client.ReplyInto(&reply)); return err },
		"resume":          func() error { _, err := c.Operations().Resume(s.Ctx, client.ReplyInto(&reply)); return err },
		"batch with a refused object": func() error {
			results, err := objects.CreateBatch(s.Ctx, []*client.Object{object("shop", "a", ""), object("shop", "a", "")}, client.ReplyInto(&reply))
			if err == nil && (!errors.Is(results[0].Err, client.ErrAlreadyExists) || results[0].Revision != reply.Revision) {
				t.Errorf("the batch has %+v with reply %+v", results, reply)
			}
			return err
		},
	} {
		reply = client.Reply{}
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if reply.Revision < revision {
			t.Errorf("%s: revision %d, want %d or more", what, reply.Revision, revision)
		}
	}
	if o, err := objects.Get(s.Ctx, "a"); err != nil || o.GetMetadata().GetResourceVersion() != created {
		t.Errorf("the calls changed the object: %v, %v", o, err)
	}
	result, err := objects.Delete(s.Ctx, "a", client.ReplyInto(&reply))
	if err != nil || result.State != client.Removed || result.Revision <= revision || result.Revision != reply.Revision {
		t.Errorf("delete: %+v, %+v, %v", result, reply, err)
	}
}

// The calls that take a CallOption are those whose reply TestReplyRevision looks at: any other
// call would ignore ReplyInto.
func TestCallsWithReply(t *testing.T) {
	t.Parallel()
	option, reply := reflect.TypeFor[[]client.CallOption](), reflect.TypeFor[client.ReplyOption]()
	var calls []string
	for _, of := range []reflect.Type{reflect.TypeFor[*client.Client](), reflect.TypeFor[client.OperationsClient](), reflect.TypeFor[client.LogClient](), reflect.TypeFor[client.ResourceClient]()} {
		for i := range of.NumMethod() {
			if m := of.Method(i); m.Type.IsVariadic() && m.Type.In(m.Type.NumIn()-1) == option {
				calls = append(calls, m.Name)
			}
		}
	}
	slices.Sort(calls)
	if want := []string{"At", "Brakes", "ExpiryPolicies", "Finalizers", "Kinds", "Leaders", "Resume", "Status", "Storage"}; !slices.Equal(calls, want) {
		t.Errorf("%q take a CallOption, want %q", calls, want)
	}
	for _, without := range []reflect.Type{reflect.TypeFor[client.WarningsOption](), reflect.TypeFor[client.CommitOption](), reflect.TypeFor[client.ChangeParkedOption](), reflect.TypeFor[client.CreateRealmOption]()} {
		if reply.Implements(without) {
			t.Errorf("ReplyInto is a %s, and has no effect there", without)
		}
	}
}

// Numbers and times that make no sense count as not given.
func TestNotPositive(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client.New(s.Conn(), client.WithTimeout(-1))
	objects := c.Resource(configMaps, "shop")
	if _, err := objects.Create(s.Ctx, object("shop", "a", ""), nil); err != nil {
		t.Fatal(err)
	}
	if page, err := objects.ListPage(s.Ctx, client.Limit(-1)); err != nil || len(page.Objects) != 1 {
		t.Errorf("a list: %+v, %v", page, err)
	}
	if g, err := objects.Resolve(s.Ctx, []string{"a"}, client.Limit(-1)); err != nil || len(g.GetNodes()) != 1 {
		t.Errorf("resolve: %v, %v", g, err)
	}
	ctx, stop := context.WithCancel(s.Ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- c.RunFinalizer(ctx, bus.ExampleFinalizer, func(context.Context, *client.Call) error {
			stop()
			return nil
		}, client.Concurrency(-1), client.ParkAfter(-1), client.Backoff{})
	}()
	o := object("shop", "b", "")
	o.Metadata.Finalizers = []string{bus.ExampleFinalizer}
	if _, err := objects.Create(s.Ctx, o); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Delete(s.Ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, s.Ctx, "a call", ended); err != nil {
		t.Error(err)
	}
}

// WithOnError and OnError report errors that are retried.
func TestOnError(t *testing.T) {
	t.Parallel()
	nc := testkit.Conn(t, testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()}), bus.LocalUser) // without services
	var general, own atomic.Int32
	c := client.New(nc, client.WithOnError(func(error) { general.Add(1) }))
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	count := client.OnError(func(err error) {
		if !errors.Is(err, client.ErrServiceUnavailable) && !errors.Is(err, client.ErrTimeout) {
			t.Errorf("reported %v", err)
		}
		if own.Add(1) == 3 {
			cancel()
		}
	})
	for _, err := range c.Resource(configMaps, "shop").Watch(ctx, count) {
		t.Errorf("the watch had %v", err)
	}
	if general.Load() < 3 || own.Load() < 3 {
		t.Errorf("the watch has reported %d and %d errors, want 3 or more", general.Load(), own.Load())
	}
	own.Store(0)
	ctx, cancel = context.WithCancel(testkit.Context(t))
	defer cancel()
	for _, err := range c.FollowWarnings(ctx, count) {
		t.Errorf("the warnings had %v", err)
	}
	if own.Load() < 3 {
		t.Errorf("the warnings have reported %d errors, want 3 or more", own.Load())
	}
}

// RunFinalizer reports each failed attempt.
func TestOnErrorOfFinalizer(t *testing.T) {
	t.Parallel()
	s := start(t)
	errs := make(chan error, 10)
	failure := errors.New("the bucket is busy")
	failures := 0
	s.run(func(context.Context, *client.Call) error {
		if failures++; failures < 3 {
			return failure
		}
		return nil
	}, client.Concurrency(1), client.Backoff{Min: time.Millisecond}, client.OnError(func(err error) {
		if errors.Is(err, failure) { // and not why it waits for its consumer
			errs <- err
		}
	}))
	s.create("a", bus.ExampleFinalizer)
	s.delete("a")
	s.gone("a")
	for range 2 {
		testkit.Receive(t, s.Ctx, "a failed attempt", errs)
	}
}
