package lookup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Consumer is the program that receives the calls of an external finalizer or an agent.
type Consumer struct {
	State   ConsumerState
	Process string // its name; empty if it has not reported one
	Calls   uint64 // pending or delivered
	// Pulling: a pull request is open.
	Pulling bool
	// Since is since when it works, or the last sign of a program that is silent, or the last
	// delivery or acknowledgement; zero if that is not known.
	Since time.Time
	// Error is the last error that a program reported about a call that is not done, at Failed.
	// Retry is when a failed call is delivered again.
	Error         string
	Failed, Retry time.Time

	now time.Time
}

// ConsumerState says whether a program receives calls.
type ConsumerState int

// States of a consumer.
const (
	Unseen ConsumerState = iota // the state could not be read
	None                        // no program asks for calls
	Busy                        // a program works on calls
	Alive
	Silent  // a program asked for calls, and has given no sign for a minute
	Failing // calls have failed, and wait until they are delivered again
)

func (s ConsumerState) String() string {
	return [...]string{"Unseen", "None", "Busy", "Alive", "Silent", "Failing"}[s]
}

// Note returns a remark to print behind the name of the finalizer or agent.
func (c Consumer) Note() string {
	switch {
	case c.State == None:
		return " (no consumer)"
	case c.State == Silent:
		return " (consumer silent" + c.since() + ")"
	case c.State == Failing:
		return " (calls fail" + c.retry() + ")"
	case c.State == Busy && c.Error != "":
		return " (consumer busy, calls fail)"
	case c.State == Busy && !c.Pulling:
		return " (consumer busy" + c.since() + ")"
	case c.State == Alive && !c.Pulling:
		return " (no program asks for its calls now)"
	}
	return ""
}

// Word describes the state in a few words, for tables.
func (c Consumer) Word() string {
	switch c.State {
	case None:
		return "none"
	case Silent:
		return "silent" + c.since()
	case Failing:
		return "calls fail" + c.retry()
	case Busy:
		return "working" + c.since()
	case Alive:
		if !c.Pulling {
			return "seen" + c.at()
		}
		return "waits for calls"
	}
	return "unknown"
}

func (c Consumer) since() string {
	if c.Since.IsZero() {
		return ""
	}
	return " since " + terminal.Clock(c.Since, c.now)
}

func (c Consumer) retry() string {
	if c.Retry.IsZero() {
		return ""
	}
	return ", next retry at " + terminal.Clock(c.Retry, c.now)
}

// Text describes the state of the consumer.
func (c Consumer) Text() string {
	by := terminal.Prefixed(" by ", c.Process)
	said := "unknown: the state of its consumer could not be read"
	switch c.State {
	case None:
		said = "no consumer: no program asks for its calls"
	case Alive:
		said = "answered" + by
		if !c.Pulling {
			said = "no program asks for its calls now; one answered" + by + terminal.Prefixed(", and was seen last", c.at())
		}
	case Busy:
		said = "answered" + by + ", which is busy" + c.since() + ": " + terminal.Count(int(c.Calls), "call") + " to do"
	case Silent:
		said = "silent" + c.since() + terminal.Prefixed(": no sign of ", c.Process)
	case Failing:
		said = "answered" + by + ", whose calls fail"
	}
	if c.Error != "" {
		said += "; the last error"
		if !c.Failed.IsZero() {
			said += ", at " + terminal.Clock(c.Failed, c.now)
		}
		said += ": " + c.Error
	}
	return said + terminal.Prefixed(";", strings.TrimPrefix(c.retry(), ","))
}

func (c Consumer) at() string {
	if c.Since.IsZero() {
		return ""
	}
	return " at " + terminal.Clock(c.Since, c.now)
}

// Broken reports whether the consumer receives no calls, or fails to do what they ask for.
func (c Consumer) Broken() bool { return c.State == None || c.State == Silent || c.State == Failing }

// About is Text behind the name of the finalizer or agent.
func (c Consumer) About() string { return strings.TrimPrefix(c.Text(), "no consumer: ") }

// Consumers finds out which programs receive the calls of external finalizers and
// agents. It caches states for cacheTime, because the same finalizer may block many
// objects, and a denial for as long as the command runs.
type Consumers struct {
	r      *Reader
	seen   map[string]Consumer // by what they consume
	at     map[string]time.Time
	calls  map[string]Call // by callKey, of the last call of Read
	denied bool            // the user may not see consumers, or a recording has none
}

const cacheTime = 500 * time.Millisecond

// Consumers returns an empty cache of consumers. It is not safe for concurrent use.
func (r *Reader) Consumers() *Consumers {
	return &Consumers{r: r, seen: map[string]Consumer{}, at: map[string]time.Time{}, calls: map[string]Call{}}
}

// Finalizer returns the consumer of an external finalizer.
func (c *Consumers) Finalizer(ctx context.Context, name string) Consumer {
	return c.of(ctx, "finalizer "+name, client.ForFinalizers{name})
}

// Agent returns the consumer of the agent of a resource.
func (c *Consumers) Agent(ctx context.Context, of client.Resource) Consumer {
	return c.of(ctx, "agent "+of.String(), client.ForAgents{of})
}

func (c *Consumers) of(ctx context.Context, what string, which client.ConsumersOption) Consumer {
	if t, ok := c.at[what]; c.denied || ok && c.r.now().Sub(t) < cacheTime {
		return c.seen[what]
	}
	ok, err := c.r.Optional(ctx, AboutConsumers, func(ctx context.Context) error {
		reply, err := c.r.client.Operations().Consumers(ctx, which)
		c.denied = errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrMethodNotAllowed)
		if err == nil && len(reply.GetConsumers()) == 1 {
			c.seen[what] = ConsumerOf(reply.GetConsumers()[0], c.r.now())
		}
		return err
	})
	if !ok && err != nil && ctx.Err() == nil {
		c.r.Missing(AboutConsumers, err)
	}
	c.at[what] = c.r.now()
	return c.seen[what]
}

func timeOf(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro)
}

// ConsumerOf returns the consumer that has a state, as of now.
func ConsumerOf(s *client.ConsumerState, now time.Time) Consumer {
	is := Consumer{
		Process: s.GetProcess(), Calls: s.GetPending() + s.GetUnacknowledged(), Pulling: s.GetPulling() > 0, now: now,
		Error: s.GetLastError(), Failed: timeOf(s.GetLastErrorTime()), Retry: timeOf(s.GetNextRetry()),
	}
	switch s.GetStatus() {
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_NONE:
		is.State = None
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE:
		is.State, is.Since = Alive, timeOf(s.GetLastActive())
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING:
		is.State, is.Since = Busy, timeOf(s.GetWorkingSince())
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING:
		is.State = Failing
	case coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT:
		is.State, is.Since = Silent, timeOf(s.GetSilentSince())
	default: // of an earlier version
		switch {
		case is.Pulling:
			is.State = Alive
		case s.GetUnacknowledged() > 0:
			is.State = Busy
		default:
			is.State = None
		}
	}
	return is
}

// blockersNamed is how many finalizers BlockedBy names.
const blockersNamed = 3

// BlockedBy describes what blocks the removal of a terminating object: finalizers, its
// agent, or work of Coppice itself. It returns "" if nothing does. Read first.
func (c *Consumers) BlockedBy(ctx context.Context, n *coppicev1.GraphNode) string {
	m := n.GetObject().GetMetadata()
	var by []string
	waits := ""
	for _, f := range m.GetFinalizers() {
		switch f {
		case lifecycle.FinalizerForeground:
			waits = "waits for " + terminal.Count(int(n.GetBlockingDependents()), "dependent") + Protected(n)
		case lifecycle.FinalizerOrphan:
			waits = "removes the references of " + terminal.Count(int(n.GetDependents()), "dependent")
		case lifecycle.FinalizerContents:
			waits = "removes what is in it: " + LeftText(n, c.Remaining(ctx, n)) + Protected(n)
		case lifecycle.FinalizerInUse: // see below
		case lifecycle.FinalizerProtection:
			waits = "removes the protection that it gives"
		default:
			if len(by) < blockersNamed {
				f += c.note(n, f, func() Consumer { return c.Finalizer(ctx, f) })
			}
			by = append(by, f)
		}
	}
	if m.GetDeletionGracePeriodSeconds() > 0 {
		by = append(by, c.agent(ctx, n))
	}
	switch {
	case slices.Contains(m.GetFinalizers(), lifecycle.FinalizerInUse): // the others are called afterwards
		return "waits for " + Users(n)
	case len(by) > 0:
		return "blocked by " + terminal.Short(by, blockersNamed)
	case waits != "":
		return waits
	}
	return ""
}

// agent names the agent that has to end an object, and its time.
func (c *Consumers) agent(ctx context.Context, n *coppicev1.GraphNode) string {
	note := ""
	if k, ok := c.r.Kinds.Of(n.GetObject().GetApiVersion(), n.GetObject().GetKind()); ok {
		note = c.note(n, "", func() Consumer { return c.Agent(ctx, client.ResourceOf(k)) })
	}
	return AgentText(note, n.GetObject().GetMetadata().GetDeletionTimestamp().AsTime(), c.r.now())
}

// AgentText names the agent of an object, with a remark and the end of its grace period. The object waits for its
// agent also after that.
func AgentText(note string, until, now time.Time) string {
	agent, at := "its agent"+note, terminal.Clock(until, now)
	if now.Before(until) {
		return agent + ", which has time until " + at
	}
	return agent + ", whose time ended at " + at + " (delete it with --force to go on without the agent)"
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
	case lifecycle.FinalizerInUse:
		return "built in: waits until no object uses it"
	case lifecycle.FinalizerProtection:
		return "built in: removes the protection that the policy gives"
	}
	return ""
}

// UserName names a user of an object, with its namespace if that is another.
func UserName(n *coppicev1.GraphNode, u *coppicev1.GraphUser) string {
	name := u.GetResource() + "/" + u.GetName()
	if u.GetNamespace() == n.GetObject().GetMetadata().GetNamespace() {
		return name
	}
	return terminal.WithNamespace(name, u.GetNamespace())
}

// Users says which objects use an object.
func Users(n *coppicev1.GraphNode) string {
	var names []string
	for _, u := range n.GetUsedBy() {
		names = append(names, UserName(n, u))
	}
	return terminal.Count(int(n.GetUsers()), "user") + terminal.Prefixed(": ", terminal.Short(names, 3))
}

// UsedName names the object of a use, without its namespace.
func UsedName(u *coppicev1.Use) string {
	if u.GetGroup() == "" {
		return u.GetKind() + "/" + u.GetName()
	}
	return u.GetKind() + "." + u.GetGroup() + "/" + u.GetName()
}

// UseRows has a row for each use of an object: the object that it uses, and the state of the
// use.
func UseRows(n *coppicev1.GraphNode) (rows [][]string) {
	for i, u := range n.GetObject().GetMetadata().GetUses() {
		name := terminal.WithNamespace(UsedName(u), u.GetNamespace())
		state := ""
		if i < len(n.GetUseStates()) {
			state = n.GetUseStates()[i]
		}
		rows = append(rows, []string{name, state})
	}
	return rows
}

// Protected names the protected objects for which a deletion waits, in the words that continue
// a sentence; "" if there are none.
func Protected(n *coppicev1.GraphNode) string {
	return terminal.Prefixed(", of which these are protected: ", terminal.Short(n.GetProtected(), 3))
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
