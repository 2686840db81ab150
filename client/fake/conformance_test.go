package fake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
)

// step is an operation, which returns its result as text.
type step struct {
	name string
	do   func(w *world) string
}

// TestConformance carries out the same operations in a fake and in a real realm: replies,
// errors, revisions and objects are equal, apart from uids, times and the revision
// at which the realms begin.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			imitated, real := newWorld(t, ctx, fake.New()), newWorld(t, ctx, coppicetest.Start(t))
			for _, s := range story.steps {
				before := []uint64{revision(imitated), revision(real)}
				want, got := s.do(real), s.do(imitated)
				if want != got {
					t.Fatalf("%s: the fake returned\n%s\nwant\n%s", s.name, got, want)
				}
				if want, got := real.c.Revision()-before[1], imitated.c.Revision()-before[0]; want != got {
					t.Errorf("%s: the fake's revision advanced by %d, want %d", s.name, got, want)
				}
				last := ""
				settled := imitated.state() + "\n" + imitated.work()
				settles, cancel := context.WithTimeout(ctx, 20*time.Second)
				_ = poll.Until(settles, func() (bool, error) {
					last = real.state() + "\n" + real.work()
					return last == settled, nil
				})
				cancel()
				if last != settled {
					t.Fatalf("%s: the fake has\n%s\nwant\n%s", s.name, settled, last)
				}
			}
		})
	}
}

// revision returns the revision of a realm.
func revision(w *world) uint64 {
	s, err := w.c.Status(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.GetRevision()
}

// object returns an object with owners, each "resource/name" in the same namespace or
// cluster-scoped.
func (w *world) new(name string, owners ...string) *client.Object {
	o := &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: "shop"}}
	for _, owner := range owners {
		resource, of, _ := strings.Cut(owner, "/")
		found := w.get(client.ParseResource(resource), "shop", of)
		if err := client.SetOwnerReference(found, o, client.WithBlockOwnerDeletion(true)); err != nil {
			w.t.Fatal(err)
		}
	}
	return o
}

func (w *world) get(r client.Resource, namespace, name string) *client.Object {
	o, err := w.c.Resource(r, namespace).Get(w.ctx, name, client.IncludeUninitialized(true))
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// create returns the step that creates an object in namespace shop.
func create(r client.Resource, name string, finalizers []string, owners ...string) step {
	return step{"create " + r.String() + "/" + name, func(w *world) string {
		o := w.new(name, owners...)
		o.Metadata.Finalizers = finalizers
		return w.reply(w.c.Resource(r, "shop").Create(w.ctx, o))
	}}
}

// remove returns the step that deletes an object in namespace shop.
func remove(r client.Resource, name string, opts ...client.DeleteOption) step {
	return step{"delete " + r.String() + "/" + name, func(w *world) string {
		d, err := w.c.Resource(r, "shop").Delete(w.ctx, name, opts...)
		if err != nil {
			return w.failure(err)
		}
		return w.deleted([]client.DeleteResult{*d}, nil)
	}}
}

// finalize returns the step that removes a finalizer from an object in namespace shop.
func finalize(r client.Resource, name, finalizer string) step {
	return step{"remove " + finalizer + " from " + name, func(w *world) string {
		return w.reply(w.c.Resource(r, "shop").RemoveFinalizer(w.ctx, name, finalizer))
	}}
}

// family creates web above rs, and rs above a and b.
func family(finalizers ...string) []step {
	return []step{
		create(deployments, "web", nil),
		create(replicaSets, "rs", finalizers, "deployments.apps/web"),
		create(pods, "a", nil, "replicasets.apps/rs"),
		create(pods, "b", nil, "replicasets.apps/rs"),
	}
}

func steps(parts ...any) (all []step) {
	for _, p := range parts {
		switch p := p.(type) {
		case step:
			all = append(all, p)
		case []step:
			all = append(all, p...)
		default:
			panic(fmt.Sprintf("%T", p))
		}
	}
	return all
}

const external = "example.com/bucket"

var stories = []struct {
	name  string
	steps []step
}{
	{"objects", steps(
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
	)},
	{"background", steps(family(external), remove(deployments, "web"), finalize(replicaSets, "rs", external))},
	{"foreground", steps(family(external), remove(deployments, "web", client.Foreground), finalize(replicaSets, "rs", "example.com/other"), finalize(replicaSets, "rs", external))},
	{"orphan", steps(family(), remove(replicaSets, "rs", client.Orphan), remove(deployments, "web"))},
	{"two owners", steps(
		create(deployments, "one", nil), create(deployments, "two", nil),
		create(configMaps, "c", nil, "deployments.apps/one", "deployments.apps/two"),
		remove(deployments, "one"), remove(deployments, "two"),
	)},
	{"wrong owners", steps(
		step{"absent", func(w *world) string {
			o := w.new("absent")
			o.Metadata.OwnerReferences = []*client.OwnerReference{{ApiVersion: "apps/v1", Kind: "Deployment", Name: "x", Uid: "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c11"}}
			return w.reply(w.c.Resource(configMaps, "shop").Create(w.ctx, o))
		}},
		step{"unknown kind", func(w *world) string {
			o := w.new("unknown")
			o.Metadata.OwnerReferences = []*client.OwnerReference{{ApiVersion: "example.com/v1", Kind: "Site", Name: "x", Uid: "0b36b2bd-7c35-4f2d-8a2c-6a4f2a1b9c12"}}
			return w.reply(w.c.Resource(configMaps, "shop").Create(w.ctx, o))
		}},
		step{"resolve", func(w *world) string {
			return w.graph(w.c.Resource(configMaps, "shop").Resolve(w.ctx, []string{"unknown"}, client.FollowOwners(true)))
		}},
	)},
	{"cycle", steps(
		create(configMaps, "a", nil), create(configMaps, "b", nil, "configmaps/a"),
		step{"close the cycle", func(w *world) string {
			o := w.new("a", "configmaps/b")
			return w.reply(w.c.Resource(configMaps, "shop").Update(w.ctx, o))
		}},
		remove(configMaps, "a", client.Foreground),
	)},
	{"agent", steps(
		step{"create a pod on a node", func(w *world) string {
			o := w.new("p")
			o.Spec = []byte(`{"nodeName":"n1","terminationGracePeriodSeconds":7}`)
			return w.reply(w.c.Resource(pods, "shop").Create(w.ctx, o))
		}},
		remove(pods, "p"),
		remove(pods, "p", client.GracePeriod(3*time.Second)),
		remove(pods, "p", client.GracePeriod(0)),
	)},
	{"namespace", steps(
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
	)},
	{"kind", steps(
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
	)},
	{"initializers", steps(
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
	)},
	{"import", steps(
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
	)},
	{"plan", steps(
		family(external),
		create(deployments, "other", nil),
		create(configMaps, "shared", nil, "deployments.apps/web", "deployments.apps/other"),
		step{"plan", func(w *world) string { return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})) }},
		step{"plan in the foreground", func(w *world) string {
			return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"}, client.Foreground))
		}},
		step{"plan to orphan", func(w *world) string {
			return w.plan(w.c.Resource(replicaSets, "shop").Plan(w.ctx, []string{"rs"}, client.Orphan))
		}},
		step{"plan nothing", func(w *world) string { return w.plan(w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"z"})) }},
		step{"resolve", func(w *world) string {
			return w.graph(w.c.Resource(replicaSets, "shop").Resolve(w.ctx, []string{"rs"}, client.FollowOwners(true), client.FollowDependents(true)))
		}},
		step{"delete by an old plan", func(w *world) string {
			p, err := w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})
			if err != nil {
				return w.failure(err)
			}
			if _, err := w.c.Resource(configMaps, "shop").Create(w.ctx, w.new("more", "deployments.apps/web")); err != nil {
				return w.failure(err)
			}
			_, err = w.c.Resource(deployments, "shop").Delete(w.ctx, "web", client.ByPlan(p.GetPlan()))
			return strings.SplitN(w.failure(err), ":", 2)[0]
		}},
		step{"delete by plan", func(w *world) string {
			p, err := w.c.Resource(deployments, "shop").Plan(w.ctx, []string{"web"})
			if err != nil {
				return w.failure(err)
			}
			d, err := w.c.Resource(deployments, "shop").Delete(w.ctx, "web", client.ByPlan(p.GetPlan()))
			if err != nil {
				return w.failure(err)
			}
			return w.deleted([]client.DeleteResult{*d}, nil)
		}},
		finalize(replicaSets, "rs", external),
	)},
}
