package trust_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/nightly"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// layer says what enforces a users file in a test.
type layer string

const (
	both      layer = "both"
	graphOnly layer = "graph service" // NATS lets the users publish all requests
	natsOnly  layer = "NATS"          // the graph service has a file that allows everything
	cluster   layer = "three servers" // both, on a cluster
	tokens    layer = "JWT"           // both, with accounts by JWT
)

var usersFiles = flag.Int("users", 5, "number of users files that TestUsersFiles draws")

// Users of drawn users files can do what their rules allow, and nothing else: each verb on kinds and namespaces inside and outside of
// the rules. A refused request changes nothing, and no reply reveals an object that the user may not get.
func TestUsersFiles(t *testing.T) { //nolint:tparallel // the files come one at a time
	t.Parallel()
	for i := range *usersFiles {
		for _, by := range []layer{both, graphOnly, natsOnly, cluster, tokens} {
			if by != both && i%5 != 0 {
				continue // it is slower, or the rules are the same
			}
			t.Run(fmt.Sprintf("file %d, by %s", i, by), func(t *testing.T) { // one at a time: other tests of the package run, too
				testUsersFile(t, by, drawUsers(rand.New(rand.NewPCG(nightly.Seed(t), uint64(i)))))
			})
		}
	}
}

// The kinds and namespaces of the objects. Nodes have no namespace.
var (
	ofUsers         = []string{"configmaps", "secrets", "deployments.apps", "nodes"}
	namespacesOfAll = []string{"shop", "team-a", "prod"}
)

// drawUsers draws a users file.
func drawUsers(r *rand.Rand) string {
	some := func(from ...string) string {
		var list []string
		for range 1 + r.IntN(3) {
			if one := from[r.IntN(len(from))]; !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
		return `"` + strings.Join(list, `", "`) + `"`
	}
	rule := func() string {
		s := "verbs: [" + some("get", "list", "watch", "read", "write", "create", "update", "patch", "apply", "delete", "deletecollection", "past", "import", "protect", "retryparked", "updatestatus") + "]"
		if r.IntN(4) > 0 {
			s += ", kinds: [" + some("configmaps", "secrets", "deployments.apps", "nodes", "*.apps", "*") + "]"
		}
		if r.IntN(4) > 0 {
			s += ", namespaces: [" + some("shop", "team-*", "prod", "_", "*") + "]"
		}
		return "{" + s + "}"
	}
	var b strings.Builder
	b.WriteString("version: 1\nnamespaces: [shop, team-a, prod]\nroles:\n  own:\n    - " + rule() + "\nusers:\n")
	for i := range 3 {
		fmt.Fprintf(&b, "  u%d:\n    may:\n", i)
		for range 1 + r.IntN(3) {
			b.WriteString("      - " + rule() + "\n")
		}
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "    roles: [%s]\n", some("own", "viewer", "application", "reader"))
		}
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, "    namespaces: [%s]\n", some("shop", "team-*", "_"))
		}
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "    kinds: [%s]\n", some("configmaps", "deployments.apps", "secrets"))
		}
	}
	return b.String()
}

// owned is an object of the test, with the texts that reveal its name and its value.
type owned struct {
	kind, namespace, name, value, uid string
	gone                              bool
}

func testUsersFile(t *testing.T, by layer, text string) {
	t.Helper()
	f, err := access.Parse("users.yaml", []byte(text))
	must.Succeed(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(text)
		}
	})
	config := allinone.Config{Auth: true, Users: f}
	var r *realm
	switch by {
	case both:
	case cluster:
		r = startCluster(t, f)
	case tokens:
		r = startJWT(t, 1, f).realm
	case graphOnly:
		config.Users = nil
		for name := range f.Users {
			config.Roles = append(config.Roles, everyRequest(name))
		}
		config.Graph = func(g *graph.Config) { g.Access = &access.Current{}; g.Access.Set(f.Table()) }
	case natsOnly:
		config.Graph = func(g *graph.Config) { g.Access.Set(permissive(t, f).Table()) }
	}
	if r == nil {
		r = startWith(t, config)
	}
	objects := r.ownObjects()
	for _, user := range slices.Sorted(maps.Keys(f.Users)) {
		p := &prober{realm: r, nc: r.conn(user), f: f, user: user, by: by}
		before := r.revision()
		for _, kind := range ofUsers {
			for _, ns := range append([]string{""}, namespacesOfAll...) {
				if ns == "" || kind != "nodes" {
					p.probe(kind, ns, objects)
				}
			}
		}
		p.aboutRealm(objects)
		if after := r.revision(); after != before {
			t.Errorf("user %s: revision %d became %d, and every allowed command was a dry run", user, before, after)
		}
		if by != natsOnly {
			p.revealed(objects)
		}
	}
}

// everyRequest returns the role of a user that may publish all requests as its actor.
func everyRequest(user string) bus.Role {
	r := bus.OperatorRole(user, bus.AnyRealm)
	return bus.UserRole(user, "all requests", r.Publish, nil)
}

// permissive returns a users file that allows the users of a file everything.
func permissive(t *testing.T, f *access.File) *access.File {
	t.Helper()
	text := "version: 1\nusers:\n"
	for name := range f.Users {
		text += "  " + name + ": {roles: [operator]}\n"
	}
	all, err := access.Parse("all.yaml", []byte(text))
	must.Succeed(t, err)
	return all
}

func (r *realm) revision() uint64 {
	r.TB.Helper()
	page, err := r.Resource(client.Resource{Plural: "nodes"}, "").ListPage(r.Ctx)
	must.Succeed(r.TB, err)
	return page.Revision
}

// ownObjects creates two objects of each kind in each namespace, of which one is deleted again, with an owner that has no namespace, a
// warning, and parked work.
func (r *realm) ownObjects() (list []owned) {
	r.TB.Helper()
	node := &client.Object{}
	for _, kind := range slices.Backward(ofUsers) {
		for _, ns := range append([]string{""}, namespacesOfAll...) {
			if (ns == "") != (kind == "nodes") {
				continue
			}
			for _, gone := range []bool{false, true} {
				n := len(list)
				of := owned{kind: kind, namespace: ns, name: fmt.Sprintf("name-%d-%s", n, strings.Repeat("q", 9)), value: fmt.Sprintf("value-%d-%s", n, strings.Repeat("z", 9)), gone: gone}
				o := &client.Object{Metadata: &client.ObjectMeta{Name: of.name, Annotations: map[string]string{"example.com/note": of.value}, Finalizers: []string{"example.com/bucket"}}}
				if kind != "nodes" {
					o.Metadata.OwnerReferences = []*client.OwnerReference{client.NewOwnerReference(node)}
				}
				created, err := r.Resource(client.ParseResource(kind), ns).Create(r.Ctx, o)
				must.Succeed(r.TB, err)
				if of.uid = created.GetMetadata().GetUid(); node.Metadata == nil {
					node = created
				}
				r.park(of)
				r.warn(of)
				list = append(list, of)
			}
		}
	}
	for _, of := range list {
		if of.gone && of.kind != "nodes" {
			c := r.Resource(client.ParseResource(of.kind), of.namespace)
			if _, err := c.ForceFinalizer(r.Ctx, of.name, "example.com/bucket", "the test needs a deleted object"); err != nil {
				r.TB.Fatal(err)
			}
			if _, err := c.Delete(r.Ctx, of.name); err != nil {
				r.TB.Fatal(err)
			}
		}
	}
	r.WaitFor("the collector", func() bool {
		status, err := r.Status(r.Ctx)
		return err == nil && status.GetIdle()
	})
	return list
}

// publisher publishes as the administrator.
func (r *realm) publisher() jetstream.JetStream {
	r.TB.Helper()
	js, err := jetstream.New(r.conn(bus.RoleAdmin))
	must.Succeed(r.TB, err)
	return js
}

// park parks the call of the object's finalizer.
func (r *realm) park(of owned) {
	r.TB.Helper()
	res := client.ParseResource(of.kind)
	subject := bus.Finalize{Realm: bus.DefaultRealm, Group: res.Group, Plural: res.Plural, UID: of.uid, Finalizer: "example.com/bucket"}.Subject()
	data, err := proto.Marshal(&coppicev1.Parked{Subject: subject, Error: "cannot clean up " + of.name, Message: []byte(of.name)})
	must.Succeed(r.TB, err)
	_, err = r.publisher().Publish(r.Ctx, bus.ParkedSubject(bus.DefaultRealm, subject, 1), data)
	must.Succeed(r.TB, err)
}

// warn stores a warning about the object.
func (r *realm) warn(of owned) { r.warnOf(of, "Test", "something is wrong with "+of.name) }

func (r *realm) warnOf(of owned, reason, message string) {
	r.TB.Helper()
	res := client.ParseResource(of.kind)
	data, err := manifest.MarshalMessage(&coppicev1.Warning{Resource: of.kind, Namespace: of.namespace, Name: of.name, Uid: of.uid, Reason: reason, Message: message})
	must.Succeed(r.TB, err)
	_, err = r.publisher().Publish(r.Ctx, bus.Warning{Realm: bus.DefaultRealm, Group: res.Group, Plural: res.Plural, Namespace: of.namespace, UID: of.uid, Reason: reason}.Subject(), data)
	must.Succeed(r.TB, err)
}

// prober sends requests as a user.
type prober struct {
	*realm
	nc      *nats.Conn
	f       *access.File
	user    string
	by      layer
	replies bytes.Buffer // all that the user has received
}

// probed are the verbs about a kind.
var probed = []string{
	"get", "list", "watch", "create", "update", "updatestatus", "patch", "apply", "delete", "deletecollection", "resolve", "plan", "import", "protect", "readpast", "readwarnings",
}

// probe sends each verb about a kind in a namespace, as a dry run if it is allowed.
func (p *prober) probe(kind, ns string, objects []owned) {
	p.TB.Helper()
	var names []string
	for _, o := range objects {
		if o.kind == kind && (o.namespace == ns || ns == "") {
			names = append(names, o.name)
		}
	}
	for _, verb := range probed {
		allowed := allows(p.f, p.user, verb, kind, ns)
		res := client.ParseResource(kind)
		at := bus.API{Realm: bus.DefaultRealm, Actor: p.user, Verb: verb, Group: res.Group, Plural: res.Plural, Namespace: ns}
		err := p.ask(at, requestOf(verb, names, allowed))
		if p.by == natsOnly && !allowed && (ns == "" && kind != "nodes") {
			continue // the graph service knows which kinds have namespaces
		}
		if denied := errors.Is(err, client.ErrForbidden); denied == allowed {
			p.TB.Errorf("user %s: %s %s in %q: %v; allowed is %t", p.user, verb, kind, ns, err, allowed)
		}
		asked := p.question(at)
		if denied := errors.Is(asked, client.ErrForbidden); denied == allowed || asked != nil && !denied {
			p.TB.Errorf("user %s: asked about %s %s in %q: %v; allowed is %t", p.user, verb, kind, ns, asked, allowed)
		}
	}
}

// requestOf returns the body of a request of a verb; of a command that is allowed, a dry run.
func requestOf(verb string, names []string, dry bool) proto.Message {
	var objects []*coppicev1.Object
	for _, name := range names {
		objects = append(objects, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Labels: map[string]string{"by": "attacker"}}})
	}
	switch verb {
	case "get":
		return &coppicev1.GetRequest{Names: names, IncludeApplied: true}
	case "list":
		return &coppicev1.ListRequest{}
	case "watch":
		return &coppicev1.WatchRequest{Page: true}
	case "create":
		return &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{{Metadata: &coppicev1.ObjectMeta{Name: "new"}}}, DryRun: dry, ReturnObjects: true}
	case "update", "updatestatus", "apply":
		return &coppicev1.ObjectsRequest{Objects: objects, DryRun: dry, ReturnObjects: true}
	case "patch":
		return &coppicev1.PatchRequest{Patches: []*coppicev1.Patch{{Name: names[0], Patch: []byte(`{"metadata":{"labels":{"by":"attacker"}}}`)}}, DryRun: dry}
	case "delete":
		r := &coppicev1.DeleteRequest{Names: names, Options: &coppicev1.DeleteOptions{}}
		if dry {
			r.Options.DryRun = []string{"All"}
		}
		return r
	case "deletecollection":
		r := &coppicev1.DeleteCollectionRequest{Options: &coppicev1.DeleteOptions{}}
		if dry {
			r.Options.DryRun = []string{"All"}
		}
		return r
	case "resolve":
		return &coppicev1.ResolveObjectsRequest{Names: names[:1], Owners: true, Dependents: true}
	case "plan":
		return &coppicev1.PlanRequest{Delete: &coppicev1.DeleteRequest{Names: names[:1]}}
	case "import":
		return &coppicev1.ImportRequest{Session: "s", Objects: objects[:1], DryRun: dry}
	case "protect":
		return &coppicev1.ProtectRequest{Objects: []*coppicev1.ProtectTarget{{Name: names[0]}}, Reason: "r", DryRun: dry}
	case "readpast":
		return &coppicev1.ReadPastRequest{Read: &coppicev1.ReadPastRequest_List{List: &coppicev1.ListRequest{}}, At: &coppicev1.ReadPastRequest_Revision{Revision: uint64(len(ofUsers))}}
	}
	return &coppicev1.ReadWarningsRequest{}
}

// aboutRealm sends the requests whose subjects name no kind.
func (p *prober) aboutRealm(objects []owned) {
	p.TB.Helper()
	var uids []string
	for _, o := range objects {
		uids = append(uids, o.uid)
	}
	for _, kind := range ofUsers { // by uid, objects of any kind may be asked for
		for _, ns := range append([]string{""}, namespacesOfAll...) {
			res := client.ParseResource(kind)
			at := bus.API{Realm: bus.DefaultRealm, Actor: p.user, Verb: "resolve", Group: res.Group, Plural: res.Plural, Namespace: ns}
			_ = p.ask(at, &coppicev1.ResolveObjectsRequest{Uids: uids, Owners: true, Dependents: true})
		}
	}
	for verb, m := range map[string]proto.Message{
		"readlog": &coppicev1.ReadLogRequest{FromSequence: 1}, "readwarnings": &coppicev1.ReadWarningsRequest{}, "listparked": &coppicev1.ListParkedRequest{Content: true},
		"listfinalizers": &coppicev1.ListFinalizersRequest{}, "status": &coppicev1.StatusRequest{}, "brakes": &coppicev1.BrakesRequest{}, "listconsumers": &coppicev1.ListConsumersRequest{},
		"watchgraph":  &coppicev1.WatchGraphRequest{Page: true},
		"retryparked": &coppicev1.ParkedRequest{Ids: []uint64{1 << 40}},
	} {
		some := slices.ContainsFunc(rulesOf(p.f, p.user), func(r access.Rule) bool { return among(r.Verbs, verb) })
		err := p.ask(bus.RealmAPI(bus.DefaultRealm, p.user, verb), m)
		if denied := errors.Is(err, client.ErrForbidden); denied == some {
			p.TB.Errorf("user %s: %s: %v; allowed is %t", p.user, verb, err, some)
		}
	}
	for _, verb := range []string{"verify", "archive", "resume", "createrealm", "deleterealm", "dropparked", "releasebrake", "forcefinalizer"} {
		at := bus.RealmAPI(bus.DefaultRealm, p.user, verb)
		if bus.NamesFinalizer(verb) {
			at.Finalizer, at.Plural, at.Namespace = "example.com/bucket", "secrets", "shop"
		}
		if err := p.ask(at, &coppicev1.VerifyRequest{}); !errors.Is(err, client.ErrForbidden) {
			p.TB.Errorf("user %s: %s: %v, want Forbidden", p.user, verb, err)
		}
	}
}

// question asks whether a request is allowed.
func (p *prober) question(at bus.API) error {
	p.TB.Helper()
	var reply coppicev1.StatusReply
	return rpc.Send(p.Ctx, p.nc, at.Subject(), nats.Header{bus.HeaderAsk: {"?"}}, nil, &reply)
}

// ask sends a request, and keeps all that comes back. It returns the refusal.
func (p *prober) ask(at bus.API, m proto.Message) error {
	p.TB.Helper()
	data, err := rpc.Encode(m)
	must.Succeed(p.TB, err)
	ctx, stop := rpc.Watched(p.Ctx, p.nc, at.Subject())
	defer stop()
	inbox := p.nc.NewInbox()
	sub, err := p.nc.SubscribeSync(inbox)
	must.Succeed(p.TB, err)
	defer func() { _ = sub.Unsubscribe() }()
	p.publish(p.nc, at.Subject(), inbox, rpc.Header(at.Subject(), nil), data)
	for {
		reply, err := sub.NextMsgWithContext(ctx)
		if denied := rpc.DeniedBy(ctx); err != nil && denied != nil {
			return denied
		}
		if err != nil || reply.Header.Get("Status") != "" {
			p.TB.Fatalf("%s: no reply: %v %v", at.Subject(), err, reply)
		}
		p.replies.Write(reply.Data)
		fmt.Fprint(&p.replies, reply.Header)
		err = rpc.Refusal(reply)
		if !bus.IsStream(at.Verb) || at.Verb == "watch" || at.Verb == "watchgraph" || len(reply.Data) == 0 && len(reply.Header) == 0 {
			return err
		}
		if err != nil {
			return err
		}
	}
}

// revealed checks that no reply has had the name or the value of an object that the user may not see.
func (p *prober) revealed(objects []owned) {
	p.TB.Helper()
	got := p.replies.Bytes()
	for _, o := range objects {
		gets, past := allows(p.f, p.user, "get", o.kind, o.namespace), allows(p.f, p.user, "readpast", o.kind, o.namespace)
		lists := allows(p.f, p.user, "list", o.kind, o.namespace) || allows(p.f, p.user, "watch", o.kind, o.namespace)
		named := slices.ContainsFunc(probed, func(verb string) bool { return allows(p.f, p.user, verb, o.kind, o.namespace) }) // by the user itself; nodes are owners of all others
		if !gets && !past && !lists && !named && o.kind != "nodes" && bytes.Contains(got, []byte(o.name)) {
			p.TB.Errorf("user %s: a reply has the name of a %s in %s", p.user, o.kind, o.namespace)
		}
		if !past && (o.gone && o.kind != "nodes" || !gets && !lists) && bytes.Contains(got, []byte(o.value)) {
			p.TB.Errorf("user %s: a reply has the value of a %s in %s (gone is %t)", p.user, o.kind, o.namespace, o.gone)
		}
	}
}
