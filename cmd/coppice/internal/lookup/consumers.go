package lookup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Consumer is the program that receives the calls of an external finalizer or an agent.
type Consumer struct {
	State   ConsumerState
	Process string // its name; empty if it has not reported one
	Calls   uint64 // pending or delivered
}

// ConsumerState says whether a program receives calls.
type ConsumerState int

// States of a consumer.
const (
	Unseen ConsumerState = iota // the state could not be read
	None                        // no program asks for calls
	Busy                        // a program has calls, and asks for no more
	Alive
)

func (s ConsumerState) String() string { return [...]string{"Unseen", "None", "Busy", "Alive"}[s] }

// Note returns a remark to print behind the name of the finalizer or agent.
func (c Consumer) Note() string {
	switch c.State {
	case None:
		return " (no consumer)"
	case Busy:
		return " (consumer busy)"
	}
	return ""
}

// Call is a call for an object that is being deleted.
type Call struct {
	Consumer
	Parked bool // it failed too often
}

// Text describes the state of the call.
func (c Call) Text() string {
	switch {
	case c.Parked:
		return "the call kept failing and is parked: see 'coppice parked'"
	case c.State == Alive:
		return "answered" + console.Prefixed(" by ", c.Process)
	case c.State == Busy:
		return "answered" + console.Prefixed(" by ", c.Process) + fmt.Sprintf(", which is busy: %s to do", console.Count(int(c.Calls), "call"))
	case c.State == None:
		return "no consumer: no program asks for its calls"
	}
	return "unknown: the state of its consumer could not be read"
}

// Consumers finds out which programs receive the calls of external finalizers and
// agents. It caches states for cacheTime, because the same finalizer may block many
// objects, and a denial for as long as the command runs.
type Consumers struct {
	r      *Reader
	seen   map[string]Consumer // by what they consume
	at     map[string]time.Time
	denied bool // the user may not see consumers, or a recording has none
}

const cacheTime = 500 * time.Millisecond

// Consumers returns an empty cache of consumers. It is not safe for concurrent use.
func (r *Reader) Consumers() *Consumers {
	return &Consumers{r: r, seen: map[string]Consumer{}, at: map[string]time.Time{}}
}

// Finalizer returns the consumer of an external finalizer.
func (c *Consumers) Finalizer(ctx context.Context, name string) Consumer {
	return c.of(ctx, "finalizer "+name, client.OfFinalizers{name})
}

// Agent returns the consumer of the agent of a resource.
func (c *Consumers) Agent(ctx context.Context, of client.Resource) Consumer {
	return c.of(ctx, "agent "+of.String(), client.OfAgents{of})
}

func (c *Consumers) of(ctx context.Context, what string, which client.ConsumersOption) Consumer {
	if t, ok := c.at[what]; c.denied || ok && c.r.now().Sub(t) < cacheTime {
		return c.seen[what]
	}
	ok, err := c.r.Optional(ctx, AboutConsumers, func(ctx context.Context) error {
		reply, err := c.r.client.Operations().Consumers(ctx, which)
		c.denied = errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrMethodNotAllowed)
		if err == nil && len(reply.GetConsumers()) == 1 {
			c.seen[what] = consumerOf(reply.GetConsumers()[0])
		}
		return err
	})
	if !ok && err != nil && ctx.Err() == nil {
		c.r.Missing(AboutConsumers, err)
	}
	c.at[what] = c.r.now()
	return c.seen[what]
}

func consumerOf(s *client.ConsumerState) Consumer {
	is := Consumer{Process: s.GetProcess(), Calls: s.GetPending() + s.GetUnacknowledged()}
	switch {
	case s.GetPulling() > 0:
		is.State = Alive
	case s.GetUnacknowledged() > 0:
		is.State = Busy
	default:
		is.State = None
	}
	return is
}

// FinalizerCall returns the call of an external finalizer of an object.
func (c *Consumers) FinalizerCall(ctx context.Context, k client.Kind, uid, finalizer string) Call {
	subject := bus.Finalize{Realm: c.r.client.Realm(), Group: k.Group, Plural: k.Plural, UID: uid, Finalizer: finalizer}.Subject()
	return Call{c.Finalizer(ctx, finalizer), c.parked(ctx, subject)}
}

// AgentCall returns the call of the agent that has to end an object.
func (c *Consumers) AgentCall(ctx context.Context, k client.Kind, uid string) Call {
	subject := bus.Terminate{Realm: c.r.client.Realm(), Group: k.Group, Plural: k.Plural, UID: uid}.Subject()
	return Call{c.Agent(ctx, client.ResourceOf(k)), c.parked(ctx, subject)}
}

// parked reports whether a call is parked; false if that cannot be read.
func (c *Consumers) parked(ctx context.Context, subject string) bool {
	var reply *client.ParkedPage
	ok, err := c.r.Optional(ctx, AboutParked, func(ctx context.Context) (err error) {
		reply, err = c.r.client.Operations().ListParked(ctx, client.FromSubject(subject), client.Limit(1))
		return err
	})
	if err != nil {
		c.r.Missing(AboutParked, err)
	}
	return ok && len(reply.GetParked()) > 0
}

// BlockedBy describes what blocks the removal of a terminating object: finalizers, its
// agent, or work of Coppice itself. It returns "" if nothing does.
func (c *Consumers) BlockedBy(ctx context.Context, n *coppicev1.GraphNode) string {
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
			waits = "removes what is in it: " + Left(n)
		default:
			by = append(by, f+c.Finalizer(ctx, f).Note())
		}
	}
	if m.GetDeletionGracePeriodSeconds() > 0 {
		by = append(by, c.agentUntil(ctx, n))
	}
	switch {
	case len(by) > 0:
		return "blocked by " + console.Short(by, 3)
	case waits != "":
		return waits
	}
	return ""
}

// agentUntil names the agent that has to end an object, and the end of its grace period.
func (c *Consumers) agentUntil(ctx context.Context, n *coppicev1.GraphNode) string {
	agent := "its agent"
	if k, ok := c.r.Kinds.Of(n.GetObject().GetApiVersion(), n.GetObject().GetKind()); ok {
		agent += c.Agent(ctx, client.ResourceOf(k)).Note()
	}
	return agent + " until " + console.Clock(n.GetObject().GetMetadata().GetDeletionTimestamp().AsTime(), c.r.now())
}

// BuiltInText says what a built-in finalizer waits for; "" if the finalizer is external.
func BuiltInText(n *coppicev1.GraphNode, finalizer string) string {
	switch finalizer {
	case lifecycle.FinalizerForeground:
		return "built in: waits until dependents that block the object are gone"
	case lifecycle.FinalizerOrphan:
		return "built in: waits until dependents have lost their references to the object"
	case lifecycle.FinalizerContents:
		return "built in: removes what is in it, " + Left(n)
	}
	return ""
}

// Left says how many objects a terminating namespace or kind still contains.
func Left(n *coppicev1.GraphNode) string {
	if n.GetContents() >= 1000 { // the server counts up to 1000
		return "1000 objects or more left"
	}
	return console.Count(int(n.GetContents()), "object") + " left"
}

// External reports whether an external finalizer or a grace period blocks an object:
// a program outside of Coppice has to act.
func External(n *coppicev1.GraphNode) bool {
	m := n.GetObject().GetMetadata()
	for _, f := range m.GetFinalizers() {
		if !lifecycle.IsBuiltinFinalizer(f) {
			return true
		}
	}
	return m.GetDeletionGracePeriodSeconds() > 0
}
