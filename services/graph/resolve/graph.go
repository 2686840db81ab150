package resolve

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// GraphOptions bounds what Graph returns.
type GraphOptions struct {
	// Owners and Dependents follow references upwards and downwards.
	Owners, Dependents bool
	// Namespace restricts the reply to objects in it; empty for all objects. Objects
	// elsewhere, including cluster-scoped objects, are neither returned nor followed.
	Namespace string
	// Sees reports whether the reply may have an object of a kind in a namespace; nil for all. Objects that it may not have are
	// counted and not followed.
	Sees func(k *lifecycle.Kind, n *lifecycle.Node) bool
	// Limit is the maximum number of objects. MaxBytes is the approximate maximum size of
	// the reply in bytes.
	Limit, MaxBytes int
	Now             lifecycle.Time
}

// Graph returns objects with the classes of their owners and, if o asks for them, their
// direct and indirect owners and dependents, each object once. The objects of uids come
// first, then the others in breadth-first order. Uids without an object are left out.
func Graph(snap *state.Snapshot, uids []uid.UID, o GraphOptions) *coppicev1.ResolveObjectsReply {
	g := grapher{snap: snap, o: o, reply: &coppicev1.ResolveObjectsReply{Revision: snap.Revision()}, seen: map[uid.UID]bool{}}
	for _, u := range uids {
		g.add(u, true)
	}
	asked := len(g.list)
	if o.Owners {
		g.follow(0, g.owners)
	}
	if o.Dependents {
		above := g.list[asked:]
		g.list = g.list[:asked:asked]
		g.follow(0, g.dependents)
		g.list = append(g.list, above...)
	}
	return g.reply
}

// maxContents is where the count of a container's contents stops, and the maximum number of objects in containers that
// are read for one reply.
const maxContents = 1000

type grapher struct {
	snap  *state.Snapshot
	o     GraphOptions
	reply *coppicev1.ResolveObjectsReply
	list  []*lifecycle.Node
	seen  map[uid.UID]bool
	bytes int
	// looked is the number of objects in containers that were read.
	looked int
	// unnamed is the number of users that were looked at and that the reply may not have.
	unnamed int
}

// follow calls visit for the nodes of the list, including nodes that visit appends.
func (g *grapher) follow(from int, visit func(*lifecycle.Node)) {
	for i := from; i < len(g.list); i++ {
		visit(g.list[i])
	}
}

func (g *grapher) owners(n *lifecycle.Node) {
	for i := range n.Owners {
		g.add(n.Owners[i].UID, false)
	}
}

func (g *grapher) dependents(n *lifecycle.Node) {
	if lifecycle.TraitsOf(g.snap, n)&lifecycle.HasDependents == 0 {
		return
	}
	var found []uid.UID
	g.snap.Dependents(n.UID, g.snap.ValidClaims(n, true), state.Edge{}, func(_ state.Edge, d uid.UID) bool {
		if !g.seen[d] {
			found = append(found, d)
		}
		return len(g.list)+len(found) <= g.o.Limit
	})
	g.snap.Prefetch(found)
	for _, u := range found {
		g.add(u, false)
	}
}

func (g *grapher) add(u uid.UID, requested bool) {
	if g.seen[u] {
		return
	}
	n := g.snap.Node(u)
	if n == nil || !g.here(n) {
		return
	}
	if !g.visible(n) {
		g.seen[u] = true
		g.reply.LeftOut++
		return
	}
	if len(g.list) >= g.o.Limit || g.bytes > g.o.MaxBytes {
		g.reply.Truncated = true
		return
	}
	g.seen[u] = true
	g.list = append(g.list, n)
	node := &coppicev1.GraphNode{
		Resource:  g.snap.Kinds().OfNode(n).Resource(),
		Object:    lifecycle.Object{Node: n}.API(),
		Requested: requested,

		AwaitedGeneration: n.AwaitedGeneration, ObservedGeneration: n.ObservedGeneration,
	}
	if ends := lifecycle.BeginsAfter(g.snap, n); ends > g.o.Now {
		node.ImportEnds = ends.Known()
	}
	pending := func(u uid.UID) *coppicev1.ObjectWork {
		if !requested {
			return nil
		}
		return g.pending(u)
	}
	node.Pending = pending(u)
	if requested {
		node.Protected = g.snap.ProtectedBelow(n, lifecycle.MaxProtectedNamed, g.o.Sees)
		node.Conditions = lifecycle.ProtectedConditions(node.GetProtected())
		if n.Protected() && len(n.Protection.Policies) > 0 {
			node.ProtectedBy = lifecycle.ProtectedBy(g.snap, n)
		}
		node.Notices = Notices(g.snap, n.UID)
	}
	node.Braked = lifecycle.Braked(g.snap, n) &&
		(lifecycle.DueAt(n) <= g.o.Now || lifecycle.Evaluate(g.snap, n, g.o.Now).Decision == lifecycle.Pause)
	if until := lifecycle.PodsBefore(g.snap, n); until > g.o.Now {
		node.PodsUntil = until.Known()
	}
	counts := lifecycle.Dependents(g.snap, n)
	node.Dependents, node.BlockingDependents = counts.All, counts.Blocking
	of := lifecycle.NewClassifier(g.snap, n, g.o.Now)
	for i := range n.Owners {
		r := &n.Owners[i]
		c := of.Classify(r)
		owner := &coppicev1.GraphOwner{Class: c.Class, UnknownUntil: c.Until.Known()}
		if o := g.snap.Node(r.UID); o != nil && !g.visible(o) && !lifecycle.Fits(n, r, o) {
			owner.Why = "the uid belongs to another object, which this reply may not have"
		} else {
			owner.Why, owner.Pending = c.Why(g.snap, n, r), pending(r.UID)
		}
		node.Owners = append(node.Owners, owner)
	}
	for i := range n.Uses {
		node.UseStates = append(node.UseStates, string(lifecycle.StateOf(g.snap, n, &n.Uses[i])))
	}
	g.users(node, n)
	if n.Draining() {
		var read []uid.UID
		g.snap.Contents(n, state.Content{}, func(_ state.Content, u uid.UID) bool {
			node.Contents++
			if requested && g.looked < maxContents {
				read = append(read, u)
				g.looked++
			}
			return node.Contents < maxContents
		})
		node.Remaining = g.remaining(read)
	}
	g.bytes += proto.Size(node)
	g.reply.Nodes = append(g.reply.Nodes, node)
}

// remaining returns the uids of the objects in a container that say what blocks it.
func (g *grapher) remaining(uids []uid.UID) []string {
	g.snap.Prefetch(uids)
	var contents []*lifecycle.Node
	for _, u := range uids {
		if n := g.snap.Node(u); n != nil && g.visible(n) {
			contents = append(contents, n)
		}
	}
	return lifecycle.Remaining(contents)
}

// maxUsers is the maximum number of users that a node of a reply names. maxUnnamed is the maximum
// number of users outside of GraphOptions.Namespace that are read, for all nodes of a reply together.
const (
	maxUsers   = 100
	maxUnnamed = 1000
)

// users adds the users of an object that the reply may have.
func (g *grapher) users(node *coppicev1.GraphNode, n *lifecycle.Node) {
	if node.Users = g.snap.Users(n).All; node.Users == 0 {
		return
	}
	g.snap.EachUser(n, func(u uid.UID) bool {
		if user := g.snap.Node(u); g.visible(user) {
			node.UsedBy = append(node.UsedBy, &coppicev1.GraphUser{
				Resource: g.snap.Kinds().OfNode(user).Resource(), Namespace: user.Namespace, Name: user.Name, Uid: u.String(), Terminating: user.Terminating(),
			})
		} else {
			g.unnamed++
		}
		return len(node.UsedBy) < maxUsers && g.unnamed < maxUnnamed
	})
}

// visible reports whether the reply may have an object.
func (g *grapher) visible(n *lifecycle.Node) bool {
	return g.here(n) && (g.o.Sees == nil || g.o.Sees(g.snap.Kinds().OfNode(n), n))
}

// here reports whether an object is in the namespace of the request.
func (g *grapher) here(n *lifecycle.Node) bool {
	return g.o.Namespace == "" || n.Namespace == g.o.Namespace
}

// pending returns the pending work because of a uid, nil if there is none.
func (g *grapher) pending(u uid.UID) *coppicev1.ObjectWork {
	row, ok := g.snap.Pending(u)
	if !ok {
		return nil
	}
	o := &coppicev1.ObjectWork{
		Since: int64(row.Since), Evaluate: row.Evaluate, Orphan: row.Orphan, Finish: row.Finish, Unexamined: row.Examine, Terminate: row.Terminate, Finalize: row.Finalize,
	}
	if at := int64(row.EvaluateAt); row.Evaluate && row.EvaluateAt != lifecycle.Never {
		o.EvaluateAt = &at
	}
	return o
}
