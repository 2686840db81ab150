package fake_test

import (
	"github.com/coppice-gc/coppice/client"
)

// namespaceSteps delete a namespace with its contents.
var namespaceSteps = steps(
	step{"create the namespace", func(w *world) string {
		return w.reply(w.c.Resource(namespaces, "").Create(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "shop"}}))
	}},
	family(external),
	step{"delete the namespace", func(w *world) string {
		d, err := w.c.Resource(namespaces, "").Delete(w.ctx, "shop")
		if err != nil {
			return w.failure(err)
		}
		return w.deleted([]client.DeleteResult{*d}, nil)
	}},
	create(configMaps, "late", nil),
	finalize(replicaSets, "rs", external),
)

// kindSteps register a kind, and delete it with its objects.
var kindSteps = steps(
	step{"register", func(w *world) string {
		return w.reply(w.c.Resource(client.KindsResource, "").Create(w.ctx, client.NewKindObject(client.Kind{
			Group: "example.com", Kind: "Site", Plural: "sites", Scope: "Namespaced", Versions: []client.KindVersion{{Name: "v1"}},
		})))
	}},
	create(sites, "a", []string{external}), create(sites, "b", nil), create(configMaps, "c", nil, "sites.example.com/a"),
	step{"withdraw", func(w *world) string {
		d, err := w.c.Resource(client.KindsResource, "").Delete(w.ctx, "sites.example.com")
		if err != nil {
			return w.failure(err)
		}
		return w.deleted([]client.DeleteResult{*d}, nil)
	}},
	create(sites, "late", nil),
	finalize(sites, "a", external),
)
