package fake

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/memrealm"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// maxGraph is the number of objects in a graph if the call has no limit.
const maxGraph = 10000

func (r *resourceClient) Resolve(ctx context.Context, names []string, opts ...client.GraphOption) (*client.Graph, error) {
	return r.resolve(ctx, opts, func(realm *memrealm.Realm, at lifecycle.Key) (uids []uid.UID, err error) {
		if err := checkNames(names...); err != nil {
			return nil, err
		}
		for i, name := range names {
			at.Name = name
			n, refusal := lifecycle.Find(realm, at)
			if refusal != nil {
				refusal.Index = i
				return nil, refusal
			}
			uids = append(uids, n.UID)
		}
		return uids, nil
	})
}

func (r *resourceClient) ResolveUIDs(ctx context.Context, uids []string, opts ...client.GraphOption) (*client.Graph, error) {
	return r.resolve(ctx, opts, func(*memrealm.Realm, lifecycle.Key) (all []uid.UID, err error) {
		for i, text := range uids {
			u, err := uid.Parse(text)
			if err != nil {
				return nil, lifecycle.ErrBadRequest("uids[%d]: %v", i, err)
			}
			all = append(all, u)
		}
		return all, nil
	})
}

func (r *resourceClient) resolve(ctx context.Context, opts []client.GraphOption, find func(*memrealm.Realm, lifecycle.Key) ([]uid.UID, error)) (*client.Graph, error) {
	o := collect(opts, client.GraphOption.ApplyToGraph)
	g := grapher{limit: o.Limit, namespace: r.namespace, reply: &client.Graph{}, seen: map[uid.UID]bool{}}
	if g.limit == 0 {
		g.limit = maxGraph
	}
	err := r.c.read(ctx, o.Reply, func(realm *memrealm.Realm) error {
		at, err := r.key(realm)
		if err != nil {
			return err
		}
		uids, err := find(realm, at)
		if err != nil {
			return err
		}
		g.realm, g.reply.Revision = realm, realm.Revision
		g.all(uids, o.Owners, o.Dependents)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g.reply, nil
}

// grapher computes a graph.
type grapher struct {
	realm     *memrealm.Realm
	limit     int
	namespace string
	reply     *client.Graph
	list      []*lifecycle.Node
	seen      map[uid.UID]bool
}

// all adds objects, then what is above them, then what is below them, each breadth first.
func (g *grapher) all(uids []uid.UID, owners, dependents bool) {
	for _, u := range uids {
		g.add(u, true)
	}
	requested := len(g.list)
	if owners {
		g.follow(func(n *lifecycle.Node) {
			for i := range n.Owners {
				g.add(n.Owners[i].UID, false)
			}
		})
	}
	if dependents {
		g.list = g.list[:requested]
		g.follow(func(n *lifecycle.Node) {
			for _, d := range g.realm.DependentsOf(n.UID) {
				if refersTo(g.realm.Node(d), n) {
					g.add(d, false)
				}
			}
		})
	}
}

// follow visits the list, which grows meanwhile.
func (g *grapher) follow(visit func(*lifecycle.Node)) {
	for rest := g.list; len(rest) > 0; {
		at := len(g.list) - len(rest)
		visit(rest[0])
		rest = g.list[at+1:]
	}
}

// refersTo reports whether d has a valid reference to n.
func refersTo(d, n *lifecycle.Node) bool {
	for i := range d.Owners {
		if lifecycle.Fits(d, &d.Owners[i], n) {
			return true
		}
	}
	return false
}

// add adds an object, unless it does not exist, is in another namespace, or was added.
func (g *grapher) add(u uid.UID, requested bool) {
	n := g.realm.Node(u)
	if n == nil || g.seen[u] || !g.visible(n) {
		return
	}
	if len(g.reply.Nodes) >= g.limit {
		g.reply.Truncated = true
		return
	}
	g.seen[u] = true
	g.list = append(g.list, n)
	counts := lifecycle.Dependents(g.realm, n)
	node := &coppicev1.GraphNode{
		Resource: g.realm.Kinds().OfNode(n).Resource(), Object: lifecycle.Object{Node: n}.API(), Requested: requested,
		Dependents: counts.All, BlockingDependents: counts.Blocking,
		AwaitedGeneration: n.AwaitedGeneration, ObservedGeneration: n.ObservedGeneration,
	}
	if ends := lifecycle.BeginsAfter(g.realm, n); ends > g.realm.Clock {
		node.ImportEnds = int64(ends)
	}
	for i := range n.Owners {
		ref := &n.Owners[i]
		c := lifecycle.Classify(g.realm, n, ref, g.realm.Clock)
		node.Owners = append(node.Owners, &coppicev1.GraphOwner{Class: c.Class, UnknownUntil: int64(c.Until), Why: c.Why(g.realm, n, ref)})
	}
	if until := lifecycle.PodsBefore(g.realm, n); until > g.realm.Clock {
		node.PodsUntil = int64(until)
	}
	if requested {
		node.Protected = g.protectedBelow(n)
		node.Conditions = lifecycle.ProtectedConditions(node.GetProtected())
		if n.Protected() && len(n.Protection.Policies) > 0 {
			node.ProtectedBy = lifecycle.ProtectedBy(g.realm, n)
		}
	}
	for i := range n.Uses {
		node.UseStates = append(node.UseStates, string(lifecycle.StateOf(g.realm, n, &n.Uses[i])))
	}
	node.Users = g.realm.Users(n).All
	for _, u := range g.realm.UsersOf(n) {
		if user := g.realm.Node(u); g.visible(user) && len(node.UsedBy) < 100 {
			node.UsedBy = append(node.UsedBy, &coppicev1.GraphUser{
				Resource: g.realm.Kinds().OfNode(user).Resource(), Namespace: user.Namespace, Name: user.Name, Uid: u.String(), Terminating: user.Terminating(),
			})
		}
	}
	if n.Draining() {
		var contents []*lifecycle.Node
		for _, u := range g.realm.UIDs() {
			if o := g.realm.Node(u); lifecycle.Contains(g.realm, n, o) {
				node.Contents++
				contents = append(contents, o)
			}
		}
		if requested {
			slices.SortFunc(contents, func(a, b *lifecycle.Node) int {
				resource := func(o *lifecycle.Node) string { return g.realm.Kinds().OfNode(o).Resource() }
				return cmp.Or(cmp.Compare(resource(a), resource(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			node.Remaining = lifecycle.Remaining(contents)
		}
	}
	g.reply.Nodes = append(g.reply.Nodes, node)
}

// protectedBelow names the protected objects for which the deletion of n waits.
func (g *grapher) protectedBelow(n *lifecycle.Node) (list []string) {
	for _, u := range g.realm.UIDs() {
		d := g.realm.Node(u)
		waits := n.Draining() && lifecycle.Contains(g.realm, n, d) || n.Waiting() && refersTo(d, n)
		if !waits || !d.Protected() || len(list) == lifecycle.MaxProtectedNamed {
			continue
		}
		said := g.realm.Kinds().OfNode(d).Resource() + "/" + d.Name
		if d.Namespace != "" {
			said += " (" + d.Namespace + ")"
		}
		list = append(list, said)
	}
	return list
}

// visible reports whether the graph may have an object.
func (g *grapher) visible(n *lifecycle.Node) bool {
	return g.namespace == "" || n.Namespace == g.namespace
}
