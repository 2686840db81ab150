package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/worker"
)

// ExpiryCall asks a program about an object of which an expiry policy has given notice.
type ExpiryCall struct {
	// Resource is the object's resource.
	Resource Resource
	// Object is the object now.
	Object *Object
	// Policy is the name of the policy.
	Policy string
	// Ends is when the object is deleted at the earliest.
	Ends time.Time
	// Keep: silence keeps the object. Otherwise silence deletes it.
	Keep bool
	// Attempt counts the deliveries of the call, from one.
	Attempt int
}

// ExpiryAnswer is the answer of a program to a notice: Until with a reason keeps the object until
// then, Agree with a reason agrees to its deletion. The zero value is silence. An Until
// of more than 366 days less one hour from now is shortened to that; the hour allows for clocks that
// differ. An answer without a reason is not sent, and counts as an error of decide.
type ExpiryAnswer struct {
	Until  time.Time
	Agree  bool
	Reason string
}

// maxVeto is the maximum time from now of an ExpiryAnswer.
const maxVeto = 366*24*time.Hour - time.Hour

// check returns an answer that the graph service accepts.
func (a ExpiryAnswer) check(now time.Time) (ExpiryAnswer, error) {
	if (a.Agree || !a.Until.IsZero()) && a.Reason == "" {
		return a, errors.New("decide has answered without a reason; set Reason in its answer")
	}
	if latest := now.Add(maxVeto); a.Until.After(latest) {
		a.Until = latest
	}
	return a, nil
}

// RunExpiry calls decide for every notice of the expiry policies whose spec.call is name, and sends the
// answer that decide returns. It returns when ctx ends.
//
// Any number of processes may run the same name; each call goes to one of them. A call is
// repeated after an error, with increasing pauses (Backoff), after a crash, and some minutes after
// silence. So decide must be idempotent. 25 minutes before a veto ends, decide is called again. Calls
// are never parked: the option ParkAfter has no effect.
//
// The actor needs the verbs consumeexpiry, get and veto. RunExpiry fails, waits and reports as
// RunFinalizer does.
func (c *Client) RunExpiry(ctx context.Context, name string, decide func(context.Context, *ExpiryCall) (ExpiryAnswer, error), opts ...WorkerOption) error {
	// Calls are not parked for an operator: the graph service publishes them again while the notice lasts.
	opts = append(slices.Clone(opts), ParkAfter(math.MaxInt))
	err := c.work(ctx, queueOf{
		durable: bus.ExpiryDurable(name),
		consume: bus.API{Realm: c.realm, Actor: c.actor, Verb: bus.VerbConsumeExpiry, Finalizer: name},
		handle:  func(ctx context.Context, m *worker.Message) error { return c.decideOne(ctx, m, decide) },
	}, opts)
	if err != nil {
		return fmt.Errorf("notices to %s: %w", name, err)
	}
	return nil
}

func (c *Client) decideOne(ctx context.Context, m *worker.Message, decide func(context.Context, *ExpiryCall) (ExpiryAnswer, error)) error {
	of, err := calledFor(m)
	if err != nil {
		return err
	}
	var call struct {
		Policy string
		Ends   time.Time
		Keep   bool
	}
	if err := json.Unmarshal(m.Data, &call); err != nil {
		return fmt.Errorf("the call on %s cannot be decoded: %w", m.Subject, err)
	}
	objects := c.Resource(of.resource, of.Namespace)
	now, err := objects.Get(ctx, of.Name, IncludeUninitialized(true))
	switch {
	case errors.Is(err, ErrNotFound), err == nil && (now.GetMetadata().GetUid() != of.UID || now.GetMetadata().GetDeletionTimestamp() != nil):
		return nil
	case err != nil:
		return err
	}
	answer, err := decide(ctx, &ExpiryCall{Resource: of.resource, Object: now, Policy: call.Policy, Ends: call.Ends, Keep: call.Keep, Attempt: int(m.Delivered)})
	if err == nil {
		answer, err = answer.check(time.Now())
	}
	switch {
	case err != nil:
		return err
	case answer.Agree:
		err = objects.Agree(ctx, of.Name, answer.Reason, IfUID(of.UID))
	case !answer.Until.IsZero():
		err = objects.Veto(ctx, of.Name, answer.Until, answer.Reason, IfUID(of.UID))
	}
	// The object no longer exists, or no policy has given notice any more.
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}
