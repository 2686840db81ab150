package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Termination is the call of an agent: an object of its kind is being deleted,
// and what it stands for has to be ended.
type Termination struct {
	Resource Resource
	// Object is the object as it is when terminate is called.
	Object *coppicev1.Object
	// Deadline is when the object's grace period is over. Nothing happens by
	// itself then: it is the agent's to hurry.
	Deadline time.Time
	// Attempt counts the deliveries of the call, from one.
	Attempt int
}

// RunAgent calls terminate for every object of a kind that is being deleted
// with a grace period, and when it returns nil confirms with a DELETE without
// grace, which removes the object unless a finalizer holds it. It runs until
// ctx ends.
//
// The actor needs the verbs consumeagent, get and delete. All else is as for RunFinalizer: any number of processes share the calls, a
// call is repeated until it has succeeded, and terminate must be idempotent.
func (c *Client) RunAgent(ctx context.Context, of Resource, terminate func(context.Context, *Termination) error, opts *FinalizerOptions) error {
	err := c.answer(ctx, calls{
		durable: bus.AgentDurable(of.Group, of.Plural),
		consume: bus.API{Realm: c.realm, Actor: c.actor, Verb: bus.VerbConsumeAgent, Group: of.Group, Plural: of.Plural},
		handle:  func(ctx context.Context, m *worker.Message) error { return c.terminateOne(ctx, m, terminate) },
	}, opts)
	if err != nil {
		return fmt.Errorf("agent of %s: %w", of, err)
	}
	return nil
}

func (c *Client) terminateOne(ctx context.Context, m *worker.Message, terminate func(context.Context, *Termination) error) error {
	var p coppicev1.TerminateCall
	if err := manifest.UnmarshalMessage(m.Data, &p); err != nil {
		return worker.Permanent(fmt.Errorf("not a TerminateCall: %w", err))
	}
	of, was := ParseResource(p.GetResource()), p.GetObject().GetMetadata()
	objects := c.Objects(of, was.GetNamespace()).IncludeUninitialized()
	// A call may be late: the object may be gone, or its time may have been
	// shortened since.
	now, err := objects.Get(ctx, was.GetName())
	switch {
	case errors.Is(err, NotFound), err == nil && (now.GetMetadata().GetUid() != was.GetUid() || now.GetMetadata().GetDeletionGracePeriodSeconds() == 0):
		return nil
	case err != nil:
		return err
	}
	if err := terminate(ctx, &Termination{
		Resource: of, Object: now, Deadline: now.GetMetadata().GetDeletionTimestamp().AsTime(), Attempt: int(m.Delivered),
	}); err != nil {
		return err
	}
	grace := int64(0)
	_, err = objects.Delete(ctx, was.GetName(), &DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &coppicev1.Preconditions{Uid: was.GetUid()},
	})
	if errors.Is(err, NotFound) || errors.Is(err, Conflict) {
		return nil // gone, or another object under the same name: it is done
	}
	return err
}
