package lookup

import (
	"context"
	"errors"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// resolveAtOnce is the number of objects that one request names.
const resolveAtOnce = 1000

// UIDs calls visit for each existing object with one of these uids, with the classes of its
// owners, in the order of uids.
func (r *Reader) UIDs(ctx context.Context, uids []string, visit func(*coppicev1.GraphNode), opts ...client.GraphOption) error {
	for len(uids) > 0 {
		asked := uids[:min(resolveAtOnce, len(uids))]
		reply, err := r.Anything().ResolveUIDs(ctx, asked, opts...)
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
			last := slices.Index(asked, tree.UIDOf(nodes[len(nodes)-1]))
			uids = slices.Concat(asked[last+1:], uids)
		}
	}
	return nil
}

// Above returns an object and all owners above it, at a revision of at least least. A
// request for a namespace leaves out owners that are not in it, such as cluster-scoped ones.
// Above reads these without a namespace, if the user may: they are optional.
func (r *Reader) Above(ctx context.Context, objects client.ResourceClient, name string, least uint64) (*coppicev1.GraphNode, *tree.Family, error) {
	reply, err := objects.Resolve(ctx, []string{name}, client.FollowOwners(true), client.MinRevision(least))
	if err != nil {
		return nil, nil, err
	}
	above := tree.FamilyIn(reply)
	if above.Whole() {
		return reply.GetNodes()[0], above, nil
	}
	var all *coppicev1.ResolveObjectsReply
	ok, err := r.Optional(ctx, AboutOwners, func(ctx context.Context) (err error) {
		all, err = r.Anything().ResolveUIDs(ctx, []string{tree.UIDOf(reply.GetNodes()[0])}, client.FollowOwners(true), client.MinRevision(reply.GetRevision()))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if ok && len(all.GetNodes()) > 0 {
		return all.GetNodes()[0], tree.FamilyIn(all), nil
	}
	return reply.GetNodes()[0], above, nil
}

// AllUsers adds to an object the users that a request for its namespace leaves out, if the user may
// read them: they are optional.
func (r *Reader) AllUsers(ctx context.Context, n *coppicev1.GraphNode) error {
	const named = 100 // at most, in a reply
	if len(n.GetUsedBy()) >= min(int(n.GetUsers()), named) {
		return nil
	}
	_, err := r.Optional(ctx, AboutUsers, func(ctx context.Context) error {
		all, err := r.Anything().ResolveUIDs(ctx, []string{tree.UIDOf(n)})
		if err == nil && len(all.GetNodes()) == 1 {
			n.Users, n.UsedBy = all.GetNodes()[0].GetUsers(), all.GetNodes()[0].GetUsedBy()
		}
		return err
	})
	return err
}

// maxFamily is the approximate number of objects that Below reads at most.
const maxFamily = 100000

// Below returns objects and their dependents, direct and indirect. If these do not fit into
// one reply, Below requests the dependents of each object of which some are missing. If
// there are more than maxFamily objects, the family is truncated.
func (r *Reader) Below(ctx context.Context, uids []string) (*tree.Family, error) {
	f := tree.NewFamily()
	ask := func(uids []string) (*coppicev1.ResolveObjectsReply, error) {
		reply, err := r.Anything().ResolveUIDs(ctx, uids, client.FollowDependents(true))
		for _, n := range reply.GetNodes() {
			f.Add(n)
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
	for len(again) > 0 && len(f.Nodes) < maxFamily {
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
				if !f.Complete(n) {
					again = append(again, tree.UIDOf(n))
				}
			}
		}
	}
	for _, n := range f.Nodes {
		f.Truncated = f.Truncated || !f.Complete(n)
	}
	return f, nil
}
