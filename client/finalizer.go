package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Call asks an external finalizer to do its work for an object that is being deleted.
type Call struct {
	// Resource is the object's resource.
	Resource Resource
	// Object is the object now.
	Object *Object
	// Finalizer is the finalizer that is called.
	Finalizer string
	// Attempt counts the deliveries of the call, from one.
	Attempt int
}

// Permanent marks an error that retries cannot fix. After ParkAfter attempts, a call that
// fails with such an error is parked: it leaves the queue until an operator
// runs `coppice parked retry`. Other errors are retried without limit.
func Permanent(err error) error { return worker.Permanent(err) }

// RunFinalizer calls finalize for every object that is being deleted and has the
// finalizer, and removes the finalizer when finalize returns nil.
//
// When ctx ends, RunFinalizer calls finalize no more, and running calls have 5 s to return. RunFinalizer returns when these
// have returned and its requests for calls have ended, which takes up to 2 s on a cluster of NATS servers, and 4 s if they do not reply. It hands
// back the calls that it has received and not completed, so that another process has them at once.
// A program should end ctx when it receives SIGTERM, and close its connection after RunFinalizer has returned: on a
// cluster, a call that is delivered to a program that has just ended is delivered again only after 30 s.
//
// Any number of processes may run the same finalizer; each call goes to one of them. A
// call is repeated until finalize returns nil: after an error, with increasing pauses
// (Backoff); after a crash, by another process. So finalize must be idempotent. It may take
// any time, and should return when its context ends.
//
// The graph service keeps the calls in a durable consumer, which RunFinalizer creates: the
// actor needs the verbs consumefinalizer, get and removefinalizer. RunFinalizer fails with
// ErrBadRequest if the name is not that of a finalizer, and with ErrConflict if the consumer exists with
// other settings. It waits for everything else, such as a permission, and reports what it waits for to OnError
// and WithLogger.
func (c *Client) RunFinalizer(ctx context.Context, finalizer string, finalize func(context.Context, *Call) error, opts ...WorkerOption) error {
	err := c.work(ctx, queueOf{
		durable: bus.FinalizerDurable(finalizer),
		consume: bus.API{Realm: c.realm, Actor: c.actor, Verb: bus.VerbConsumeFinalizer, Finalizer: finalizer},
		handle:  func(ctx context.Context, m *worker.Message) error { return c.finalizeOne(ctx, m, finalizer, finalize) },
	}, opts)
	if err != nil {
		return fmt.Errorf("finalizer %s: %w", finalizer, err)
	}
	return nil
}

// queueOf is the queue of the calls of a finalizer or an agent.
type queueOf struct {
	durable string
	consume bus.API // creates the durable consumer
	handle  func(context.Context, *worker.Message) error
}

// work handles calls until ctx ends.
func (c *Client) work(ctx context.Context, q queueOf, opts []WorkerOption) error {
	if c.past != nil {
		return c.errPast(q.consume.Verb)
	}
	o := collect(opts, WorkerOption.ApplyToWorker)
	if o.Concurrency <= 0 {
		o.Concurrency = 8
	}
	host, _ := os.Hostname()
	process := fmt.Sprintf("%s (%s/%d)", c.actor, host, os.Getpid())
	return worker.Run(ctx, worker.Config{
		Conn: c.nc, Realm: c.realm, Stream: bus.FinalizeStream(c.realm), Durable: q.durable,
		Ensure: func(ctx context.Context) (time.Duration, error) {
			var reply coppicev1.ConsumeReply
			err := c.call(ctx, q.consume, &coppicev1.ConsumeRequest{Process: process}, &reply)
			return time.Duration(reply.GetAckWait()) * time.Millisecond, err
		},
		Concurrency: o.Concurrency, ParkAfter: uint64(max(o.ParkAfter, 0)),
		Backoff: o.Backoff.Min, MaxBackoff: o.Backoff.Max, By: process, Log: o.Logger,
		Handle:  q.handle,
		Tracer:  c.tracer,
		Waiting: func(err error) { c.report(err, o.OnError) },
		Observe: func(out worker.Outcome) {
			if out.Err != nil {
				c.report(out.Err, o.OnError)
			}
		},
	})
}

func (c *Client) finalizeOne(ctx context.Context, m *worker.Message, finalizer string, finalize func(context.Context, *Call) error) error {
	of, err := calledFor(m)
	if err != nil {
		return err
	}
	objects := c.Resource(of.resource, of.Namespace)
	// Since the call was published, a client may have removed the finalizer, and another
	// object may have got the name.
	now, err := objects.Get(ctx, of.Name, IncludeUninitialized(true))
	switch {
	case errors.Is(err, ErrNotFound), err == nil && (now.GetMetadata().GetUid() != of.UID || !hasFinalizer(now, finalizer)):
		return nil
	case err != nil:
		return err
	}
	if err := finalize(ctx, &Call{Resource: of.resource, Object: now, Finalizer: finalizer, Attempt: int(m.Delivered)}); err != nil {
		return err
	}
	_, err = objects.RemoveFinalizer(ctx, of.Name, finalizer, IfUID(of.UID))
	// The object no longer exists.
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// identity identifies the object of a call.
type identity struct {
	Namespace, Name, UID string
	resource             Resource
}

// calledFor returns the object of a call of a finalizer, an agent or RunExpiry. It ignores fields
// that it does not know, so that later versions can add some, and refuses a newer format.
func calledFor(m *worker.Message) (identity, error) {
	var call struct {
		Format   uint32
		Resource string
		Object   struct{ Metadata identity }
	}
	if err := json.Unmarshal(m.Data, &call); err != nil {
		return identity{}, worker.Permanent(fmt.Errorf("the call on %s cannot be decoded: %w", m.Subject, err))
	}
	if err := m.Known(call.Format); err != nil {
		return identity{}, err
	}
	of := call.Object.Metadata
	of.resource = ParseResource(call.Resource)
	return of, nil
}

func hasFinalizer(o *Object, finalizer string) bool {
	return slices.Contains(o.GetMetadata().GetFinalizers(), finalizer)
}
