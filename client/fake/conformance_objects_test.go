package fake_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
)

// objectSteps write, read and delete objects that own nothing.
var objectSteps = steps(
	create(configMaps, "a", nil),
	create(configMaps, "a", nil),
	create(configMaps, "NOT VALID", []string{"no/valid/finalizer"}),
	create(client.Resource{Plural: "unheard"}, "a", nil),
	step{"get", func(w *world) string { return w.reply(w.c.Resource(configMaps, "shop").Get(w.ctx, "a")) }},
	step{"get nothing", func(w *world) string { return w.reply(w.c.Resource(configMaps, "shop").Get(w.ctx, "z")) }},
	step{"update", func(w *world) string {
		o := w.get(configMaps, "shop", "a")
		o.Extra, o.Metadata.Labels = []byte(`{"data":{"k":"v"}}`), map[string]string{"app": "web"}
		return w.reply(w.c.Resource(configMaps, "shop").Update(w.ctx, o))
	}},
	step{"update to the same", func(w *world) string {
		return w.reply(w.c.Resource(configMaps, "shop").Update(w.ctx, w.get(configMaps, "shop", "a")))
	}},
	step{"update what has changed", func(w *world) string {
		o := w.get(configMaps, "shop", "a")
		o.Metadata.ResourceVersion--
		return w.reply(w.c.Resource(configMaps, "shop").Update(w.ctx, o))
	}},
	step{"update nothing", func(w *world) string { return w.reply(w.c.Resource(configMaps, "shop").Update(w.ctx, w.new("z"))) }},
	step{"updatestatus", func(w *world) string {
		o := w.get(configMaps, "shop", "a")
		o.Status = []byte(`{"ready":true}`)
		return w.reply(w.c.Resource(configMaps, "shop").UpdateStatus(w.ctx, o))
	}},
	step{"patch", func(w *world) string {
		return w.reply(w.c.Resource(configMaps, "shop").Patch(w.ctx, "a", []byte(`{"metadata":{"annotations":{"x":"y"}},"spec":{"n":1}}`)))
	}},
	step{"patch with a wrong uid", func(w *world) string {
		return w.reply(w.c.Resource(configMaps, "shop").Patch(w.ctx, "a", []byte(`{}`), client.IfUID("0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c11")))
	}},
	step{"patch, dry run", func(w *world) string {
		return w.reply(w.c.Resource(configMaps, "shop").Patch(w.ctx, "a", []byte(`{"spec":{"n":2}}`), client.DryRun(true)))
	}},
	step{"apply to nothing", func(w *world) string {
		var reply client.Reply
		o, err := w.c.Resource(configMaps, "shop").Apply(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "b"}, Spec: []byte(`{"n":1}`)}, client.ReplyInto(&reply))
		return fmt.Sprint(reply.Created, reply.Warnings, w.reply(o, err))
	}},
	step{"apply", func(w *world) string {
		var reply client.Reply
		o, err := w.c.Resource(configMaps, "shop").Apply(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "b"}, Spec: []byte(`{"m":2}`)}, client.ReplyInto(&reply))
		return fmt.Sprint(reply.Created, reply.Warnings, w.reply(o, err))
	}},
	step{"apply, dry run", func(w *world) string {
		o, err := w.c.Resource(configMaps, "shop").Apply(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "b"}, Spec: []byte(`{"k":3}`)}, client.DryRun(true))
		return fmt.Sprintf("%s %s", o.GetMetadata().GetApplied(), w.reply(o, err))
	}},
	step{"patch what was applied, dry run", func(w *world) string {
		o, err := w.c.Resource(configMaps, "shop").Patch(w.ctx, "b", []byte(`{"spec":{"k":3}}`), client.DryRun(true))
		return fmt.Sprintf("%s %s", o.GetMetadata().GetApplied(), w.reply(o, err))
	}},
	step{"get what was applied", func(w *world) string {
		o, err := w.c.Resource(configMaps, "shop").Get(w.ctx, "b", client.IncludeApplied(true))
		return fmt.Sprintf("%s %s", o.GetMetadata().GetApplied(), w.reply(o, err))
	}},
	step{"create with an owner twice", func(w *world) string {
		var reply client.Reply
		o := w.new("c", "configmaps/a")
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, proto.CloneOf(o.Metadata.OwnerReferences[0]))
		o, err := w.c.Resource(configMaps, "shop").Create(w.ctx, o, client.ReplyInto(&reply))
		return fmt.Sprint(reply.Warnings, w.reply(o, err))
	}},
	step{"create a batch", func(w *world) string {
		return w.results(w.c.Resource(configMaps, "shop").CreateBatch(w.ctx, []*client.Object{w.new("d"), w.new("a"), w.new("e")}))
	}},
	step{"create a batch, atomic", func(w *world) string {
		return w.results(w.c.Resource(configMaps, "shop").CreateBatch(w.ctx, []*client.Object{w.new("f"), w.new("a")}, client.Atomic(true)))
	}},
	step{"create a batch, atomic, that is free", func(w *world) string {
		return w.results(w.c.Resource(configMaps, "shop").CreateBatch(w.ctx, []*client.Object{w.new("f"), w.new("g")}, client.Atomic(true)))
	}},
	step{"create a batch, dry run", func(w *world) string {
		return w.results(w.c.Resource(configMaps, "shop").CreateBatch(w.ctx, []*client.Object{w.new("h"), w.new("a")}, client.DryRun(true)))
	}},
	step{"create nothing", func(w *world) string { return w.results(w.c.Resource(configMaps, "shop").CreateBatch(w.ctx, nil)) }},
	step{"list", func(w *world) string {
		var names []string
		for o, err := range w.c.Resource(configMaps, "shop").List(w.ctx, client.LabelSelector("app in (web,db)")) {
			names = append(names, w.reply(o, err))
		}
		page, err := w.c.Resource(configMaps, "shop").ListPage(w.ctx, client.Limit(3))
		for err == nil {
			names = append(names, fmt.Sprint(len(page.Objects), page.Objects[0].GetMetadata().GetName(), page.Continue))
			if page.Continue == "" {
				break
			}
			page, err = w.c.Resource(configMaps, "shop").ListPage(w.ctx, client.Limit(3), client.Continue(page.Continue))
		}
		return strings.Join(names, "\n")
	}},
	step{"list with a wrong selector", func(w *world) string {
		for _, err := range w.c.Resource(configMaps, "shop").List(w.ctx, client.LabelSelector("a in")) {
			return w.failure(err)
		}
		return "nothing"
	}},
	step{"name no object", func(w *world) string { return w.refused(nameless(w.ctx, w.c, configMaps, "")) }},
	step{"name no type", func(w *world) string { return w.refused(nameless(w.ctx, w.c, client.Resource{}, "a")) }},
	remove(configMaps, "a", client.IfUID("0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c11")),
	remove(configMaps, "a", client.DryRun(true)),
	remove(configMaps, "a"),
	remove(configMaps, "a"),
	step{"delete a batch", func(w *world) string {
		return w.deleted(w.c.Resource(configMaps, "shop").DeleteBatch(w.ctx, []string{"b", "z", "c"}))
	}},
	step{"delete a collection", func(w *world) string {
		return w.deleted(w.c.Resource(configMaps, "shop").DeleteCollection(w.ctx, "app!=db"))
	}},
	step{"delete everything", func(w *world) string { return w.deleted(w.c.Resource(configMaps, "shop").DeleteEverything(w.ctx)) }},
)

// nameless returns the errors of calls that need the name of a type and of an object.
func nameless(ctx context.Context, c client.Interface, of client.Resource, name string) map[string]error {
	r, errs := c.Resource(of, "shop"), map[string]error{}
	_, errs["get"] = r.Get(ctx, name)
	_, errs["delete"] = r.Delete(ctx, name)
	_, errs["delete a batch"] = r.DeleteBatch(ctx, []string{"b", name})
	_, errs["resolve"] = r.Resolve(ctx, []string{name})
	_, errs["plan"] = r.Plan(ctx, []string{name})
	_, errs["plan parts"] = c.PlanDeletions(ctx, []client.Deletion{{Resource: configMaps, Namespace: "shop", Names: []string{"b"}}, {Resource: of, Namespace: "shop", Names: []string{name}}})
	_, errs["remove a finalizer"] = r.RemoveFinalizer(ctx, name, "example.com/x")
	_, errs["force a finalizer"] = r.ForceFinalizer(ctx, name, "example.com/x", "test")
	_, errs["protect"] = r.Protect(ctx, []string{name}, "test")
	_, errs["unprotect"] = r.Unprotect(ctx, []string{name}, "test")
	_, errs["delete unreadable"] = r.DeleteUnreadable(ctx, name, "test")
	errs["agree"] = r.Agree(ctx, name, "test")
	return errs
}

// refused returns the reasons of errors, which are BadRequest.
func (w *world) refused(errs map[string]error) string {
	w.t.Helper()
	var said []string
	for _, call := range slices.Sorted(maps.Keys(errs)) {
		if !errors.Is(errs[call], client.ErrBadRequest) {
			w.t.Errorf("%s: %v, want %s", call, errs[call], client.ErrBadRequest)
		}
		said = append(said, call)
	}
	return strings.Join(said, ", ")
}
