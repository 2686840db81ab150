package fake

import (
	"context"
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// ForceFinalizer removes a finalizer as Client.ForceFinalizer does. The id of the call that
// RunFinalizer works on is the number of its attempt.
func (r *resourceClient) ForceFinalizer(ctx context.Context, name, finalizer, reason string, opts ...client.ForceOption) (*client.Object, error) {
	o := collect(opts, client.ForceOption.ApplyToForce)
	results, revision, err := r.commit(ctx, command{
		count: 1, names: []string{name},
		decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = name
			if u := ctx.Lookup(at.Kind, at.Namespace, at.Name); u != "" {
				if c := r.c.calls[callKey{finalizer, u}]; c != nil && c.active && o.Call != uint64(c.attempts) {
					return nil, &lifecycle.Error{Reason: api.ErrConflict, Message: fmt.Sprintf(
						"the controller of finalizer %s works on its call for %s; to remove the finalizer nevertheless, name call %d", finalizer, name, c.attempts)}
				}
			}
			return lifecycle.ForceFinalizer(ctx, at, finalizer, reason, preconditions(o.UID, o.ResourceVersion))
		},
	})
	return one(results, revision, err, o.Reply)
}
