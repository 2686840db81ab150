package objects

import (
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
)

// decider decides the i-th object of a request.
type decider func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error)

// decidesCreations returns a decider of creations. It checks in advance what does not depend on the state, since the
// writer decides one request after the other.
func decidesCreations(_ string, objects []*coppicev1.Object) decider {
	checked := make([]lifecycle.Checked, len(objects))
	for i, o := range objects {
		checked[i] = lifecycle.Check(o)
	}
	return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.CreateChecked(ctx, at, &checked[i])
	}
}

// decidesApplies returns a function that makes deciders of applies, which check in advance as decidesCreations does. With
// across they accept objects that use objects in other namespaces.
func decidesApplies(across bool) newDecider {
	return func(namespace string, objects []*coppicev1.Object) decider {
		checked := make([]lifecycle.Manifest, len(objects))
		for i, o := range objects {
			checked[i] = lifecycle.CheckManifest(namespace, o)
		}
		return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			c := *ctx
			c.Across = across
			return lifecycle.ApplyChecked(&c, at, &checked[i])
		}
	}
}

// newDecider makes a decider of the objects of a request for a namespace.
type newDecider func(namespace string, objects []*coppicev1.Object) decider

// decidesBy returns a function that makes deciders which apply a rule to each object.
func decidesBy(rule func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)) newDecider {
	return func(_ string, objects []*coppicev1.Object) decider {
		return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return rule(ctx, at, objects[i])
		}
	}
}

// withStrictOwners returns a decider that refuses owners which do not keep an object, if strict is set.
func withStrictOwners(strict bool, by decider) decider {
	if !strict {
		return by
	}
	return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		c := *ctx
		c.StrictOwners = true
		return by(&c, at, i)
	}
}

// checkBlocking returns a decider that refuses references with blockOwnerDeletion which the rules of the actor do not
// allow, if the realm settings demand permission (B11), and uses of objects that the actor may not get. All commands on objects pass it.
func checkBlocking(rules *access.Rules, by decider) decider {
	if rules == nil {
		return by
	}
	may := func(kind *lifecycle.Kind, namespace string) bool {
		resource := ""
		if kind != nil {
			resource = kind.Resource()
		}
		return rules.MayBlock(resource, namespace)
	}
	gets := func(kind *lifecycle.Kind, namespace string) bool {
		return kind != nil && rules.Sees(kind.Resource(), namespace) || rules.SeesAll()
	}
	return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		out, err := by(ctx, at, i)
		if err == nil {
			err = lifecycle.CheckBlocking(ctx, out, may)
		}
		if err == nil {
			err = lifecycle.CheckUsesSeen(ctx, out, gets)
		}
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

// decidesParts returns the number of objects of a deletion with parts, and their decider.
func decidesParts(d plan.Deletion) (count int, by decider) {
	type object struct {
		name string
		part *plan.Deletion
	}
	var objects []object
	for _, part := range d.All() {
		for _, name := range part.GetNames() {
			objects = append(objects, object{name, &part})
		}
	}
	return len(objects), func(ctx *lifecycle.Context, _ lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		part := objects[i].part
		kind := ctx.Kinds().Resource(part.Resource)
		if kind == nil {
			return nil, lifecycle.ErrUnknownKind(part.Resource)
		}
		return lifecycle.Delete(ctx, lifecycle.Key{Kind: kind, Namespace: part.Namespace, Name: objects[i].name}, part.GetVersion(), part.GetOptions())
	}
}
