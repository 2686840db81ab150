package main

import (
	"context"
	"errors"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// consumer is who takes the calls of an external finalizer or of an agent.
type consumer struct {
	state  consumerState
	holder string // the name that it gave, if any
	calls  uint64 // that wait for it, or are with it
}

type consumerState int

const (
	consumerUnseen consumerState = iota // nobody could look
	consumerNone                        // there is none, or nobody asks it for calls
	consumerBusy                        // it has calls, and asks for no more
	consumerAlive
)

// note is what there is to say in addition to the finalizer's name.
func (c consumer) note() string {
	switch c.state {
	case consumerNone:
		return " (no consumer)"
	case consumerBusy:
		return " (consumer busy)"
	}
	return ""
}

// consumers finds out who takes the calls of external finalizers and agents. It
// remembers for a moment, because one may block many objects, and that the
// user may not see consumers for as long as it lives.
type consumers struct {
	*session
	seen map[string]consumer // by durable
	at   map[string]time.Time
	// denied: the user may not see consumers.
	denied bool
}

const consumersFor = 500 * time.Millisecond

func (s *session) consumers() *consumers {
	return &consumers{session: s, seen: map[string]consumer{}, at: map[string]time.Time{}}
}

// finalizer is who takes the calls of an external finalizer.
func (c *consumers) finalizer(ctx context.Context, name string) consumer {
	return c.of(ctx, "finalizer "+name, func(ctx context.Context) (*coppicev1.ListConsumersReply, error) {
		return c.c.Operations().Consumers(ctx, client.OfFinalizers{name})
	})
}

// agent is who ends objects of a kind.
func (c *consumers) agent(ctx context.Context, of client.Resource) consumer {
	return c.of(ctx, "agent "+of.String(), func(ctx context.Context) (*coppicev1.ListConsumersReply, error) {
		return c.c.Operations().Consumers(ctx, client.OfAgents{of})
	})
}

func (c *consumers) of(ctx context.Context, what string, look func(context.Context) (*coppicev1.ListConsumersReply, error)) consumer {
	if t, ok := c.at[what]; c.denied || ok && c.now().Sub(t) < consumersFor {
		return c.seen[what]
	}
	ok, err := c.optional(ctx, aboutConsumers, func(ctx context.Context) error {
		reply, err := look(ctx)
		c.denied = errors.Is(err, client.ErrForbidden)
		if err == nil && len(reply.GetConsumers()) == 1 {
			c.seen[what] = consumerOf(reply.GetConsumers()[0])
		}
		return err
	})
	if !ok && err != nil && ctx.Err() == nil {
		c.missing(aboutConsumers, err)
	}
	c.at[what] = c.now()
	return c.seen[what]
}

func consumerOf(s *client.ConsumerState) consumer {
	is := consumer{holder: s.GetProcess(), calls: s.GetPending() + s.GetUnacknowledged()}
	switch {
	case s.GetPulling() > 0:
		is.state = consumerAlive
	case s.GetUnacknowledged() > 0:
		is.state = consumerBusy
	default:
		is.state = consumerNone
	}
	return is
}

// held says what blocks an object that is being deleted: which finalizer, agent or
// dependent. It says nothing for one that nothing blocks.
func (c *consumers) held(ctx context.Context, n *coppicev1.GraphNode) string {
	m := n.GetObject().GetMetadata()
	var by []string
	waits := ""
	for _, f := range m.GetFinalizers() {
		switch f {
		case lifecycle.FinalizerForeground:
			waits = "waits for " + console.Count(int(n.GetBlockingDependents()), "dependent")
		case lifecycle.FinalizerOrphan:
			waits = "parts from " + console.Count(int(n.GetDependents()), "dependent")
		case lifecycle.FinalizerContents:
			waits = "removes what is in it: " + left(n)
		default:
			by = append(by, f+c.finalizer(ctx, f).note())
		}
	}
	if m.GetDeletionGracePeriodSeconds() > 0 {
		by = append(by, c.ending(ctx, n))
	}
	switch {
	case len(by) > 0:
		return "blocked by " + console.Short(by, 3)
	case waits != "":
		return waits
	}
	return ""
}

// left is how much is left in a namespace, or of a kind, that is being deleted.
func left(n *coppicev1.GraphNode) string {
	if n.GetContents() >= 1000 { // it was counted up to here
		return "1000 objects or more left"
	}
	return console.Count(int(n.GetContents()), "object") + " left"
}

// ending says who has to end an object, and until when.
func (c *consumers) ending(ctx context.Context, n *coppicev1.GraphNode) string {
	who := "its agent"
	if k, ok := c.kinds.Of(n.GetObject().GetApiVersion(), n.GetObject().GetKind()); ok {
		who += c.agent(ctx, client.ResourceOf(k)).note()
	}
	return who + " until " + console.Clock(n.GetObject().GetMetadata().GetDeletionTimestamp().AsTime(), c.now())
}

// external reports whether an external finalizer blocks an object, or its grace
// period: nothing that Coppice itself can hasten.
func external(n *coppicev1.GraphNode) bool {
	m := n.GetObject().GetMetadata()
	for _, f := range m.GetFinalizers() {
		if !lifecycle.IsBuiltinFinalizer(f) {
			return true
		}
	}
	return m.GetDeletionGracePeriodSeconds() > 0
}
