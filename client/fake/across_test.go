package fake_test

import (
	"strings"

	"github.com/coppice-gc/coppice/client"
)

// share returns the step that sets sharedNamespaces in the realm settings.
func share(namespaces string) step {
	return step{"share " + namespaces, func(w *world) string {
		return w.reply(w.c.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Apply(w.ctx, &client.Object{
			Metadata: &client.ObjectMeta{Name: "settings"}, Spec: []byte(`{"sharedNamespaces":[` + namespaces + `]}`),
		}))
	}}
}

// user returns the object "web" of namespace shop, which uses "net" of namespace infra.
func (w *world) user() *client.Object {
	o := w.new("web")
	client.AddUseAcross(o, &client.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &client.ObjectMeta{Name: "net", Namespace: "infra"}})
	return o
}

func planOf(r client.Resource, namespace, name string) step {
	return step{"plan the deletion of " + name, func(w *world) string { return w.plan(w.c.Resource(r, namespace).Plan(w.ctx, []string{name})) }}
}

var acrossSteps = func() []step {
	namespaces := client.Resource{Plural: "namespaces"}
	apply := func(name string, write func(client.ResourceClient, *world) (*client.Object, error)) step {
		return step{name, func(w *world) string { return w.reply(write(w.c.Resource(configMaps, "shop"), w)) }}
	}
	across := func(r client.ResourceClient, w *world) (*client.Object, error) { return r.ApplyAcross(w.ctx, w.user()) }
	return steps(
		step{"create the namespace", func(w *world) string {
			return w.reply(w.c.Resource(namespaces, "").Create(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "infra"}}))
		}},
		step{"create the used object", func(w *world) string {
			return w.reply(w.c.Resource(configMaps, "infra").Create(w.ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "net"}}))
		}},
		apply("a namespace that is not shared", across),
		share(`"infra"`),
		apply("create", func(r client.ResourceClient, w *world) (*client.Object, error) { return r.Create(w.ctx, w.user()) }),
		apply("apply", func(r client.ResourceClient, w *world) (*client.Object, error) { return r.Apply(w.ctx, w.user()) }),
		apply("apply across", across),
		step{"apply a batch across", func(w *world) string {
			return w.results(w.c.Resource(configMaps, "shop").ApplyAcrossBatch(w.ctx, []*client.Object{w.user(), w.new("near")}))
		}},
		apply("apply what is there", func(r client.ResourceClient, w *world) (*client.Object, error) { return r.Apply(w.ctx, w.user()) }),
		planOf(configMaps, "infra", "net"),
		planOf(namespaces, "", "infra"),
		step{"the users that each namespace sees", func(w *world) string {
			var said []string
			for _, namespace := range []string{"infra", ""} {
				g, err := w.c.Resource(configMaps, namespace).ResolveUIDs(w.ctx, []string{w.get(configMaps, "infra", "net").GetMetadata().GetUid()})
				if err != nil {
					return w.failure(err)
				}
				said = append(said, w.graph(g, nil))
				for _, u := range g.GetNodes()[0].GetUsedBy() {
					said = append(said, "used by "+u.GetNamespace()+"/"+u.GetName())
				}
			}
			return strings.Join(said, "\n")
		}},
		share(``),
		step{"delete the used object", func(w *world) string {
			d, err := w.c.Resource(configMaps, "infra").Delete(w.ctx, "net")
			if err != nil {
				return w.failure(err)
			}
			return w.deleted([]client.DeleteResult{*d}, nil)
		}},
		remove(configMaps, "web"),
	)
}()
