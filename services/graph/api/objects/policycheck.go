package objects

import (
	"fmt"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/api/expiry"
	"github.com/coppice-gc/coppice/services/graph/api/expiry/evaluated"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
)

// checkPolicy returns decide or, for expiry policies, a decider that also refuses to store a policy that cannot
// be evaluated, and too many of them (B6.5). Package lifecycle does not know CEL.
func checkPolicy(at bus.API, decide decider) decider {
	if serve.Resource(at) != expiry.Resource {
		return decide
	}
	return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		if i >= evaluated.MaxPolicies {
			return nil, lifecycle.ErrBadRequest("%s: a request has at most %d expiry policies; send the others in another request", at, evaluated.MaxPolicies)
		}
		out, err := decide(ctx, at, i)
		if err != nil {
			return nil, err
		}
		for i := range out.Events {
			e := &out.Events[i]
			if e.Object.Body == nil {
				continue
			}
			if _, stored := ctx.Brake(at.Kind); e.Type == lifecycle.ObjectCreated && stored >= evaluated.MaxPolicies {
				return nil, &lifecycle.Error{
					Reason: api.ErrInvalid, Message: fmt.Sprintf("%s: a realm has at most %d expiry policies; delete one first", at, evaluated.MaxPolicies),
				}
			}
			if _, fail := expirypolicy.Parse(e.Object.Body.GetSpec()); fail != nil {
				return nil, &lifecycle.Error{
					Reason: api.ErrInvalid, Message: fmt.Sprintf("%s %q is invalid: %v", expiry.Resource, e.Object.Name, fail),
					Causes: []lifecycle.Cause{{Reason: "FieldValueInvalid", Field: "spec", Message: fail.Error()}},
				}
			}
		}
		return out, nil
	}
}
