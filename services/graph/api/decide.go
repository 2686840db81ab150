package api

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/plan"
)

// decide decides the i-th object of a request.
type decide func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error)

// create decides creations. It checks what does not depend on the state before the writer
// decides, so that the writer need not.
func create(_ string, objects []*coppicev1.Object) decide {
	checked := make([]lifecycle.Checked, len(objects))
	for i, o := range objects {
		checked[i] = lifecycle.Check(o)
	}
	return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.CreateChecked(ctx, at, &checked[i])
	}
}

// apply returns a function that decides applies, as create decides creations: with across also of objects
// that use objects in other namespaces.
func apply(across bool) decideObjects {
	return func(namespace string, objects []*coppicev1.Object) decide {
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

// decideObjects returns the function that decides the objects of a request for a namespace.
type decideObjects func(namespace string, objects []*coppicev1.Object) decide

// each returns a function that decides each object by a rule.
func each(rule func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)) decideObjects {
	return func(_ string, objects []*coppicev1.Object) decide {
		return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return rule(ctx, at, objects[i])
		}
	}
}

// strictly returns a decide function that refuses owners which do not keep an object, if strict is set.
func strictly(strict bool, by decide) decide {
	if !strict {
		return by
	}
	return func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		c := *ctx
		c.StrictOwners = true
		return by(&c, at, i)
	}
}

// decideParts returns the number of objects of a deletion with parts, and the function that decides
// them in order.
func decideParts(d plan.Deletion) (count int, by decide) {
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
