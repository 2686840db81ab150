package fake_test

import (
	"github.com/coppice-gc/coppice/client"
)

// initializerSteps have a Pod wait for its initializers.
var initializerSteps = steps(
	step{"create", func(w *world) string {
		o := w.new("a")
		o.Metadata.Initializers = initializers("one.example.com")
		return w.reply(w.c.Resource(configMaps, "shop").Create(w.ctx, o))
	}},
	step{"get", func(w *world) string { return w.reply(w.c.Resource(configMaps, "shop").Get(w.ctx, "a")) }},
	step{"initialize", func(w *world) string {
		o := w.get(configMaps, "shop", "a")
		o.Metadata.Initializers = nil
		return w.reply(w.c.Resource(configMaps, "shop").Update(w.ctx, o))
	}},
	step{"get", func(w *world) string { return w.reply(w.c.Resource(configMaps, "shop").Get(w.ctx, "a")) }},
)

// importSteps import objects with their uids.
var importSteps = steps(
	step{"import a dependent", func(w *world) string {
		o := w.new("dependent")
		o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c13"
		o.Metadata.OwnerReferences = []*client.OwnerReference{{ApiVersion: "apps/v1", Kind: "Deployment", Name: "x", Uid: "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c14"}}
		return w.results(w.c.Resource(configMaps, "shop").ImportBatch(w.ctx, "session", []*client.Object{o}))
	}},
	step{"import in no session", func(w *world) string {
		return w.results(w.c.Resource(configMaps, "shop").ImportBatch(w.ctx, "a b", []*client.Object{w.new("x")}))
	}},
	step{"import the owner", func(w *world) string {
		o := w.new("x")
		o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c14"
		return w.results(w.c.Resource(deployments, "shop").ImportBatch(w.ctx, "session", []*client.Object{o}, client.CloseSession(true)))
	}},
	remove(deployments, "x"),
)

// restoreSteps create objects again that were deleted.
var restoreSteps = steps(
	create(deployments, "other", nil),
	step{"restore a dependent", func(w *world) string {
		o := w.new("dependent")
		o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c13"
		o.Metadata.OwnerReferences = []*client.OwnerReference{{ApiVersion: "apps/v1", Kind: "Deployment", Name: "x", Uid: "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c14"}}
		return w.results(w.c.Resource(configMaps, "shop").RestoreBatch(w.ctx, "session", []*client.Restored{{Object: o, Deletion: 1}}))
	}},
	step{"restore after no deletion", func(w *world) string {
		o := w.new("y")
		o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c15"
		return w.results(w.c.Resource(configMaps, "shop").RestoreBatch(w.ctx, "session", []*client.Restored{{Object: o}}))
	}},
	step{"restore the owner", func(w *world) string {
		o := w.new("x")
		o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c14"
		return w.results(w.c.Resource(deployments, "shop").RestoreBatch(w.ctx, "session", []*client.Restored{{Object: o, Deletion: 1}}, client.CloseSession(true)))
	}},
	step{"give a reference to another owner back", func(w *world) string {
		o := w.get(configMaps, "shop", "dependent")
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(w.get(deployments, "shop", "other")))
		return w.results(w.c.Resource(configMaps, "shop").RestoreBatch(w.ctx, "session", []*client.Restored{{Object: o, Deletion: 1}}, client.CloseSession(true)))
	}},
	remove(deployments, "x"),
	remove(deployments, "other"),
	step{"restore with the old uid", func(w *world) string {
		o := w.new("x")
		o.Metadata.Uid = "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c14"
		return w.results(w.c.Resource(deployments, "shop").RestoreBatch(w.ctx, "session", []*client.Restored{{Object: o, Deletion: 1}}, client.CloseSession(true)))
	}},
)
