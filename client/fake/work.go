package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
)

// callKey identifies a call of a finalizer or an agent.
type callKey struct {
	to  string // the finalizer, or the resource of the agent
	uid uid.UID
}

// call is the state of a call, which all runs of the finalizer or agent share.
type call struct {
	active   bool
	attempts int
	due      time.Time // not repeated before
	parked   bool
}

// task is one attempt of a call.
type task struct {
	key      callKey
	attempt  int
	resource client.Resource
	object   *client.Object
}

// The defaults of worker options. The pauses are shorter than those of a Client: tests
// should not wait.
const (
	defaultConcurrency = 8
	defaultParkAfter   = 5
	defaultMinBackoff  = 10 * time.Millisecond
	defaultMaxBackoff  = time.Second
)

// RunFinalizer calls finalize for every object that is being deleted and has the
// finalizer, as Client.RunFinalizer does. The pause after an error is 10 ms to 1 s by
// default. A call that is parked is not repeated.
func (c *Client) RunFinalizer(ctx context.Context, finalizer string, finalize func(context.Context, *client.Call) error, opts ...client.WorkerOption) error {
	if err := lifecycle.CheckFinalizer(finalizer); err != nil {
		return fmt.Errorf("finalizer %s: %w", finalizer, err)
	}
	c.work(ctx, collect(opts, client.WorkerOption.ApplyToWorker), finalizer,
		func(n *lifecycle.Node, kind *lifecycle.Kind) bool {
			return n.Terminating() && n.HasFinalizer(finalizer) && lifecycle.CallsFinalizers(kind, n)
		},
		func(ctx context.Context, t task) error {
			m := t.object.GetMetadata()
			if err := finalize(ctx, &client.Call{Resource: t.resource, Object: t.object, Finalizer: finalizer, Attempt: t.attempt}); err != nil {
				return err
			}
			_, err := c.Resource(t.resource, m.GetNamespace()).RemoveFinalizer(ctx, m.GetName(), finalizer, client.IfUID(m.GetUid()))
			return unlessGone(err)
		})
	return nil
}

// RunExpiry returns ErrMethodNotAllowed: the fake evaluates no policies.
func (c *Client) RunExpiry(context.Context, string, func(context.Context, *client.ExpiryCall) (client.ExpiryAnswer, error), ...client.WorkerOption) error {
	return unsupported("expiry policies")
}

// RunAgent calls terminate for every object of a resource that is being deleted with a
// grace period, as Client.RunAgent does.
func (c *Client) RunAgent(ctx context.Context, of client.Resource, terminate func(context.Context, *client.Termination) error, opts ...client.WorkerOption) error {
	c.work(ctx, collect(opts, client.WorkerOption.ApplyToWorker), of.String(),
		func(n *lifecycle.Node, kind *lifecycle.Kind) bool {
			return kind.Resource() == of.String() && lifecycle.CallsAgent(n)
		},
		func(ctx context.Context, t task) error {
			m := t.object.GetMetadata()
			if err := terminate(ctx, &client.Termination{
				Resource: of, Object: t.object, Deadline: m.GetDeletionTimestamp().AsTime(), Attempt: t.attempt,
			}); err != nil {
				return err
			}
			_, err := c.Resource(of, m.GetNamespace()).Delete(ctx, m.GetName(), client.GracePeriod(0), client.IfUID(m.GetUid()))
			return unlessGone(err)
		})
	return nil
}

// unlessGone returns nil for the error of a call that was for an object that no longer exists.
func unlessGone(err error) error {
	if errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrConflict) {
		return nil
	}
	return err
}

// work handles the objects that match until ctx ends, and waits for calls in progress.
func (c *Client) work(ctx context.Context, o client.WorkerOptions, to string, matches func(n *lifecycle.Node, kind *lifecycle.Kind) bool, handle func(context.Context, task) error) {
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	if o.ParkAfter <= 0 {
		o.ParkAfter = defaultParkAfter
	}
	if o.Backoff.Min == 0 {
		o.Backoff.Min = defaultMinBackoff
	}
	if o.Backoff.Max == 0 {
		o.Backoff.Max = max(defaultMaxBackoff, o.Backoff.Min)
	}
	var running sync.WaitGroup
	defer running.Wait()
	places := make(chan struct{}, o.Concurrency)
	freed := make(chan struct{}, 1)
	for ctx.Err() == nil {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		t, wait, pause := c.take(to, matches)
		if t == nil {
			<-places
			var timer <-chan time.Time
			if pause > 0 {
				timer = time.After(pause)
			}
			select {
			case <-ctx.Done():
			case <-wait:
			case <-freed:
			case <-timer:
			}
			continue
		}
		running.Go(func() {
			err := handle(ctx, *t)
			c.finish(t, err, &o)
			if err != nil && o.OnError != nil && ctx.Err() == nil {
				o.OnError(err)
			}
			<-places
			select {
			case freed <- struct{}{}:
			default:
			}
		})
	}
}

// take returns the next call to make, or what to wait for before there is one: a change, or
// the end of a pause, if there is one.
func (c *Client) take(to string, matches func(n *lifecycle.Node, kind *lifecycle.Kind) bool) (t *task, wait <-chan struct{}, pause time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin()
	now := time.Now()
	for _, u := range c.realm.UIDs() {
		n := c.realm.Node(u)
		kind := c.realm.Kinds().OfNode(n)
		if !matches(n, kind) {
			continue
		}
		key := callKey{to, u}
		state := c.calls[key]
		if state == nil {
			state = &call{}
			c.calls[key] = state
		}
		if state.active || state.parked {
			continue
		}
		if left := state.due.Sub(now); left > 0 {
			if pause == 0 || left < pause {
				pause = left
			}
			continue
		}
		state.active = true
		state.attempts++
		return &task{
			key: key, attempt: state.attempts, resource: client.Resource{Group: kind.Group, Plural: kind.Plural},
			object: proto.CloneOf(lifecycle.Object{Node: n, Body: c.realm.Body(n)}.API()),
		}, nil, 0
	}
	return nil, c.changed, pause
}

// finish notes the result of a call.
func (c *Client) finish(t *task, err error, o *client.WorkerOptions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.calls, t.key)
		return
	}
	state := c.calls[t.key]
	state.active = false
	state.parked = worker.IsPermanent(err) && state.attempts >= o.ParkAfter
	pause := o.Backoff.Min
	for range state.attempts - 1 {
		pause = min(2*pause, o.Backoff.Max)
	}
	state.due = time.Now().Add(pause)
}
