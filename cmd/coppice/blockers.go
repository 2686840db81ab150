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

// consumer is the program that receives the calls of an external finalizer or an agent.
type consumer struct {
	state   consumerState
	process string // its name; empty if it has not reported one
	calls   uint64 // pending or delivered
}

type consumerState int

const (
	consumerUnseen consumerState = iota // the state could not be read
	consumerNone                        // no program asks for calls
	consumerBusy                        // a program has calls, and asks for no more
	consumerAlive
)

// note returns a remark to print behind the finalizer's name.
func (c consumer) note() string {
	switch c.state {
	case consumerNone:
		return " (no consumer)"
	case consumerBusy:
		return " (consumer busy)"
	}
	return ""
}

// consumers finds out which programs receive the calls of external finalizers and
// agents. It caches states for consumersFor, because the same finalizer may block
// many objects. A denial it caches for as long as the command runs.
type consumers struct {
	*session
	seen map[string]consumer // by durable
	at   map[string]time.Time
	// denied: the user may not see consumers, or a recording has none.
	denied bool
}

const consumersFor = 500 * time.Millisecond

func (s *session) consumers() *consumers {
	return &consumers{session: s, seen: map[string]consumer{}, at: map[string]time.Time{}}
}

// finalizer returns the consumer of an external finalizer.
func (c *consumers) finalizer(ctx context.Context, name string) consumer {
	return c.of(ctx, "finalizer "+name, func(ctx context.Context) (*coppicev1.ListConsumersReply, error) {
		return c.c.Operations().Consumers(ctx, client.OfFinalizers{name})
	})
}

// agent returns the consumer of the agent of a kind.
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
		c.denied = errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrMethodNotAllowed)
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
	is := consumer{process: s.GetProcess(), calls: s.GetPending() + s.GetUnacknowledged()}
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

// blockedBy describes what blocks the removal of a terminating object: finalizers, its
// agent, or work of Coppice itself. It returns "" if nothing does.
func (c *consumers) blockedBy(ctx context.Context, n *coppicev1.GraphNode) string {
	m := n.GetObject().GetMetadata()
	var by []string
	waits := ""
	for _, f := range m.GetFinalizers() {
		switch f {
		case lifecycle.FinalizerForeground:
			waits = "waits for " + console.Count(int(n.GetBlockingDependents()), "dependent")
		case lifecycle.FinalizerOrphan:
			waits = "removes the references of " + console.Count(int(n.GetDependents()), "dependent")
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

// left says how many objects a terminating namespace or kind still contains.
func left(n *coppicev1.GraphNode) string {
	if n.GetContents() >= 1000 { // the server counts up to 1000
		return "1000 objects or more left"
	}
	return console.Count(int(n.GetContents()), "object") + " left"
}

// ending names the agent that has to end an object, and the end of its grace period.
func (c *consumers) ending(ctx context.Context, n *coppicev1.GraphNode) string {
	who := "its agent"
	if k, ok := c.kinds.Of(n.GetObject().GetApiVersion(), n.GetObject().GetKind()); ok {
		who += c.agent(ctx, client.ResourceOf(k)).note()
	}
	return who + " until " + console.Clock(n.GetObject().GetMetadata().GetDeletionTimestamp().AsTime(), c.now())
}

// external reports whether an external finalizer or a grace period blocks an object:
// a program outside of Coppice has to act.
func external(n *coppicev1.GraphNode) bool {
	m := n.GetObject().GetMetadata()
	for _, f := range m.GetFinalizers() {
		if !lifecycle.IsBuiltinFinalizer(f) {
			return true
		}
	}
	return m.GetDeletionGracePeriodSeconds() > 0
}
