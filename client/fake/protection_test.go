package fake_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// protect returns the step that protects objects in namespace shop.
func protect(r client.Resource, reason string, names ...string) step {
	return step{fmt.Sprintf("protect %s/%s", r, names), func(w *world) string {
		var reply client.Reply
		text := w.results(w.c.Resource(r, "shop").Protect(w.ctx, names, reason, client.ReplyInto(&reply)))
		return fmt.Sprint(text, reply.Warnings)
	}}
}

// unprotect returns the step that removes the protection of objects in namespace shop.
func unprotect(r client.Resource, name string, opts ...client.ProtectOption) step {
	return step{fmt.Sprintf("unprotect %s/%s", r, name), func(w *world) string {
		var reply client.Reply
		text := w.results(w.c.Resource(r, "shop").Unprotect(w.ctx, []string{name}, "no longer needed", append(opts, client.ReplyInto(&reply))...))
		return fmt.Sprint(text, reply.Warnings)
	}}
}

// patch returns the step that patches an object in namespace shop.
func patch(r client.Resource, name, patch string) step {
	return step{"patch " + r.String() + "/" + name, func(w *world) string {
		return w.reply(w.c.Resource(r, "shop").Patch(w.ctx, name, []byte(patch)))
	}}
}

var protectionSteps = steps(
	family(),
	step{"answer notices that no policy has given", func(w *world) string {
		of, later := w.c.Resource(replicaSets, "shop"), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
		var said []string
		for _, err := range []error{
			of.Veto(w.ctx, "rs", later, "still in use"), of.Veto(w.ctx, "none", later, "still in use"), of.Veto(w.ctx, "rs", later, ""),
			of.Agree(w.ctx, "rs", "unused"), of.Agree(w.ctx, "rs", "unused", client.IfUID("other")),
		} {
			said = append(said, w.failure(err))
		}
		return strings.Join(said, "\n")
	}},
	protect(replicaSets, "", "rs"),
	protect(replicaSets, "production", "rs", "none"),
	protect(replicaSets, "production", "rs"),
	protect(replicaSets, "production", "none"),
	remove(replicaSets, "rs"),
	step{"plan the deletion of a protected object", func(w *world) string {
		return w.plan(w.c.Resource(replicaSets, "shop").Plan(w.ctx, []string{"rs"}))
	}},
	step{"plan", func(w *world) string { return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})) }},
	step{"plan in the foreground", func(w *world) string {
		return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"}, client.Foreground))
	}},
	patch(replicaSets, "rs", `{"metadata":{"protection":null}}`),
	patch(replicaSets, "rs", `{"metadata":{"protection":{"reason":"mine"}}}`),
	patch(replicaSets, "rs", `{"metadata":{"labels":{"a":"b"}}}`),
	patch(pods, "a", `{"metadata":{"protection":{"reason":"mine"}}}`),
	step{"create with a protection", func(w *world) string {
		var reply client.Reply
		o := w.new("c")
		o.Metadata.Protection = &client.Protection{Reason: "mine"}
		o, err := w.c.Resource(configMaps, "shop").Create(w.ctx, o, client.ReplyInto(&reply))
		return fmt.Sprint(reply.Warnings, w.reply(o, err))
	}},
	step{"delete a collection of one", func(w *world) string {
		return w.deleted(w.c.Resource(replicaSets, "shop").DeleteCollection(w.ctx, "a=b"))
	}},
	protect(configMaps, "data", "c"),
	create(configMaps, "d", nil),
	step{"delete everything", func(w *world) string { return w.deleted(w.c.Resource(configMaps, "shop").DeleteEverything(w.ctx)) }},
	remove(deployments, "web", client.Foreground),
	step{"resolve", func(w *world) string {
		return w.graph(w.c.Resource(deployments, "shop").Resolve(w.ctx, []string{"web"}, client.FollowDependents(true)))
	}},
	step{"plan to unprotect", func(w *world) string {
		return w.plan(w.c.Resource(replicaSets, "shop").Plan(w.ctx, []string{"rs"}, client.PlanUnprotect(true)))
	}},
	unprotect(replicaSets, "rs", client.DryRun(true)),
	unprotect(replicaSets, "rs"),
	step{"create the namespace", func(w *world) string {
		return w.reply(w.c.Resource(namespaces, "").Create(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "shop"}}))
	}},
	step{"plan to delete the namespace", func(w *world) string { return w.plan(w.c.Resource(namespaces, "").Plan(w.ctx, []string{"shop"})) }},
	step{"delete the namespace", func(w *world) string {
		return w.deleted(w.c.Resource(namespaces, "").DeleteBatch(w.ctx, []string{"shop"}))
	}},
	step{"resolve the namespace", func(w *world) string { return w.graph(w.c.Resource(namespaces, "").Resolve(w.ctx, []string{"shop"})) }},
	unprotect(configMaps, "c"),
	step{"delete objects that can be read as unreadable ones", func(w *world) string {
		var said []string
		for _, name := range []string{"rs", "none"} {
			said = append(said, w.reply(w.c.Resource(replicaSets, "shop").DeleteUnreadable(w.ctx, name, "a test")))
		}
		return fmt.Sprint(append(said, w.reply(w.c.Resource(replicaSets, "shop").DeleteUnreadable(w.ctx, "rs", ""))))
	}},
)
