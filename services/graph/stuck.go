package graph

import (
	"context"
	"sync"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/callstate"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/consumers"
)

// Bounds of what warnings about stuck objects ask NATS for: in stuckWindow, at most maxStuckCalls calls, for
// at most maxStuckTime. Further warnings name finalizers without the states of their calls.
const (
	stuckWindow   = 10 * time.Second
	maxStuckCalls = 200
	maxStuckTime  = 2 * time.Second
)

// stuckCalls reads the states of the calls of stuck objects. Its methods are safe for concurrent use.
type stuckCalls struct {
	consumers *consumers.Observer
	realm     string
	now       func() time.Time

	mu    sync.Mutex
	began time.Time     // of the window
	calls int           // read in the window
	spent time.Duration // on reading them
}

// states returns a function that puts the state of a call of an object into words: of the call of a finalizer, or of its agent if
// that is "". It returns "" if the state cannot be read now.
func (c *stuckCalls) states(ctx context.Context, v lifecycle.View, n *lifecycle.Node) func(finalizer string) string {
	return func(finalizer string) string {
		kind := v.Kinds().OfNode(n)
		if kind == nil {
			return ""
		}
		subject, durable := bus.Terminate{Realm: c.realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String()}.Subject(), bus.AgentDurable(kind.Group, kind.Plural)
		if finalizer != "" {
			subject, durable = bus.Finalize{Realm: c.realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String(), Finalizer: finalizer}.Subject(), bus.FinalizerDurable(finalizer)
		}
		left := c.take()
		if left <= 0 {
			return ""
		}
		limited, cancel := context.WithTimeout(ctx, left)
		defer cancel()
		begin := c.now()
		defer func() { c.spend(c.now().Sub(begin)) }()
		list, err := c.consumers.List(limited)
		if err != nil {
			return ""
		}
		of := c.consumers.State(durable, list[durable])
		is, err := c.consumers.Status(limited, subject, &of)
		if err != nil {
			return ""
		}
		return callstate.Words(is, func(t time.Time) string { return t.UTC().Format(time.RFC3339) })
	}
}

// take takes one call out of the window, and returns the time that is left for it; none if there is none.
func (c *stuckCalls) take() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.began) >= stuckWindow {
		c.began, c.calls, c.spent = now, 0, 0
	}
	if c.calls == maxStuckCalls {
		return 0
	}
	c.calls++
	return maxStuckTime - c.spent
}

func (c *stuckCalls) spend(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spent += d
}
