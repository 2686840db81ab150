package fake

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Status returns the pending work of the realm. As the collector runs in every call, that
// is what waits for external finalizers, for agents, for time or for unknown owners.
func (c *Client) Status(ctx context.Context, opts ...client.CallOption) (*client.Status, error) {
	o := collect(opts, client.CallOption.ApplyToCall)
	status := &client.Status{Idle: true}
	err := c.read(ctx, o.Reply, func(realm *memrealm.Realm) error {
		status.Revision = realm.Revision
		rows := map[string]uint64{}
		for _, u := range realm.Owners() {
			p := lifecycle.PendingOf(realm, u, realm.Node(u))
			for what, pending := range map[string]bool{
				// The collector has evaluated all dependents. What is left waits for an owner.
				"unknown": p.Evaluate,
				"orphan":  p.Orphan, "finish": p.Finish != "", "examine": p.Examine > 0, "finalize": p.Finalize,
				"terminate": p.Terminate, "blocked": p.Blocked, "drain": p.Drain, "protected": p.Protected,
			} {
				if pending {
					rows[what]++
					status.Idle = status.Idle && (what == "unknown" || what == "protected")
				}
			}
		}
		for _, what := range []string{"unknown", "orphan", "finish", "examine", "finalize", "terminate", "blocked", "drain", "protected"} {
			if rows[what] > 0 {
				status.Pending = append(status.Pending, &coppicev1.PendingWork{Type: what, Rows: rows[what]})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return status, nil
}

// Log returns a client whose calls fail: the fake has no event log.
func (c *Client) Log() client.LogClient { return noLog{} }

type noLog struct{}

func (noLog) Read(context.Context, ...client.LogOption) iter.Seq2[client.LogCommit, error] {
	return func(yield func(client.LogCommit, error) bool) { yield(client.LogCommit{}, unsupported("event log")) }
}

func (noLog) Commit(context.Context, uint64, ...client.CommitOption) (*client.Commit, error) {
	return nil, unsupported("event log")
}

func (noLog) Last(context.Context, ...client.CommitOption) (uint64, error) {
	return 0, unsupported("event log")
}

// Operations returns a client for the brakes of kinds and for the finalizers of objects. Its
// other calls fail: the fake has no consumers, parked work, evaluations of expiry policies and
// replicas.
func (c *Client) Operations() client.OperationsClient { return operations{c: c} }

type operations struct {
	noOperations
	c *Client
}

func (o operations) Brakes(ctx context.Context, opts ...client.CallOption) (list []*client.BrakeStatus, err error) {
	err = o.c.read(ctx, collect(opts, client.CallOption.ApplyToCall).Reply, func(realm *memrealm.Realm) error {
		for _, k := range realm.Kinds().All() {
			if lifecycle.BrakeOf(realm, k).On() {
				list = append(list, lifecycle.BrakeStatus(realm, k, realm.Clock))
			}
		}
		return nil
	})
	return list, err
}

// Finalizers returns the finalizers of the objects of the realm in memory.
func (o operations) Finalizers(ctx context.Context, opts ...client.CallOption) (list []*client.FinalizerInUse, err error) {
	byName := map[string]*client.FinalizerInUse{}
	err = o.c.read(ctx, collect(opts, client.CallOption.ApplyToCall).Reply, func(realm *memrealm.Realm) error {
		for _, u := range realm.UIDs() {
			n := realm.Node(u)
			for _, f := range n.Finalizers {
				if lifecycle.IsBuiltinFinalizer(f) {
					continue
				}
				if byName[f] == nil {
					byName[f] = &client.FinalizerInUse{Name: f}
				}
				byName[f].Objects++
				if n.Terminating() {
					byName[f].Terminating++
					if since := int64(n.Marked()); byName[f].GetOldest() == 0 || since < byName[f].GetOldest() {
						byName[f].Oldest = since
					}
				}
			}
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, byName[name])
	}
	return list, err
}

func (o operations) ReleaseBrake(ctx context.Context, kind client.Resource, opts ...client.ReleaseBrakeOption) (*client.BrakeRelease, error) {
	dry := collect(opts, client.ReleaseBrakeOption.ApplyToReleaseBrake).DryRun
	reply := &client.BrakeRelease{}
	err := o.c.read(ctx, nil, func(realm *memrealm.Realm) error {
		k := realm.Kinds().Resource(kind.String())
		if k == nil {
			return lifecycle.ErrUnknownKind(kind.String())
		}
		b, _ := realm.Brake(k)
		reply.Revision, reply.PendingRevision, reply.Tripped = realm.Revision, realm.Revision, b.Tripped != 0
		if reply.Tripped {
			let := realm.Pending(k)
			if reply.Released = uint64(len(let)); !dry {
				realm.ReleaseBrake(k, let)
				o.c.settle()
			}
		}
		return nil
	})
	return reply, err
}

type noOperations struct{}

func (noOperations) Consumers(context.Context, ...client.ConsumersOption) (*client.Consumers, error) {
	return nil, unsupported("consumers")
}

func (noOperations) Storage(context.Context, ...client.CallOption) (*client.Storage, error) {
	return nil, unsupported("what the realm takes on disks")
}

func (noOperations) Leaders(context.Context, ...client.CallOption) ([]*client.ControllerLease, error) {
	return nil, unsupported("the leaders of controllers")
}

func (noOperations) ExpiryPolicies(context.Context, ...client.CallOption) ([]*client.ExpiryStatus, error) {
	return nil, unsupported("evaluation of expiry policies")
}

func (noOperations) ListParked(context.Context, ...client.ParkedOption) (*client.ParkedPage, error) {
	return nil, unsupported("parked work")
}

func (noOperations) RetryParked(context.Context, []uint64, ...client.ChangeParkedOption) ([]error, error) {
	return nil, unsupported("parked work")
}

func (noOperations) DropParked(context.Context, []uint64, ...client.ChangeParkedOption) ([]error, error) {
	return nil, unsupported("parked work")
}

func (noOperations) ListRealms(context.Context, ...client.RealmsOption) ([]*client.Realm, error) {
	return nil, unsupported("list of realms")
}

func (noOperations) CreateRealm(context.Context, string, ...client.CreateRealmOption) (*client.Realm, error) {
	return nil, unsupported("list of realms")
}

func (noOperations) DeleteRealm(context.Context, string, ...client.DeleteRealmOption) (*client.Realm, error) {
	return nil, unsupported("list of realms")
}

func (noOperations) Archive(context.Context, ...client.ArchiveOption) (*client.Archived, error) {
	return nil, unsupported("archive")
}

func (noOperations) Verify(context.Context, ...client.VerifyOption) (*client.VerifyResult, error) {
	return nil, unsupported("replicas")
}

func (noOperations) Brakes(context.Context, ...client.CallOption) ([]*client.BrakeStatus, error) {
	return nil, unsupported("brakes")
}

func (noOperations) ReleaseBrake(context.Context, client.Resource, ...client.ReleaseBrakeOption) (*client.BrakeRelease, error) {
	return nil, unsupported("brakes")
}

func (noOperations) Resume(context.Context, ...client.CallOption) (bool, error) {
	return false, unsupported("pause")
}
