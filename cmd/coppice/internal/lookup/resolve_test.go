package lookup_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup/lookuptest"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/tree"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// small is a client of which each reply has at most two objects.
type small struct {
	*lookuptest.Fake
	requests int
}

type smallResource struct {
	client.ResourceClient
	c *small
}

func (c *small) Resource(r client.Resource, namespace string) client.ResourceClient {
	return smallResource{c.Fake.Resource(r, namespace), c}
}

func (r smallResource) ResolveUIDs(ctx context.Context, uids []string, opts ...client.GraphOption) (*client.Graph, error) {
	r.c.requests++
	return r.ResourceClient.ResolveUIDs(ctx, uids, append(opts, client.Limit(2))...)
}

// Objects that do not fit into one reply are read with several, each object once.
func TestTruncatedReplies(t *testing.T) {
	t.Parallel()
	realm, known, _ := lookuptest.New(t)
	web := realm.Create(t, "deployments.apps", "web", nil)
	uids := []string{web.GetMetadata().GetUid()}
	for i := range 5 {
		o := realm.Create(t, "configmaps", fmt.Sprintf("c%d", i), nil, web)
		uids = append(uids, o.GetMetadata().GetUid())
	}
	c := &small{Fake: realm}
	r := lookup.New(c, known.Kinds, &strings.Builder{}, time.Minute, time.Now)
	var got []string
	must.Succeed(t, r.UIDs(t.Context(), append([]string{"absent"}, uids...), func(n *coppicev1.GraphNode) { got = append(got, tree.UIDOf(n)) }))
	if !slices.Equal(got, uids) {
		t.Errorf("read %v, want %v", got, uids)
	}
	if c.requests != 3 {
		t.Errorf("%d requests", c.requests)
	}
	f, err := r.Below(t.Context(), uids[:1])
	must.Succeed(t, err)
	if len(f.Nodes) == 0 || f.Nodes[uids[0]] == nil || !f.Truncated {
		t.Errorf("%d objects, truncated %t: no reply has more than two", len(f.Nodes), f.Truncated)
	}
	if f, err = known.Below(t.Context(), uids[:1]); err != nil || len(f.Nodes) != len(uids) || f.Truncated {
		t.Errorf("%d objects, truncated %t, error %v; want %d", len(f.Nodes), f.Truncated, err, len(uids))
	}
}

// Owners outside the namespace are read too.
func TestAbove(t *testing.T) {
	t.Parallel()
	realm, r, notes := lookuptest.New(t)
	nodes := realm.Resource(client.Resource{Plural: "nodes"}, "")
	node, err := nodes.Create(t.Context(), &client.Object{Metadata: &client.ObjectMeta{Name: "n1"}})
	must.Succeed(t, err)
	rs := realm.Create(t, "replicasets.apps", "web", nil, node)
	realm.Create(t, "configmaps", "c", nil, rs)
	n, above, err := r.Above(t.Context(), realm.Resource(client.Resource{Plural: "configmaps"}, "shop"), "c", 0)
	must.Succeed(t, err)
	if got := tree.KeyOfNode(n); got != "configmaps/c" {
		t.Errorf("the object is %s", got)
	}
	if above.Nodes[node.GetMetadata().GetUid()] == nil || above.Nodes[rs.GetMetadata().GetUid()] == nil || !above.Whole() {
		t.Errorf("%d objects; the owners are not all there", len(above.Nodes))
	}
	if notes.Len() > 0 {
		t.Errorf("notes %q", notes.String())
	}
}
