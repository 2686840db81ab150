//go:build unix

package processes_test

import (
	"fmt"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

const namespace = "shop"

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	replicasets = client.Resource{Group: "apps", Plural: "replicasets"}
	pods        = client.Resource{Plural: "pods"}
)

// tree is a Deployment with ReplicaSets with Pods.
type tree struct {
	d      *deployment
	client *client.Client
	root   *coppicev1.Object
	keeper *coppicev1.Object
	// objects is the number of objects, including the root and without those that are kept.
	objects int
	kept    int
}

// plant creates a tree under the Deployment "web" with a number of ReplicaSets of a number
// of Pods each. Each of the first kept ReplicaSets has one more Pod, which "keeper" owns as
// well.
func (d *deployment) plant(sets, podsEach, kept int) *tree {
	d.t.Helper()
	tr := &tree{d: d, client: d.application(), objects: 1 + sets + sets*podsEach, kept: kept}
	roots := d.create(tr.client, deployments, object("web"), object("keeper"))
	tr.root, tr.keeper = roots[0], roots[1]
	var level []*coppicev1.Object
	for i := range sets {
		level = append(level, object(fmt.Sprintf("web-%d", i), tr.root))
	}
	parents := d.create(tr.client, replicasets, level...)
	level = nil
	for i, set := range parents {
		for j := range podsEach {
			level = append(level, object(fmt.Sprintf("web-%d-%d", i, j), set))
		}
		if i < kept {
			level = append(level, object(fmt.Sprintf("kept-%d", i), set, tr.keeper))
		}
	}
	d.create(tr.client, pods, level...)
	return tr
}

// remove deletes an object.
func (d *deployment) remove(c *client.Client, r client.Resource, name, policy string) {
	d.t.Helper()
	if _, err := c.Resource(r, namespace).Delete(d.ctx, name, client.PropagationPolicy(policy)); err != nil {
		d.t.Fatal(err)
	}
}

func object(name string, owners ...*coppicev1.Object) *coppicev1.Object {
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner, client.WithBlockOwnerDeletion(true)))
	}
	return o
}

// blockedObject returns an object with an external finalizer.
func blockedObject(name string, owners ...*coppicev1.Object) *coppicev1.Object {
	o := object(name, owners...)
	o.Metadata.Finalizers = []string{bus.ExampleFinalizer}
	return o
}

// create creates objects, and returns them as they were created.
func (d *deployment) create(c *client.Client, r client.Resource, objects ...*coppicev1.Object) []*coppicev1.Object {
	d.t.Helper()
	const batch = 500
	var created []*coppicev1.Object
	for len(objects) > 0 {
		n := min(batch, len(objects))
		results, err := c.Resource(r, namespace).CreateBatch(d.ctx, objects[:n])
		must.Succeed(d.t, err)
		for _, result := range results {
			if result.Err != nil {
				d.t.Fatal(result.Err)
			}
			created = append(created, result.Object)
		}
		objects = objects[n:]
	}
	return created
}

// fell deletes the root, in the background.
func (tr *tree) fell() {
	tr.d.t.Helper()
	tr.d.remove(tr.client, deployments, "web", "Background")
}

// gone waits until only the kept objects of the tree exist, without references to removed
// objects.
func (tr *tree) gone() {
	tr.d.t.Helper()
	testkit.WaitFor(tr.d.t, tr.d.ctx, "the end of the cascade", func() bool {
		return len(tr.left(replicasets, 1)) == 0 && len(tr.left(pods, tr.kept+1)) == tr.kept && len(tr.references()) == tr.kept
	})
	for _, r := range tr.references() {
		if r.GetUid() != tr.keeper.GetMetadata().GetUid() {
			tr.d.t.Errorf("what is kept has a reference to %s", r.GetName())
		}
	}
}

// references returns all owner references of the remaining Pods.
func (tr *tree) references() (all []*coppicev1.OwnerReference) {
	tr.d.t.Helper()
	for _, o := range tr.left(pods, tr.kept) {
		all = append(all, o.GetMetadata().GetOwnerReferences()...)
	}
	return all
}

// left returns the objects of a resource, at most limit of them.
func (tr *tree) left(r client.Resource, limit int) []*coppicev1.Object {
	tr.d.t.Helper()
	page, err := tr.client.Resource(r, namespace).ListPage(tr.d.ctx, client.Limit(limit))
	must.Succeed(tr.d.t, err)
	return page.Objects
}
