package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Call is the call of an external finalizer: an object is being deleted, and is
// held by it.
type Call struct {
	// Resource is the object's resource.
	Resource Resource
	// Object is the object as it was when the call was published, or, where it is
	// larger than 64 KiB, as it is now.
	Object *coppicev1.Object
	// Finalizer is the finalizer that is called.
	Finalizer string
	// Attempt counts the deliveries of the call, from one.
	Attempt int
}

// FinalizerOptions are options of RunFinalizer and RunAgent; nil for none.
type FinalizerOptions struct {
	// Concurrency is how many objects are finalized at once; 8.
	Concurrency int
	// ParkAfter is after how many failed attempts a call is parked that
	// failed with an error marked by Permanent; 5.
	ParkAfter int
	// Backoff is the pause after the first failure, which doubles with each
	// up to MaxBackoff; 200 ms and 1 minute.
	Backoff, MaxBackoff time.Duration
	Log                 *slog.Logger
}

// Permanent marks an error of a finalizer as one that no later attempt cures.
// After some attempts the call is parked: taken out of the way, and shown by
// `coppice parked`, from where it can be replayed.
func Permanent(err error) error { return worker.Permanent(err) }

// RunFinalizer calls finalize for every object that is being deleted and held
// by the finalizer, and removes the finalizer when it returns nil. It runs
// until ctx ends.
//
// Any number of processes may run the same finalizer: each object goes to one
// of them. A call is repeated until finalize has succeeded: after an error,
// later and later; after a crash, when the others notice it. So finalize must
// be idempotent. While it runs the call is kept; it may take as long as it
// needs, and should end when its context does.
//
// The graph service keeps the calls in a durable consumer, which it creates on
// request: the actor needs the verbs consumefinalizer, get and removefinalizer. The
// error has reason Conflict if the consumer was created with other settings.
func (c *Client) RunFinalizer(ctx context.Context, finalizer string, finalize func(context.Context, *Call) error, opts *FinalizerOptions) error {
	err := c.answer(ctx, calls{
		durable: bus.FinalizerDurable(finalizer),
		consume: bus.API{Realm: c.realm, Actor: c.actor, Verb: bus.VerbConsumeFinalizer, Finalizer: finalizer},
		handle:  func(ctx context.Context, m *worker.Message) error { return c.finalizeOne(ctx, m, finalizer, finalize) },
	}, opts)
	if err != nil {
		return fmt.Errorf("finalizer %s: %w", finalizer, err)
	}
	return nil
}

// calls are those that all who answer them share.
type calls struct {
	durable string
	consume bus.API // has the durable created
	handle  func(context.Context, *worker.Message) error
}

// answer handles calls until ctx ends.
func (c *Client) answer(ctx context.Context, calls calls, opts *FinalizerOptions) error {
	if opts == nil {
		opts = &FinalizerOptions{}
	}
	host, _ := os.Hostname()
	holder := fmt.Sprintf("%s (%s/%d)", c.actor, host, os.Getpid())
	concurrency := opts.Concurrency
	if concurrency == 0 {
		concurrency = 8
	}
	return worker.Run(ctx, worker.Config{
		Conn: c.nc, Realm: c.realm, Stream: bus.FinalizeStream(c.realm), Durable: calls.durable,
		Ensure: func(ctx context.Context) (time.Duration, error) {
			var reply coppicev1.ConsumeReply
			err := c.call(ctx, calls.consume, false, &coppicev1.ConsumeRequest{Holder: holder}, &reply)
			return time.Duration(reply.GetAckWait()) * time.Millisecond, err
		},
		Concurrency: concurrency, ParkAfter: uint64(opts.ParkAfter),
		Backoff: opts.Backoff, MaxBackoff: opts.MaxBackoff, By: holder, Log: opts.Log,
		Handle: calls.handle,
	})
}

func (c *Client) finalizeOne(ctx context.Context, m *worker.Message, finalizer string, finalize func(context.Context, *Call) error) error {
	var p coppicev1.FinalizeCall
	if err := manifest.UnmarshalMessage(m.Data, &p); err != nil {
		return worker.Permanent(fmt.Errorf("not a FinalizeCall: %w", err))
	}
	call := &Call{
		Resource: ParseResource(p.GetResource()), Object: p.GetObject(), Finalizer: finalizer, Attempt: int(m.Delivered),
	}
	objects := c.Objects(call.Resource, p.GetObject().GetMetadata().GetNamespace()).IncludeUninitialized()
	name, pre := p.GetObject().GetMetadata().GetName(), &coppicev1.Preconditions{Uid: p.GetObject().GetMetadata().GetUid()}
	// A call may be late: the finalizer may have been removed by hand, and the
	// name taken by another object.
	now, err := objects.Get(ctx, name)
	switch {
	case errors.Is(err, NotFound), err == nil && (now.GetMetadata().GetUid() != pre.GetUid() || !hasFinalizer(now, finalizer)):
		return nil
	case err != nil:
		return err
	}
	if p.GetTruncated() {
		call.Object = now
	}
	if err := finalize(ctx, call); err != nil {
		return err
	}
	_, err = objects.RemoveFinalizer(ctx, name, finalizer, "", pre)
	// Gone, or another object under the same name: it is done.
	if errors.Is(err, NotFound) || errors.Is(err, Conflict) {
		return nil
	}
	return err
}

func hasFinalizer(o *coppicev1.Object, finalizer string) bool {
	return slices.Contains(o.GetMetadata().GetFinalizers(), finalizer)
}
