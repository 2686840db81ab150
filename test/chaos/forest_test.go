package chaos_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// forest is a namespace with forestObjects objects. A cascade deletes three trees of them,
// each with another propagation policy: one so wide that its edges are read in several
// pages, one of three levels, and a small one.
//
//	keeper, which stays
//	wide    ─► 17,000 pods                    every 50th of all pods
//	deep    ─► 30 replica sets ─► 49 pods     belongs to keeper as well
//	parting ─► 1,496 pods
type forest struct {
	ns    string
	trees []*planned // in the order in which they are deleted
	all   [][]*planned
}

const (
	forestObjects = 20000
	widePods      = 17000 // more than one page of edges
	deepSets      = 30
	podsOfSet     = 49
	partingPods   = forestObjects - 4 - widePods - deepSets*(1+podsOfSet)
	keptEvery     = 50
	batch         = 500
)

// planned is an object with its expected state after the cascade.
type planned struct {
	name     string
	resource client.Resource
	owners   []*planned
	policy   string // the propagation policy of its deletion, empty if it is not deleted
	made     *coppicev1.Object
}

// newForest plans a forest. The policies of the trees depend on its number.
func newForest(n int) *forest {
	s := &forest{ns: fmt.Sprintf("forest-%d", n)}
	policies := []string{"Background", "Foreground", "Orphan"}
	root := func(name string) *planned { return &planned{name: name, resource: deployments} }
	keeper := root("keeper")
	var sets, leaves []*planned
	pod := func(owner *planned) {
		p := &planned{name: fmt.Sprintf("%s-%05d", owner.name, len(leaves)), resource: pods, owners: []*planned{owner}}
		if len(leaves)%keptEvery == 0 {
			p.owners = append(p.owners, keeper)
		}
		leaves = append(leaves, p)
	}
	for i, name := range []string{"wide", "deep", "parting"} {
		r := root(name)
		r.policy = policies[(n+i)%len(policies)]
		s.trees = append(s.trees, r)
	}
	for range widePods {
		pod(s.trees[0])
	}
	for i := range deepSets {
		set := &planned{name: fmt.Sprintf("deep-%02d", i), resource: replicaSets, owners: []*planned{s.trees[1]}}
		sets = append(sets, set)
		for range podsOfSet {
			pod(set)
		}
	}
	for range partingPods {
		pod(s.trees[2])
	}
	s.all = [][]*planned{append([]*planned{keeper}, s.trees...), sets, leaves}
	return s
}

// left returns the owners that the object has after the cascade. The object stays if it had
// no owners, still has some, or was orphaned. (A12.7, A12.9, A15)
func (p *planned) left() (owners []string, stays bool) {
	if len(p.owners) == 0 {
		return nil, p.policy == ""
	}
	for _, o := range p.owners {
		if _, ok := o.left(); ok {
			owners = append(owners, o.name)
		}
		stays = stays || o.policy == "Orphan"
	}
	return owners, stays || len(owners) > 0
}

func (p *planned) object() *coppicev1.Object {
	o := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: p.name}}
	for _, owner := range p.owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner.made, client.WithBlockOwnerDeletion(true)))
	}
	return o
}

// create creates the objects, owners first.
func (s *forest) create(ctx context.Context, l *ledger) error {
	for _, level := range s.all {
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(4)
		for part := range slices.Chunk(level, batch) {
			for len(part) > 0 {
				n := slices.IndexFunc(part, func(p *planned) bool { return p.resource != part[0].resource })
				if n < 0 {
					n = len(part)
				}
				now := part[:n]
				part = part[n:]
				g.Go(func() error { return s.createBatch(ctx, l, now) })
			}
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (s *forest) createBatch(ctx context.Context, l *ledger, part []*planned) error {
	objects := make([]*coppicev1.Object, len(part))
	for i, p := range part {
		objects[i] = p.object()
	}
	reply, err := l.do(ctx, creation(part[0].resource, s.ns, objects...))
	if err != nil {
		return err
	}
	for i, r := range reply.GetResults() {
		part[i].made = r.GetObject()
	}
	return nil
}

// delete deletes the root of a tree.
func (s *forest) delete(ctx context.Context, l *ledger, tree *planned) error {
	_, err := l.do(ctx, deletion(tree.resource, s.ns, tree.policy, tree.name))
	return err
}

// check compares the objects that the API lists with the expected ones.
func (s *forest) check(ctx context.Context, c *client.Client) error {
	want := map[string]string{}
	for _, p := range slices.Concat(s.all...) {
		if owners, stays := p.left(); stays {
			want[p.resource.String()+"/"+p.name] = strings.Join(owners, ",")
		}
	}
	found := 0
	for _, r := range []client.Resource{deployments, replicaSets, pods} {
		for o, err := range c.Resource(r, s.ns).List(ctx) {
			if err != nil {
				return err
			}
			found++
			m := o.GetMetadata()
			var owners []string
			for _, ref := range m.GetOwnerReferences() {
				owners = append(owners, ref.GetName())
			}
			key := r.String() + "/" + m.GetName()
			if is, ok := want[key]; !ok || is != strings.Join(owners, ",") || m.GetDeletionTimestamp() != nil {
				return fmt.Errorf("%s: %s is left with owners %v, deleted at %v; it was to be left: %t, with owners %q", s.ns, key, owners, m.GetDeletionTimestamp(), ok, is)
			}
		}
	}
	if found != len(want) {
		return fmt.Errorf("%s: %d objects are left, want %d", s.ns, found, len(want))
	}
	return nil
}
