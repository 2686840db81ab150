package fake_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
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
			imitated, real := newWorld(t, ctx, fake.New()), newWorld(t, ctx, coppicetest.Start(t, client.WithTimeout(testkit.Timeout)))
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
				settles, cancel := context.WithTimeout(ctx, testkit.Timeout)
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
	must.Succeed(w.t, err)
	return s.GetRevision()
}

// object returns an object with owners, each "resource/name" in the same namespace or
// cluster-scoped.
func (w *world) new(name string, owners ...string) *client.Object {
	o := &client.Object{Metadata: &client.ObjectMeta{Name: name, Namespace: "shop"}}
	for _, owner := range owners {
		resource, of, _ := strings.Cut(owner, "/")
		found := w.get(client.ParseResource(resource), "shop", of)
		must.Succeed(w.t, client.SetOwnerReference(found, o, client.WithBlockOwnerDeletion(true)))
	}
	return o
}

func (w *world) get(r client.Resource, namespace, name string) *client.Object {
	o, err := w.c.Resource(r, namespace).Get(w.ctx, name, client.IncludeUninitialized(true))
	must.Succeed(w.t, err)
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
	{"objects", objectSteps},
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
	{"namespace", namespaceSteps},
	{"kind", kindSteps},
	{"initializers", initializerSteps},
	{"import", importSteps},
	{"restore", restoreSteps},
	{"protection", protectionSteps},
	{"uses across namespaces", acrossSteps},
	{"plan", planSteps},
}
