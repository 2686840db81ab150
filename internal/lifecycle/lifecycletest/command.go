package lifecycletest

import (
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Command is one command, a user's or the collector's, that is not yet decided.
type Command struct {
	// Verb is what it asks for.
	Verb string
	// Request is what the client sent; nil for a command of the collector.
	Request proto.Message
	// Decide decides it by the rules.
	Decide func(*lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error)
}

// The verbs of RandomCommand.
const (
	VerbCreate          = "create"
	VerbUpdate          = "update"
	VerbUpdateStatus    = "updatestatus"
	VerbPatch           = "patch"
	VerbApply           = "apply"
	VerbImport          = "import"
	VerbDelete          = "delete"
	VerbRemoveFinalizer = "removefinalizer"
	VerbCollect         = "collect"
	VerbStrip           = "strip"
	VerbOrphan          = "orphan"
	VerbFinish          = "finish"
	VerbDrain           = "drain"
	VerbProtect         = "protect"
	VerbUnprotect       = "unprotect"
)

// RandomEvents draws one command, decides it by the rules and returns its
// events, which it applies to the realm. There are none if the command was
// refused or changes nothing.
func (r *Realm) RandomEvents(t *rapid.T) []lifecycle.Event {
	r.PassTime(t)
	out, err := r.RandomCommand(t).Decide(r.Context())
	if err != nil {
		return nil
	}
	r.Apply(out.Events)
	return out.Events
}

// PassTime lets up to five minutes pass.
func (r *Realm) PassTime(t *rapid.T) {
	r.Clock = r.Clock.Add(time.Duration(rapid.IntRange(0, 300).Draw(t, "seconds")) * time.Second)
}

// RandomCommand draws one command: a user's, or one that the collector might
// send. It changes nothing.
func (r *Realm) RandomCommand(t *rapid.T) Command {
	if r.Protecting && rapid.IntRange(0, 5).Draw(t, "protection") == 0 {
		return r.drawProtection(t)
	}
	switch rapid.IntRange(0, 17).Draw(t, "command") {
	case 0, 1, 2, 3:
		return r.drawCreate(t)
	case 4, 5:
		return r.drawImport(t)
	case 6, 7:
		at, o := r.drawChanged(t)
		return r.objects(VerbUpdate, at, o, lifecycle.Update)
	case 8:
		at, o := r.drawChanged(t)
		o.Status = drawJSON(t, "status")
		return r.objects(VerbUpdateStatus, at, o, lifecycle.UpdateStatus)
	case 9:
		at, o := r.drawChanged(t)
		return r.objects(VerbApply, at, o, lifecycle.ApplyAcross)
	case 10:
		return r.drawPatch(t)
	case 11, 12, 13:
		return r.drawDelete(t)
	case 14:
		return r.drawRemoveFinalizer(t)
	}
	return r.drawCollector(t)
}

// drawProtection protects an object, or removes its protection.
func (r *Realm) drawProtection(t *rapid.T) Command {
	at := r.drawKey(t)
	if rapid.IntRange(0, 2).Draw(t, "unprotect") == 0 {
		return Command{Verb: VerbUnprotect, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Unprotect(ctx, at, nil)
		}}
	}
	reason := rapid.SampledFrom([]string{"production", "data"}).Draw(t, "reason")
	return Command{Verb: VerbProtect, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(ctx, at, "ana", reason, nil)
	}}
}

type decideObject func(*lifecycle.Context, lifecycle.Key, *coppicev1.Object) (*lifecycle.Outcome, *lifecycle.Error)

func (r *Realm) objects(verb string, at lifecycle.Key, o *coppicev1.Object, decide decideObject) Command {
	return Command{Verb: verb, Request: o, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return decide(ctx, at, o)
	}}
}

func (r *Realm) drawCreate(t *rapid.T) Command {
	if kinds := r.unregistered(); r.Latecomers && len(kinds) > 0 && rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
		spec := rapid.SampledFrom(kinds).Draw(t, "registered")
		return r.objects(VerbCreate, lifecycle.Key{Kind: r.Kinds().Of(lifecycle.Group, "Kind")}, Registration(spec), lifecycle.Create)
	}
	if r.Restless && rapid.IntRange(0, 5).Draw(t, "options") == 0 {
		return r.drawSettings(t)
	}
	at, o := r.drawObject(t)
	return r.objects(VerbCreate, at, o, lifecycle.Create)
}

// drawSettings sets the realm settings, or has the defaults hold again.
func (r *Realm) drawSettings(t *rapid.T) Command {
	at := lifecycle.Key{Kind: r.Kinds().Of(lifecycle.Group, "Realm")}
	spec := lifecycle.SettingsSpec{
		OwnerGrace:           rapid.SampledFrom([]string{"", "0s", "3m", "1h"}).Draw(t, "owner grace"),
		PodDrainTimeout:      rapid.SampledFrom([]string{"", "0s", "5s"}).Draw(t, "pod drain timeout"),
		ImportIdle:           rapid.SampledFrom([]string{"", "1s", "1h"}).Draw(t, "import idle"),
		ProcessorPropagation: rapid.SampledFrom([]lifecycle.Propagation{"", lifecycle.Honour, lifecycle.Cascade}).Draw(t, "propagation"),
		UnreachableCycles:    rapid.SampledFrom([]lifecycle.UnreachableCycles{"", lifecycle.ReportCycles, lifecycle.CollectCycles}).Draw(t, "cycles"),
		ArchiveRetention:     rapid.SampledFrom([]string{"", "10GiB,365d", "all"}).Draw(t, "archive retention"),
		LogRetention:         rapid.SampledFrom([]string{"", "1MiB", "10GiB,30d", "all"}).Draw(t, "log retention"),
		BlockOwnerDeletion:   rapid.SampledFrom([]lifecycle.BlockOwnerDeletion{"", lifecycle.BlockedByAnyone, lifecycle.BlockedIfPermitted}).Draw(t, "block owner deletion"),
		SharedNamespaces:     rapid.SampledFrom([][]string{nil, {"*"}, {"*"}, namespaces[:1]}).Draw(t, "shared namespaces"),
	}
	if string(spec.JSON()) == "{}" {
		at.Name = lifecycle.SettingsName
		return Command{Verb: VerbDelete, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Delete(ctx, at, "", nil)
		}}
	}
	return r.objects(VerbApply, at, SettingsObject(spec), lifecycle.Apply)
}

func (r *Realm) drawPatch(t *rapid.T) Command {
	at, o := r.drawChanged(t)
	p := &coppicev1.Patch{Name: o.GetMetadata().GetName(), Patch: rapid.SampledFrom([][]byte{
		[]byte(`{"metadata":{"finalizers":null}}`),
		[]byte(`{"metadata":{"finalizers":["example.com/one"]}}`),
		[]byte(`{"metadata":{"ownerReferences":null}}`),
		[]byte(`{"metadata":{"labels":{"app":"web"}}}`),
		[]byte(`{"spec":{"n":1}}`),
		[]byte(`{"metadata":{"name":"x"}}`),
		[]byte(`{}`),
	}).Draw(t, "patch")}
	return Command{Verb: VerbPatch, Request: p, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Patch(ctx, at, p)
	}}
}

func (r *Realm) drawDelete(t *rapid.T) Command {
	at := r.drawKey(t)
	if k := r.latecomer(); r.Containers && k != nil && rapid.IntRange(0, 4).Draw(t, "withdraw") == 0 {
		at = lifecycle.KeyOf(r, r.Node(k.UID))
	}
	o := &coppicev1.DeleteOptions{
		PropagationPolicy: rapid.SampledFrom([]string{"", lifecycle.Orphan, lifecycle.Background, lifecycle.Foreground}).Draw(t, "policy"),
	}
	return Command{Verb: VerbDelete, Request: o, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Delete(ctx, at, "", o)
	}}
}

func (r *Realm) drawRemoveFinalizer(t *rapid.T) Command {
	at := r.drawKey(t)
	f := rapid.SampledFrom(append([]string{lifecycle.FinalizerOrphan, lifecycle.FinalizerForeground, lifecycle.FinalizerInUse}, external...)).Draw(t, "finalizer")
	return Command{Verb: VerbRemoveFinalizer, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.RemoveFinalizer(ctx, at, f, nil)
	}}
}

// drawCollector draws what the collector might send about an object, whether
// it is pending or not: the rules refuse what does not hold.
func (r *Realm) drawCollector(t *rapid.T) Command {
	n := r.drawNode(t)
	if n == nil {
		return r.drawCreate(t)
	}
	act := func(verb string, decide func(*lifecycle.Context) []lifecycle.Event) Command {
		return Command{Verb: verb, Decide: func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
			return &lifecycle.Outcome{Events: decide(ctx)}, nil
		}}
	}
	switch rapid.IntRange(0, 7).Draw(t, "work") {
	case 7:
		return act(VerbFinish, func(ctx *lifecycle.Context) []lifecycle.Event {
			return lifecycle.Finish(ctx, n, lifecycle.FinalizerInUse, nil)
		})
	case 0:
		return act(VerbCollect, func(ctx *lifecycle.Context) []lifecycle.Event { return lifecycle.Collect(ctx, n) })
	case 1:
		return act(VerbStrip, func(ctx *lifecycle.Context) []lifecycle.Event { return lifecycle.Strip(ctx, n) })
	case 2:
		for i := range n.Owners {
			if owner := r.Node(n.Owners[i].UID); owner != nil {
				return act(VerbOrphan, func(ctx *lifecycle.Context) []lifecycle.Event { return lifecycle.OrphanFrom(ctx, owner, n) })
			}
		}
	case 3:
		return act(VerbFinish, func(ctx *lifecycle.Context) []lifecycle.Event {
			return lifecycle.Finish(ctx, n, lifecycle.FinalizerOrphan, nil)
		})
	case 4:
		if c := r.drawContainer(t); c != nil {
			return act(VerbDrain, func(ctx *lifecycle.Context) []lifecycle.Event { return lifecycle.Drain(ctx, c, n) })
		}
	case 5:
		if c := r.drawContainer(t); c != nil {
			return act(VerbFinish, func(ctx *lifecycle.Context) []lifecycle.Event {
				return lifecycle.Finish(ctx, c, lifecycle.FinalizerContents, nil)
			})
		}
	}
	return act(VerbFinish, func(*lifecycle.Context) []lifecycle.Event {
		return r.Finish(n, lifecycle.FinalizerForeground)
	})
}
