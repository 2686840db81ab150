package client_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// Every reply has the realm's revision: of a read, of a write, of a write that changes
// nothing, of a deletion, and of a refused object of a batch.
func TestReplyRevision(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := client.New(s.nc)
	objects := c.Resource(configMaps, "shop")
	o, err := objects.Create(s.ctx, object("shop", "a", ""))
	if err != nil {
		t.Fatal(err)
	}
	created := o.GetMetadata().GetResourceVersion()
	if _, err := objects.Create(s.ctx, object("shop", "b", "")); err != nil { // so that the realm is ahead of a
		t.Fatal(err)
	}
	revision := c.Revision()
	var reply client.Reply
	for what, call := range map[string]func() error{
		"get":                     func() error { _, err := objects.Get(s.ctx, "a", client.ReplyInto(&reply)); return err },
		"list":                    func() error { _, err := objects.ListPage(s.ctx, client.ReplyInto(&reply)); return err },
		"update without a change": func() error { _, err := objects.Update(s.ctx, o, client.ReplyInto(&reply)); return err },
		"patch without a change":  func() error { _, err := objects.Patch(s.ctx, "a", []byte(`{}`), client.ReplyInto(&reply)); return err },
		"removal of no finalizer": func() error {
			_, err := objects.RemoveFinalizer(s.ctx, "a", "example.com/x", client.ReplyInto(&reply))
			return err
		},
		"dry run of a deletion": func() error {
			_, err := objects.Delete(s.ctx, "a", client.DryRun(true), client.ReplyInto(&reply))
			return err
		},
		"plan": func() error {
			_, err := objects.Plan(s.ctx, []string{"a"}, client.MinRevision(revision), client.ReplyInto(&reply))
			return err
		},
		"resolve": func() error {
			_, err := objects.Resolve(s.ctx, []string{"a"}, client.MinRevision(revision), client.ReplyInto(&reply))
			return err
		},
		"status": func() error { _, err := c.Status(s.ctx, client.ReplyInto(&reply)); return err },
		"batch with a refused object": func() error {
			results, err := objects.CreateBatch(s.ctx, []*client.Object{object("shop", "a", ""), object("shop", "a", "")}, client.ReplyInto(&reply))
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
	if o, err := objects.Get(s.ctx, "a"); err != nil || o.GetMetadata().GetResourceVersion() != created {
		t.Errorf("the calls changed the object: %v, %v", o, err)
	}
	result, err := objects.Delete(s.ctx, "a", client.ReplyInto(&reply))
	if err != nil || result.State != client.Removed || result.Revision <= revision || result.Revision != reply.Revision {
		t.Errorf("delete: %+v, %+v, %v", result, reply, err)
	}
}

// WithOnError and OnError report errors that are retried.
func TestOnError(t *testing.T) {
	t.Parallel()
	nc := testkit.Conn(t, testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()}), bus.LocalUser) // without services
	var general, own atomic.Int32
	c := client.New(nc, client.WithOnError(func(error) { general.Add(1) }))
	ctx, cancel := context.WithTimeout(testkit.Context(t), 2*time.Second)
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
		t.Errorf("reported %d and %d errors, want 3 or more", general.Load(), own.Load())
	}
}

// RunFinalizer reports each failed attempt.
func TestOnErrorOfFinalizer(t *testing.T) {
	t.Parallel()
	s := start(t)
	errs := make(chan error, 10)
	failure := errors.New("the bucket is busy")
	s.run(func(_ context.Context, call *client.Call) error {
		if call.Attempt < 3 {
			return failure
		}
		return nil
	}, client.Backoff{Min: time.Millisecond}, client.OnError(func(err error) { errs <- err }))
	s.create("a", bus.ExampleFinalizer)
	s.delete("a")
	s.gone("a")
	for range 2 {
		if err := testkit.Receive(t, s.ctx, "a failed attempt", errs); !errors.Is(err, failure) {
			t.Errorf("reported %v", err)
		}
	}
}
