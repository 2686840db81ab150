package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// The contents of a namespace that is being deleted are counted up to a limit; the contents
// of other namespaces are not read.
func TestContents(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	shop := r.Create("namespaces/shop", nil)
	many := r.Create("namespaces/many", nil)
	list := []statetest.Decide{r.Creation("pods/a@shop", nil), r.Creation("secrets/b@shop", nil)}
	for i := range 1001 {
		list = append(list, r.Creation(fmt.Sprintf("configmaps/c-%d@many", i), nil))
	}
	r.Must(list...)
	contents := func(u uid.UID) uint32 {
		snap := r.Snapshot()
		defer snap.Close()
		reply := resolve.Graph(snap, []uid.UID{u}, resolve.GraphOptions{Limit: 1, MaxBytes: 1 << 20, Now: r.Clock})
		return one(t, reply.GetNodes()).GetContents()
	}
	if n := contents(shop); n != 0 {
		t.Errorf("%d in a namespace that stays", n)
	}
	r.Delete("namespaces/shop", "")
	r.Delete("namespaces/many", "")
	if n := contents(shop); n != 2 {
		t.Errorf("%d, want 2", n)
	}
	if n := contents(many); n != 1000 {
		t.Errorf("%d, want as far as it is counted", n)
	}
}

// Of the contents of a container the first 10 are named, those that a program outside of Coppice blocks first.
func TestRemaining(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	shop := r.Create("namespaces/shop", nil)
	var list []statetest.Decide
	for i := range 12 {
		list = append(list, r.Creation(fmt.Sprintf("configmaps/c-%02d@shop", i), nil))
	}
	r.Must(list...)
	blocked := r.Create("secrets/blocked@shop", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	marked := r.Create("secrets/waits@shop", &coppicev1.ObjectMeta{Finalizers: []string{"example.com/x"}})
	r.Delete("namespaces/shop", "")
	r.Delete("secrets/blocked@shop", "")
	resolved := func(uids ...uid.UID) *coppicev1.GraphNode {
		snap := r.Snapshot()
		defer snap.Close()
		reply := resolve.Graph(snap, uids, resolve.GraphOptions{Limit: 10, MaxBytes: 1 << 20, Now: r.Clock})
		return reply.GetNodes()[0]
	}
	n := resolved(shop)
	if n.GetContents() != 14 || len(n.GetRemaining()) != lifecycle.MaxRemaining || n.GetRemaining()[0] != blocked.String() {
		t.Errorf("%d objects, of which %v remain, want %s first", n.GetContents(), n.GetRemaining(), blocked)
	}
	for i, u := range n.GetRemaining()[1:] {
		if name := resolved(uid.MustParse(u)).GetObject().GetMetadata().GetName(); name != fmt.Sprintf("c-%02d", i) {
			t.Errorf("%d: %s", i, name)
		}
	}
	r.Delete("secrets/waits@shop", "")
	if got := resolved(shop).GetRemaining()[:2]; got[0] != blocked.String() || got[1] != marked.String() {
		t.Errorf("%v remain, want %s and %s first", got, blocked, marked)
	}
}

// B2.3: a namespace or a kind that waits for protected objects names them in a condition.
func TestProtectedCondition(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	shop := r.Create("namespaces/shop", nil)
	r.Create("pods/a@shop", nil)
	r.Protect("pods/a@shop")
	full := r.Create("namespaces/full", nil)
	for i := range 11 {
		name := fmt.Sprintf("secrets/s-%02d@full", i)
		r.Create(name, nil)
		r.Protect(name)
	}
	conditions := func(u uid.UID) (text string) {
		snap := r.Snapshot()
		defer snap.Close()
		reply := resolve.Graph(snap, []uid.UID{u}, resolve.GraphOptions{Limit: 1, MaxBytes: 1 << 20, Now: r.Clock})
		for _, c := range one(t, reply.GetNodes()).GetConditions() {
			text += fmt.Sprintf("%s=%s %s: %s\n", c.GetType(), c.GetStatus(), c.GetReason(), c.GetMessage())
		}
		return text
	}
	check(t, conditions(shop), "")
	r.Delete("namespaces/shop", "")
	r.Delete("namespaces/full", "")
	check(t, conditions(shop), "ProtectedObjectsRemain=True Protected: the deletion waits for protected objects: pods/a (shop)\n")
	var named []string
	for i := range 10 {
		named = append(named, fmt.Sprintf("secrets/s-%02d (full)", i))
	}
	check(t, conditions(full), "ProtectedObjectsRemain=True Protected: the deletion waits for protected objects: "+strings.Join(named, ", ")+"; there may be more\n")

	r.Register(lifecycle.KindSpec{
		Group: "example.com", Plural: "widgets", Kind: "Widget", Scope: lifecycle.ScopeNamespaced, Versions: []lifecycle.KindVersion{{Name: "v1"}},
	})
	r.Create("widgets.example.com/w@other", nil)
	r.Protect("widgets.example.com/w@other")
	snap := r.Snapshot()
	kind := snap.Kinds().Resource("widgets.example.com").UID
	snap.Close()
	r.Delete("kinds.coppice.dev/widgets.example.com", "")
	check(t, conditions(kind), "ProtectedObjectsRemain=True Protected: the deletion waits for protected objects: widgets.example.com/w (other)\n")
}

func one(t *testing.T, nodes []*coppicev1.GraphNode) *coppicev1.GraphNode {
	t.Helper()
	if len(nodes) != 1 {
		t.Fatalf("%d nodes, want one", len(nodes))
	}
	return nodes[0]
}
