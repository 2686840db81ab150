package fake

import (
	"context"
	"iter"

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
				"terminate": p.Terminate, "blocked": p.Blocked, "drain": p.Drain,
			} {
				if pending {
					rows[what]++
					status.Idle = status.Idle && what == "unknown"
				}
			}
		}
		for _, what := range []string{"unknown", "orphan", "finish", "examine", "finalize", "terminate", "blocked", "drain"} {
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

func (noLog) Commit(context.Context, uint64) (*client.Commit, error) {
	return nil, unsupported("event log")
}

func (noLog) Last(context.Context) (uint64, error) { return 0, unsupported("event log") }

// Operations returns a client whose calls fail: the fake has no consumers, parked work and
// replicas.
func (c *Client) Operations() client.OperationsClient { return noOperations{} }

type noOperations struct{}

func (noOperations) Consumers(context.Context, ...client.ConsumersOption) (*client.Consumers, error) {
	return nil, unsupported("consumers")
}

func (noOperations) ListParked(context.Context, ...client.ParkedOption) (*client.ParkedPage, error) {
	return nil, unsupported("parked work")
}

func (noOperations) RetryParked(context.Context, []uint64) ([]error, error) {
	return nil, unsupported("parked work")
}

func (noOperations) DropParked(context.Context, []uint64) ([]error, error) {
	return nil, unsupported("parked work")
}

func (noOperations) ListRealms(context.Context, ...client.RealmsOption) ([]*client.Realm, error) {
	return nil, unsupported("list of realms")
}

func (noOperations) CreateRealm(context.Context, string) (*client.Realm, error) {
	return nil, unsupported("list of realms")
}

func (noOperations) DeleteRealm(context.Context, string, ...client.DeleteRealmOption) (*client.Realm, error) {
	return nil, unsupported("list of realms")
}

func (noOperations) Verify(context.Context, ...client.VerifyOption) (*client.VerifyResult, error) {
	return nil, unsupported("replicas")
}

func (noOperations) Resume(context.Context) (bool, error) { return false, unsupported("pause") }
