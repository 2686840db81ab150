package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/worker"
)

// Termination asks the agent of a kind to end what an object stands for.
type Termination struct {
	Resource Resource
	// Object is the object now.
	Object *Object
	// Deadline is the end of the object's grace period. Coppice does nothing then: the
	// agent decides how to end the object faster.
	Deadline time.Time
	// Attempt counts the deliveries of the call, from one.
	Attempt int
}

// RunAgent calls terminate for every object of a resource that is being deleted with a
// grace period. When terminate returns nil, it confirms with a DELETE without grace, which
// removes the object unless a finalizer blocks it. RunAgent returns when ctx ends.
//
// As in RunFinalizer, any number of processes share the calls, a call is repeated until
// terminate returns nil, and terminate must be idempotent. The actor needs the verbs
// consumeagent, get and delete. RunAgent fails, waits and reports as RunFinalizer does.
func (c *Client) RunAgent(ctx context.Context, of Resource, terminate func(context.Context, *Termination) error, opts ...WorkerOption) error {
	err := c.work(ctx, queueOf{
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
	of, err := calledFor(m)
	if err != nil {
		return err
	}
	objects := c.Resource(of.resource, of.Namespace)
	// Since the call was published, the object may have been removed, or its grace
	// period shortened to zero.
	now, err := objects.Get(ctx, of.Name, IncludeUninitialized(true))
	switch {
	case errors.Is(err, ErrNotFound), err == nil && (now.GetMetadata().GetUid() != of.UID || now.GetMetadata().GetDeletionGracePeriodSeconds() == 0):
		return nil
	case err != nil:
		return err
	}
	if err := terminate(ctx, &Termination{
		Resource: of.resource, Object: now, Deadline: now.GetMetadata().GetDeletionTimestamp().AsTime(), Attempt: int(m.Delivered),
	}); err != nil {
		return err
	}
	_, err = objects.Delete(ctx, of.Name, GracePeriod(0), IfUID(of.UID))
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) {
		return nil // the object no longer exists
	}
	return err
}
