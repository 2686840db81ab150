package main

import (
	"context"
	"errors"
	"slices"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// resolveAtOnce is how many objects one request asks for.
const resolveAtOnce = 1000

// resolveUIDs calls visit for the objects with these uids, with the classes of
// their owners. Those that are not there are left out.
func (s *session) resolveUIDs(ctx context.Context, uids []string, visit func(*coppicev1.GraphNode)) error {
	for len(uids) > 0 {
		asked := uids[:min(resolveAtOnce, len(uids))]
		reply, err := s.anything().ResolveUIDs(ctx, asked)
		if err != nil {
			return err
		}
		nodes := reply.GetNodes()
		for _, n := range nodes {
			visit(n)
		}
		uids = uids[len(asked):]
		if reply.GetTruncated() {
			// The reply was full. It is in the order of the request.
			if len(nodes) == 0 {
				return errors.New("an object is too large to be resolved")
			}
			last := slices.Index(asked, uidOf(nodes[len(nodes)-1]))
			uids = slices.Concat(asked[last+1:], uids)
		}
	}
	return nil
}

func uidOf(n *coppicev1.GraphNode) string { return n.GetObject().GetMetadata().GetUid() }

// family is objects and how they hang together.
type family struct {
	nodes map[string]*coppicev1.GraphNode // by uid
	// below are the uids of those with a valid reference to an object.
	below map[string][]string
	// truncated: there are more than these.
	truncated bool
}

func newFamily() *family {
	return &family{nodes: map[string]*coppicev1.GraphNode{}, below: map[string][]string{}}
}

// add adds an object, once.
func (f *family) add(n *coppicev1.GraphNode) {
	if f.nodes[uidOf(n)] != nil {
		return
	}
	f.nodes[uidOf(n)] = n
	for i, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
		// References that repeat a uid count once.
		below := f.below[r.GetUid()]
		if again := len(below) > 0 && below[len(below)-1] == uidOf(n); present(n.GetOwners()[i].GetClass()) && !again {
			f.below[r.GetUid()] = append(below, uidOf(n))
		}
	}
}

// resolveAbove returns an object and all owners above it. What a namespace's
// resolve leaves out, cluster-scoped owners among that, is asked for without a
// namespace; a user who may not ask for that sees what is in the namespace.
func (s *session) resolveAbove(ctx context.Context, objects client.ResourceClient, name string, least uint64) (*coppicev1.GraphNode, *family, error) {
	reply, err := objects.Resolve(ctx, []string{name}, client.FollowOwners(true), client.MinRevision(least))
	if err != nil {
		return nil, nil, err
	}
	above := familyIn(reply)
	if above.whole() {
		return reply.GetNodes()[0], above, nil
	}
	var all *coppicev1.ResolveObjectsReply
	ok, err := s.optional(ctx, aboutOwners, func(ctx context.Context) (err error) {
		all, err = s.anything().ResolveUIDs(ctx, []string{uidOf(reply.GetNodes()[0])}, client.FollowOwners(true), client.MinRevision(reply.GetRevision()))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if ok && len(all.GetNodes()) > 0 {
		return all.GetNodes()[0], familyIn(all), nil
	}
	return reply.GetNodes()[0], above, nil
}

func familyIn(reply *coppicev1.ResolveObjectsReply) *family {
	f := newFamily()
	for _, n := range reply.GetNodes() {
		f.add(n)
	}
	f.truncated = reply.GetTruncated()
	return f
}

// whole reports whether all owners of all objects are among them.
func (f *family) whole() bool {
	for _, n := range f.nodes {
		for _, r := range n.GetObject().GetMetadata().GetOwnerReferences() {
			if f.nodes[r.GetUid()] == nil {
				return false
			}
		}
	}
	return true
}

// complete reports whether all dependents of an object are known.
func (f *family) complete(n *coppicev1.GraphNode) bool {
	return uint64(len(f.below[uidOf(n)])) >= n.GetDependents()
}

// present reports whether a reference means an owner that is there.
func present(c coppicev1.OwnerClass) bool {
	return c == coppicev1.OwnerClass_OWNER_CLASS_SOLID || c == coppicev1.OwnerClass_OWNER_CLASS_WAITING
}

// maxFamily is how many objects a command looks at together, about.
const maxFamily = 100000

// resolveBelow returns objects and all that is below them. Where that is more
// than one reply holds, it asks again, one by one, for those whose dependents
// are not all known.
func (s *session) resolveBelow(ctx context.Context, uids []string) (*family, error) {
	f := newFamily()
	ask := func(uids []string) (*coppicev1.ResolveObjectsReply, error) {
		reply, err := s.anything().ResolveUIDs(ctx, uids, client.FollowDependents(true))
		for _, n := range reply.GetNodes() {
			f.add(n)
		}
		return reply, err
	}
	var again []string
	for chunk := range slices.Chunk(uids, resolveAtOnce) {
		reply, err := ask(chunk)
		if err != nil {
			return nil, err
		}
		if reply.GetTruncated() {
			again = append(again, chunk...)
		}
	}
	asked := map[string]bool{}
	for len(again) > 0 && len(f.nodes) < maxFamily {
		uid := again[0]
		again = again[1:]
		if asked[uid] {
			continue
		}
		asked[uid] = true
		reply, err := ask([]string{uid})
		if err != nil {
			return nil, err
		}
		if reply.GetTruncated() {
			for _, n := range reply.GetNodes() {
				if !f.complete(n) {
					again = append(again, uidOf(n))
				}
			}
		}
	}
	for _, n := range f.nodes {
		f.truncated = f.truncated || !f.complete(n)
	}
	return f, nil
}
