// Package lookuptest has a realm in memory for tests of the packages that read from one.
// It adds to package client/fake what that leaves out: an event log, warnings, consumers
// and parked work, all of which the test sets.
package lookuptest

import (
	"bytes"
	"context"
	"iter"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Fake is a client of a realm in memory. Its fields must not be changed during a call.
type Fake struct {
	*fake.Client
	// Commits are the log: the first has sequence 1.
	Commits []client.LogCommit
	// Consumers are the states of consumers, by finalizer or by the resource of an agent.
	Consumers map[string]*client.ConsumerState
	// Calls has the states of calls, by uid and finalizer, joined by a blank. Others wait for a program.
	Calls map[string]*client.CallStatus
	// Warned are the warnings, about any object.
	Warned []client.Warning
	// Err, if set, is the error of every call for the log, warnings, consumers and parked work.
	Err error
	// Asked counts calls for consumers.
	Asked int
}

// New returns a realm with the built-in kinds, a reader of it that uses its clock, and
// the notes that the reader prints.
func New(tb testing.TB) (*Fake, *lookup.Reader, *bytes.Buffer) {
	tb.Helper()
	r := &Fake{Client: fake.New(), Consumers: map[string]*client.ConsumerState{}, Calls: map[string]*client.CallStatus{}}
	kinds, err := r.Kinds(tb.Context())
	must.Succeed(tb, err)
	var notes bytes.Buffer
	return r, lookup.New(r, kinds, &notes, time.Minute, time.Now), &notes
}

// Create creates an object in namespace shop, with owners that are not its controller and
// block their deletion.
func (r *Fake) Create(tb testing.TB, resource, name string, finalizers []string, owners ...*client.Object) *client.Object {
	tb.Helper()
	o := &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: "shop", Finalizers: finalizers}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	}
	o, err := r.Resource(client.ParseResource(resource), "shop").Create(tb.Context(), o)
	must.Succeed(tb, err)
	return o
}

// Delete deletes an object in namespace shop.
func (r *Fake) Delete(tb testing.TB, resource, name string, opts ...client.DeleteOption) {
	tb.Helper()
	if _, err := r.Resource(client.ParseResource(resource), "shop").Delete(tb.Context(), name, opts...); err != nil {
		tb.Fatal(err)
	}
}

// Commit appends a commit with events to the log. Each event has its own revision.
func (r *Fake) Commit(c *client.Commit) {
	r.Commits = append(r.Commits, client.LogCommit{Sequence: uint64(len(r.Commits)) + 1, Commit: c})
}

// Of returns the identity of an object for an event. The object's resource and namespace
// must be the first that the commit names.
func Of(o *client.Object) *coppicev1.Identities {
	return &coppicev1.Identities{
		Uids: uid.Pack(nil, uid.MustParse(o.GetMetadata().GetUid())), Resources: []uint32{0}, Namespaces: []uint32{0}, Names: []string{o.GetMetadata().GetName()},
	}
}

// Log returns the log.
func (r *Fake) Log() client.LogClient { return eventLog{r} }

// Operations returns the consumers and parked work.
func (r *Fake) Operations() client.OperationsClient { return operations{realm: r} }

// Warnings returns the warnings about the object with a uid, or all.
func (r *Fake) Warnings(_ context.Context, about string, _ ...client.WarningsOption) ([]client.Warning, error) {
	var found []client.Warning
	for _, w := range r.Warned {
		if about == "" || w.UID == about {
			found = append(found, w)
		}
	}
	return found, r.Err
}

// eventLog is the log of a realm.
type eventLog struct{ r *Fake }

func (l eventLog) Last(context.Context, ...client.CommitOption) (uint64, error) {
	return uint64(len(l.r.Commits)), l.r.Err
}

func (l eventLog) Commit(_ context.Context, sequence uint64, _ ...client.CommitOption) (*client.Commit, error) {
	return l.r.Commits[sequence-1].Commit, l.r.Err
}

// Read supports FromRevision, FromSequence, ToSequence and Limit. Other options select
// nothing: the commits that they leave out are read too.
func (l eventLog) Read(_ context.Context, opts ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	var o client.LogOptions
	for _, opt := range opts {
		opt.ApplyToLog(&o)
	}
	return func(yield func(client.LogCommit, error) bool) {
		if l.r.Err != nil {
			yield(client.LogCommit{}, l.r.Err)
			return
		}
		commits, n := l.r.Commits, 0
		for i, c := range commits {
			later := o.FromRevision > 0 && i+1 < len(commits) && commits[i+1].Commit != nil && commits[i+1].GetFirstRevision() <= o.FromRevision
			if later || c.Sequence < o.FromSequence || o.ToSequence > 0 && c.Sequence > o.ToSequence || o.Limit > 0 && n == o.Limit {
				continue
			}
			n++
			if !yield(c, nil) {
				return
			}
		}
	}
}

// operations has the methods that commands call about one object; the others panic.
type operations struct {
	client.OperationsClient
	realm *Fake
}

func (o operations) Consumers(_ context.Context, opts ...client.ConsumersOption) (*client.Consumers, error) {
	o.realm.Asked++
	var which client.ConsumersOptions
	for _, opt := range opts {
		opt.ApplyToConsumers(&which)
	}
	names := which.Finalizers
	for _, a := range which.Agents {
		names = append(names, a.String())
	}
	reply := &client.Consumers{}
	for _, name := range names {
		state := o.realm.Consumers[name]
		if state == nil {
			state = &client.ConsumerState{}
		}
		reply.Consumers = append(reply.Consumers, state)
	}
	for _, c := range which.Calls {
		is := o.realm.Calls[c.GetUid()+" "+c.GetFinalizer()]
		if is == nil {
			is = &client.CallStatus{State: coppicev1.CallState_CALL_STATE_NO_CONSUMER}
		}
		reply.Calls = append(reply.Calls, is)
	}
	return reply, o.realm.Err
}
