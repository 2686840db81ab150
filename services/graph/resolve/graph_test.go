package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/resolve"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func graph(t *testing.T, r *statetest.Realm, o resolve.GraphOptions, uids ...string) *coppicev1.ResolveObjectsReply {
	t.Helper()
	var asked []uid.UID
	for _, u := range uids {
		asked = append(asked, uid.MustParse(u))
	}
	if o.Limit == 0 {
		o.Limit = 100
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	o.Now = r.Clock
	snap := r.Snapshot()
	defer snap.Close()
	reply := resolve.Graph(snap, asked, o)
	must.Succeed(t, snap.Err())
	return reply
}

// names are the objects of a reply, those that were asked for with a star.
func names(r *coppicev1.ResolveObjectsReply) string {
	var list []string
	for _, n := range r.GetNodes() {
		name := n.GetObject().GetMetadata().GetName()
		if n.GetRequested() {
			name += "*"
		}
		list = append(list, name)
	}
	if r.GetTruncated() {
		list = append(list, "...")
	}
	return strings.Join(list, " ")
}

// family is web above rs and config, rs above a and b, and api alongside: b has
// both for owners.
func family(t *testing.T) *statetest.Realm {
	t.Helper()
	r := statetest.New(t)
	r.Create("deployments/web", nil)
	r.Create("deployments/api", nil)
	r.Create("replicasets/rs", owned(r, "deployments/web"))
	r.Create("configmaps/config", owned(r, "deployments/web"))
	r.Create("pods/a", owned(r, "replicasets/rs"))
	r.Create("pods/b", owned(r, "replicasets/rs", "deployments/api"))
	return r
}

// The reply has the requested objects first, then their dependents, then their owners.
func TestGraph(t *testing.T) {
	t.Parallel()
	r := family(t)
	for _, c := range []struct {
		o    resolve.GraphOptions
		of   []string
		want string
	}{
		{resolve.GraphOptions{}, []string{"rs", "absent", "a"}, "rs* a*"},
		{resolve.GraphOptions{}, []string{"a", "a"}, "a*"},
		{resolve.GraphOptions{Dependents: true}, []string{"web"}, "web* rs config a b"},
		{resolve.GraphOptions{Owners: true}, []string{"b"}, "b* rs api web"},
		{resolve.GraphOptions{Owners: true, Dependents: true}, []string{"rs"}, "rs* web a b"},
		{resolve.GraphOptions{Dependents: true, Limit: 3}, []string{"web"}, "web* rs config ..."},
		{resolve.GraphOptions{Limit: 1}, []string{"a", "b"}, "a* ..."},
		{resolve.GraphOptions{Dependents: true, MaxBytes: 1}, []string{"web"}, "web* ..."},
	} {
		if got := names(graph(t, r, c.o, c.of...)); got != c.want {
			t.Errorf("%+v of %v: %s, want %s", c.o, c.of, got, c.want)
		}
	}
}

// The reply has the class of each owner and the reason, and the number of each object's
// dependents.
func TestGraphReportsClasses(t *testing.T) {
	t.Parallel()
	r := family(t)
	r.Create("pods/c", &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{r.Reference("replicasets/rs", true)}})
	r.Delete("deployments/api", lifecycle.Background)
	reply := graph(t, r, resolve.GraphOptions{}, "rs", "b")
	rs, b := reply.GetNodes()[0], reply.GetNodes()[1]
	if rs.GetResource() != "replicasets.apps" || rs.GetDependents() != 3 || rs.GetBlockingDependents() != 1 {
		t.Errorf("rs is returned as %v", rs)
	}
	want := []coppicev1.OwnerClass{coppicev1.OwnerClass_OWNER_CLASS_SOLID, coppicev1.OwnerClass_OWNER_CLASS_DANGLING}
	for i, o := range b.GetOwners() {
		if o.GetClass() != want[i] || o.GetWhy() == "" {
			t.Errorf("owner %d of b is returned as %v, want %v", i, o, want[i])
		}
	}
	if why := b.GetOwners()[1].GetWhy(); !strings.Contains(why, "removed at revision 108") {
		t.Errorf("the second owner: %q", why)
	}
}

// The reply has the pending work because of each requested object and because of its
// owners.
func TestGraphReportsPending(t *testing.T) {
	t.Parallel()
	r := family(t)
	r.Delete("deployments/web", lifecycle.Foreground)
	r.Delete("deployments/api", lifecycle.Background)
	reply := graph(t, r, resolve.GraphOptions{Owners: true}, "web", "b")
	web, b := reply.GetNodes()[0], reply.GetNodes()[1]
	if o := web.GetPending(); !o.GetEvaluate() || o.EvaluateAt == nil || o.GetEvaluateAt() != 0 || o.GetSince() != int64(r.Clock) {
		t.Errorf("because of web, which waits, is pending %v", o)
	}
	if o := b.GetOwners()[1].GetPending(); !o.GetEvaluate() {
		t.Errorf("because of api, which is gone, is pending %v", o)
	}
	if o := b.GetOwners()[0].GetPending(); o != nil || b.GetPending() != nil {
		t.Errorf("because of b and rs is pending %v, %v", b.GetPending(), o)
	}
	if rs := reply.GetNodes()[2]; rs.GetOwners()[0].GetPending() != nil {
		t.Errorf("rs was not asked for, and is returned with %v", rs)
	}
}

// An object whose import is not over says until when its built-in finalizers
// wait for the rest; one that has no such finalizer, or whose import is over,
// does not.
func TestGraphReportsImport(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	ending := &coppicev1.ObjectMeta{Finalizers: []string{lifecycle.FinalizerOrphan}, DeletionTimestamp: timestamppb.New(r.Clock.Time())}
	r.Must(r.Importation("configmaps/ending", "session", ending), r.Importation("configmaps/other", "session", nil))
	ends := func(name string) int64 {
		return graph(t, r, resolve.GraphOptions{}, name).GetNodes()[0].GetImportEnds()
	}
	if got, want := ends("ending"), int64(r.Clock.Add(r.Settings().SessionIdle)); got != want {
		t.Errorf("the import ends at %d, want %d", got, want)
	}
	if got := ends("other"); got != 0 {
		t.Errorf("what waits for nothing waits until %d", got)
	}
	r.CloseSession("session")
	if got := ends("ending"); got != 0 {
		t.Errorf("after the import it waits until %d", got)
	}
}

// A request for a namespace returns and follows objects of the namespace only. It does
// not reveal other objects that references name.
func TestGraphOfNamespace(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.Create("nodes/node", nil)
	r.Create("pods/elsewhere@shop", nil)
	r.Create("pods/above", nil)
	r.Create("pods/a", owned(r, "nodes/node", "pods/above"))
	r.Create("pods/stray", owned(r, "pods/elsewhere@shop"))
	r.Create("pods/b@shop", owned(r, "nodes/node"))
	both := resolve.GraphOptions{Owners: true, Dependents: true}
	in := func(namespace string) resolve.GraphOptions {
		o := both
		o.Namespace = namespace
		return o
	}
	for _, c := range []struct {
		o    resolve.GraphOptions
		of   []string
		want string
	}{
		{both, []string{"node"}, "node* a b"},
		{both, []string{"a"}, "a* node above"},
		{in("default"), []string{"a"}, "a* above"},
		{in("shop"), []string{"b"}, "b*"},
		{in("default"), []string{"node", "b", "elsewhere", "stray", "above"}, "stray* above* a"},
	} {
		if got := names(graph(t, r, c.o, c.of...)); got != c.want {
			t.Errorf("%+v of %v: %s, want %s", c.o, c.of, got, c.want)
		}
	}
	owner := graph(t, r, in("default"), "stray").GetNodes()[0].GetOwners()[0]
	if strings.Contains(owner.GetWhy(), "shop") || strings.Contains(owner.GetWhy(), "elsewhere") || owner.GetClass() != lifecycle.Dangling || owner.GetPending() != nil {
		t.Errorf("in the namespace the owner is %v", owner)
	}
	if owner := graph(t, r, both, "stray").GetNodes()[0].GetOwners()[0]; !strings.Contains(owner.GetWhy(), "shop") {
		t.Errorf("in all namespaces the owner is %v", owner)
	}
}

// A request for a namespace looks at a bounded number of users that the reply may not have, for all
// its objects together.
func TestGraphOfUsedInNamespace(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	r.SetSettings(&lifecycle.SettingsSpec{SharedNamespaces: []string{"*"}})
	uses := func(name string) *coppicev1.ObjectMeta {
		return &coppicev1.ObjectMeta{Uses: []*coppicev1.Use{{Kind: "Secret", Name: name, Namespace: "infra"}}}
	}
	r.Create("secrets/first@infra", nil)
	r.Create("secrets/second@infra", nil)
	for i := range 1000 {
		r.Across(fmt.Sprintf("pods/a-%d@shop", i), uses("first"))
	}
	r.Across("pods/b@shop", uses("second"))
	r.Across("pods/c@infra", uses("second"))
	in := resolve.GraphOptions{Namespace: "infra"}
	for _, c := range []struct {
		of    []string
		named int
	}{{[]string{"second"}, 1}, {[]string{"first", "second"}, 0}} {
		nodes := graph(t, r, in, c.of...).GetNodes()
		if last := nodes[len(nodes)-1]; last.GetUsers() != 2 || len(last.GetUsedBy()) != c.named {
			t.Errorf("of %v: %d users, named are %v, want %d", c.of, last.GetUsers(), last.GetUsedBy(), c.named)
		}
	}
}
