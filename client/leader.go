package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coppice-gc/coppice/internal/boottime"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/election"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// ErrLeaseLost is the cause of the end of a leader's context (context.Cause) if it has lost its lease.
var ErrLeaseLost = election.ErrLost

// LeaderState is what a process knows about the leader.
type LeaderState struct {
	// Leading: this process is the leader.
	Leading bool
	// Leader is what the leader says about itself: see LeaderName. It is empty if it is not known.
	Leader string
	// Remaining is for how long this process waits before it takes the lease, if the leader does not
	// renew it meanwhile; zero if it leads.
	Remaining time.Duration
}

// LeaderOptions are the options of RunLeader.
type LeaderOptions struct {
	// TTL is the duration of the lease; 15 s by default.
	TTL time.Duration
	// Name is what this process says about itself; host and process id by default.
	Name    string
	OnState func(LeaderState)
	OnError func(error)
}

// LeaderOption is an option of RunLeader: LeaseTTL, LeaderName, OnLeaderState or OnError.
type LeaderOption interface{ ApplyToLeader(o *LeaderOptions) }

// LeaseTTL is the duration of a lease without a renewal, from 1 s to 10 minutes; 15 s by default. After a crash of the
// leader another process leads 0.8 of this time later. A leader that cannot renew its lease for 0.6 of this time stops:
// choose it so that this is longer than NATS needs to elect the leader of a stream, 4 to 9 s in a cluster.
type LeaseTTL time.Duration

// ApplyToLeader sets o.TTL.
func (v LeaseTTL) ApplyToLeader(o *LeaderOptions) { o.TTL = time.Duration(v) }

// LeaderName is what a process says about itself as a leader, at most 256 bytes; its host and process id by default. It is for
// people: two processes may have the same name.
type LeaderName string

// ApplyToLeader sets o.Name.
func (v LeaderName) ApplyToLeader(o *LeaderOptions) { o.Name = string(v) }

// OnLeaderState is called when this process begins to lead, when it leads no more, and when it sees another leader. It must
// not block. It is for health checks and metrics: what a leader does belongs into the function of RunLeader.
type OnLeaderState func(LeaderState)

// ApplyToLeader sets o.OnState.
func (v OnLeaderState) ApplyToLeader(o *LeaderOptions) { o.OnState = v }

// defaultLeaseTTL is the default of LeaseTTL.
const defaultLeaseTTL = 15 * time.Second

// RunLeader waits until this process has a lease, and calls lead. At most one process of the actor has the lease at a
// time. Each actor has leases of its own in each realm. The name has at most 63 lower case letters, digits, hyphens, dots and
// slashes, such as example.com/sites.
//
// The context of lead ends when the lease is lost, or could not be renewed for 0.6 of its duration. lead must then
// return within 0.15 of the duration, 2.25 s of 15 s. RunLeader waits for it, and competes again for the lease. When lead
// returns for another reason, RunLeader releases the lease, so that another process leads at once, and returns the error of
// lead. When ctx ends it waits until lead has returned, and keeps the lease until then. It fails if the
// actor may not use leases.
//
// # What is guaranteed
//
// Another process calls its function lead only after this process has had a context that has ended for 0.2 of the
// duration, whatever the network, the clocks and the graph services do. After a stop of the process or a
// suspension of the machine the context may end some microseconds late, but no call of a Client with the context
// sends a request any more: it fails with ErrLeaseLost.
//
// If lead ignores the end of its context and NATS can be reached, no other process leads until lead has
// returned. If NATS cannot be reached, another process may lead at the same time; OnError reports it.
//
// A request that was sent before the context ended can be carried out later, after another process has become the
// leader: the NATS client sends what it could not send when it is connected again. Writes with
// a resourceVersion fail then, if the object has changed.
//
// These guarantees assume that clocks since boot differ in rate by at most 6%, that a virtual machine which is paused does
// not go on with a clock that stood still, and that every process of the controller uses RunLeader, or the protocol of docs/api.md.
//
// The actor needs the verb lease, which the accounts of nats-config --controller have.
func (c *Client) RunLeader(ctx context.Context, lease string, lead func(context.Context) error, opts ...LeaderOption) error {
	o := collect(opts, LeaderOption.ApplyToLeader)
	if err := o.check(lease); err != nil {
		return fmt.Errorf("lease %s: %w", lease, err)
	}
	e := election.Config{
		Name: lease, TTL: o.TTL, About: o.Name, Clock: boottime.Now,
		Request: func(ctx context.Context, q *coppicev1.LeaseRequest) (*coppicev1.LeaseReply, error) {
			data, err := encode(q)
			if err != nil {
				return nil, err
			}
			var reply coppicev1.LeaseReply
			once := func(ctx context.Context, send attempt) error { return send(ctx, nil) }
			err = c.try(ctx, bus.RealmAPI(c.realm, c.actor, bus.VerbLease), data, &reply, nil, once)
			return &reply, err
		},
		Retryable: func(err error) bool {
			return rpc.Retryable(err) || errors.Is(err, context.DeadlineExceeded)
		},
		OnState: func(s election.State) {
			if o.OnState != nil {
				o.OnState(LeaderState{Leading: s.Leading, Leader: s.About, Remaining: max(s.Remaining, 0)})
			}
		},
		OnError: func(err error) {
			if o.OnError != nil {
				o.OnError(err)
			}
		},
	}
	return election.Run(ctx, e, lead)
}

// check sets defaults, and returns an error if an option or the name of the lease is wrong.
func (o *LeaderOptions) check(lease string) error {
	o.TTL = cmp.Or(o.TTL, defaultLeaseTTL)
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		o.Name = fmt.Sprintf("%.200s/%d", host, os.Getpid())
	}
	if err := bus.CheckLease(lease); err != nil {
		return &Error{Reason: ErrBadRequest, Message: err.Error()}
	}
	if o.TTL < election.MinTTL || o.TTL > election.MaxTTL {
		return &Error{Reason: ErrBadRequest, Message: fmt.Sprintf("the duration is %v; it must be %v to %v", o.TTL, election.MinTTL, election.MaxTTL)}
	}
	return nil
}
