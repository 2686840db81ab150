package trust_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
)

// usersOf parses a users file.
func usersOf(t *testing.T, text string) *access.File {
	t.Helper()
	f, err := access.Parse("users.yaml", []byte(text))
	must.Succeed(t, err)
	return f
}

// startUsers starts a realm with the users of a file.
func startUsers(t *testing.T, text string) *realm {
	t.Helper()
	return startWith(t, allinone.Config{Auth: true, Users: usersOf(t, text)})
}

// as returns a prober that sends requests as a user.
func (r *realm) as(user string) *prober { return &prober{realm: r, nc: r.conn(user), user: user} }

// noted creates an object with a note.
func (r *realm) noted(kind, ns, name, note string, owners ...*client.Object) *client.Object {
	r.TB.Helper()
	o := &client.Object{Metadata: &client.ObjectMeta{Name: name, Annotations: map[string]string{"example.com/note": note}}}
	for _, owner := range owners {
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.NewOwnerReference(owner))
	}
	created, err := r.Resource(client.ParseResource(kind), ns).Create(r.Ctx, o)
	must.Succeed(r.TB, err)
	return created
}

func (p *prober) about(verb, kind, ns string) bus.API {
	res := client.ParseResource(kind)
	return bus.API{Realm: bus.DefaultRealm, Actor: p.user, Verb: verb, Group: res.Group, Plural: res.Plural, Namespace: ns}
}

const onlyShop = `
version: 1
users:
  shop: {may: [{verbs: [read, create, update], kinds: [configmaps], namespaces: [shop]}]}
`

// The filters of readlog do not say what is in the rest of a commit: neither by events, nor by the number of those that are left out.
func TestLogFiltersRevealNothing(t *testing.T) {
	t.Parallel()
	r := startUsers(t, onlyShop)
	hidden := r.noted("secrets", "prod", "db", "password-is-hunter2")
	r.noted("configmaps", "shop", "own", "")
	var leftOut uint64
	log := client.New(r.conn("shop"), client.WithActor("shop"), client.WithOnLeftOut(func(_ string, n uint64) { leftOut += n })).Log()
	for _, filter := range []client.LogOption{
		client.ForName("password-is-h"), client.ForName("password-is-x"), client.ForNamespace("prod"), client.ForUIDs{hidden.GetMetadata().GetUid()},
	} {
		for c, err := range log.Read(r.Ctx, client.FromSequence(1), filter) {
			t.Errorf("with the filter %v there is %v, %v", filter, c.Commit, err)
		}
	}
	if leftOut > 0 {
		t.Errorf("%d events are left out that filters select", leftOut)
	}
	seen := 0
	for _, err := range log.Read(r.Ctx, client.FromSequence(1), client.ForName("own")) {
		must.Succeed(t, err)
		seen++
	}
	if seen != 1 {
		t.Errorf("%d commits mention the user's own object, want 1", seen)
	}
	if leftOut > 0 {
		t.Errorf("%d events are left out that filters select", leftOut)
	}
	for _, err := range log.Read(r.Ctx, client.FromSequence(1), client.Complete(true)) {
		if !errors.Is(err, client.ErrForbidden) {
			t.Errorf("a complete log: %v, want Forbidden", err)
		}
	}
}

// The continue tokens of listfinalizers do not name objects that the user may not get, and lead through all pages.
func TestTokensRevealNothing(t *testing.T) {
	t.Parallel()
	r := startUsers(t, onlyShop)
	r.noted("secrets", "prod", "hidden-name", "")
	p := r.as("shop")
	pages := 0
	for token := ""; ; pages++ {
		p.replies.Reset()
		must.Succeed(t, p.ask(bus.RealmAPI(bus.DefaultRealm, p.user, bus.VerbListFinalizers), &coppicev1.ListFinalizersRequest{Limit: 1, Continue: token}))
		body, _, _ := bytes.Cut(p.replies.Bytes(), []byte("map["))
		var reply coppicev1.ListFinalizersReply
		must.Succeed(t, proto.Unmarshal(body, &reply))
		if token = reply.GetContinue(); token == "" {
			break
		}
		plain, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || strings.Contains(string(plain)+token, "secrets") || bytes.Contains(plain, []byte("hidden-name")) {
			t.Fatalf("the token %q is %q, %v", token, plain, err)
		}
	}
	if pages < 11 {
		t.Errorf("there are %d pages of one object", pages)
	}
	if err := p.ask(bus.RealmAPI(bus.DefaultRealm, p.user, bus.VerbListFinalizers), &coppicev1.ListFinalizersRequest{Continue: "secrets:cHJvZA"}); !errors.Is(err, client.ErrBadRequest) {
		t.Errorf("a token of the user's own: %v, want BadRequest", err)
	}
}

// widgets registers the kind of widgets with a scope.
func (r *realm) widgets(scope string) {
	r.TB.Helper()
	_, err := r.Resource(client.KindsResource, "").Create(r.Ctx, &client.Object{
		Metadata: &client.ObjectMeta{Name: "widgets.example.com"},
		Spec:     []byte(`{"group":"example.com","plural":"widgets","kind":"Widget","scope":"` + scope + `","versions":[{"name":"v1"}]}`),
	})
	must.Succeed(r.TB, err)
}

// noWidgets deletes the kind.
func (r *realm) noWidgets() {
	r.TB.Helper()
	kinds := r.Resource(client.KindsResource, "")
	_, err := kinds.Delete(r.Ctx, "widgets.example.com")
	must.Succeed(r.TB, err)
	r.WaitFor("the end of the kind", func() bool {
		_, err := kinds.Get(r.Ctx, "widgets.example.com")
		return errors.Is(err, client.ErrNotFound)
	})
}

// A rule about objects without a namespace is no rule about those that the kind has in namespaces, before or later.
func TestScopeOfAKindChanges(t *testing.T) {
	t.Parallel()
	r := startUsers(t, `
version: 1
users:
  glob: {may: [{verbs: [read, past], kinds: [widgets.example.com], namespaces: [_]}]}
`)
	p := r.as("glob")
	r.widgets("Namespaced")
	r.noted("widgets.example.com", "prod", "hidden", "past-value")
	at := r.revision()
	_, err := r.Resource(client.ParseResource("widgets.example.com"), "prod").Delete(r.Ctx, "hidden")
	must.Succeed(t, err)
	r.noWidgets()
	r.widgets("Cluster")
	watch := p.open(p.about(bus.VerbWatch, "widgets.example.com", ""), &coppicev1.WatchRequest{})
	r.WaitFor("an answer about the past", func() bool {
		err := p.ask(p.about(bus.VerbReadPast, "widgets.example.com", ""), &coppicev1.ReadPastRequest{
			Read: &coppicev1.ReadPastRequest_List{List: &coppicev1.ListRequest{}}, At: &coppicev1.ReadPastRequest_Revision{Revision: at},
		})
		if errors.Is(err, client.ErrServiceUnavailable) {
			return false // the state is being built
		}
		if !errors.Is(err, client.ErrForbidden) {
			t.Errorf("the past of the kind: %v, want Forbidden", err)
		}
		return true
	})
	r.noWidgets()
	r.widgets("Namespaced")
	r.noted("widgets.example.com", "prod", "hidden", "now-value")
	r.afterWatch(p, watch, r.revision())
	if got := p.replies.String(); strings.Contains(got, "past-value") || strings.Contains(got, "now-value") {
		t.Errorf("the user has received %q", got)
	}
}

// open sends a request whose reply is a stream, and waits for its beginning.
func (p *prober) open(at bus.API, m proto.Message) *nats.Subscription {
	p.TB.Helper()
	data, err := rpc.Encode(m)
	must.Succeed(p.TB, err)
	inbox := p.nc.NewInbox()
	sub, err := p.nc.SubscribeSync(inbox)
	must.Succeed(p.TB, err)
	p.publish(p.nc, at.Subject(), inbox, rpc.Header(at.Subject(), nil), data)
	first, err := sub.NextMsgWithContext(p.Ctx)
	must.Succeed(p.TB, errors.Join(err, rpc.Refusal(first)))
	p.replies.Write(first.Data)
	return sub
}

// afterWatch receives what a watch sends until it has reached a revision or ends.
func (r *realm) afterWatch(p *prober, watch *nats.Subscription, revision uint64) {
	r.TB.Helper()
	for {
		m, err := watch.NextMsgWithContext(r.Ctx)
		must.Succeed(r.TB, err)
		p.replies.Write(m.Data)
		var b coppicev1.WatchBatch
		must.Succeed(r.TB, proto.Unmarshal(m.Data, &b))
		if b.GetRevision() >= revision || b.GetError() != nil || len(m.Data) == 0 {
			return
		}
	}
}

// What a file does not allow any more does not go on in watches and readers of the log that are open.
func TestRevocation(t *testing.T) {
	t.Parallel()
	const u = "version: 1\nusers: {u: {may: [{verbs: [read, past], kinds: [secrets], namespaces: [prod]}]}}\n"
	for name, after := range map[string]string{
		"fewer rules": strings.ReplaceAll(u, "prod", "shop"),
		"no user":     "version: 1\nusers: {other: {roles: [viewer]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := usersOf(t, u)
			current := &access.Current{}
			current.Set(f.Table())
			r := startWith(t, allinone.Config{Auth: true, Users: f, Graph: func(g *graph.Config) { g.Access = current }})
			p := r.as("u")
			watch := p.open(p.about(bus.VerbWatch, "secrets", "prod"), &coppicev1.WatchRequest{ChangesOnly: true})
			log := p.open(bus.RealmAPI(bus.DefaultRealm, p.user, bus.VerbReadLog), &coppicev1.ReadLogRequest{Follow: true})
			r.noted("secrets", "prod", "before", "value-before")
			r.afterWatch(p, watch, r.revision())
			if !strings.Contains(p.replies.String(), "value-before") {
				t.Error("the watch has nothing before the revocation")
			}
			current.Set(usersOf(t, after).Table())
			r.noted("secrets", "prod", "after", "value-after")
			last, err := r.Log().Last(r.Ctx)
			must.Succeed(t, err)
			r.afterWatch(p, watch, r.revision())
			for reached := false; !reached; {
				m, err := log.NextMsgWithContext(r.Ctx)
				must.Succeed(t, err)
				p.replies.Write(m.Data)
				var b coppicev1.LogBatch
				must.Succeed(t, proto.Unmarshal(m.Data, &b))
				reached = b.GetNext() > last || b.GetEnd()
			}
			if strings.Contains(p.replies.String(), "value-after") {
				t.Error("the user has received a value that was written after the revocation")
			}
		})
	}
}

// A user cannot use an object that it may not get: it would learn whether that exists, and its deletion would wait. Totals do not count such
// objects, and the texts of warnings do not name them.
func TestUnseenObjectsStayUnseen(t *testing.T) {
	t.Parallel()
	r := startUsers(t, onlyShop)
	r.noted("secrets", "shop", "exists", "")
	p := r.as("shop")
	var texts []string
	for _, name := range []string{"exists", "missing"} {
		o := &client.Object{Metadata: &client.ObjectMeta{Name: "user", Uses: []*client.Use{{Kind: "Secret", Name: name}}}}
		_, err := client.New(p.nc, client.WithActor(p.user)).Resource(client.ParseResource("configmaps"), "shop").Create(r.Ctx, o)
		if !errors.Is(err, client.ErrForbidden) {
			t.Errorf("a use of the secret %s: %v, want Forbidden", name, err)
			continue
		}
		texts = append(texts, strings.ReplaceAll(err.Error(), name, "NAME"))
	}
	if len(texts) == 2 && texts[0] != texts[1] {
		t.Errorf("the refusals tell which exists: %q", texts)
	}

	parent := r.noted("secrets", "shop", "parent", "")
	r.noted("secrets", "shop", "child", "", parent)
	p.replies.Reset()
	must.Succeed(t, p.ask(p.about(bus.VerbResolve, "kinds.coppice.dev", ""), &coppicev1.ResolveObjectsRequest{Uids: []string{parent.GetMetadata().GetUid()}, CountTotal: true}))
	body, _, _ := bytes.Cut(p.replies.Bytes(), []byte("map["))
	var resolved coppicev1.ResolveObjectsReply
	must.Succeed(t, proto.Unmarshal(body, &resolved))
	if resolved.GetTotal() != 0 || resolved.GetLeftOut() != 1 {
		t.Errorf("an unseen object has the total %d, and %d objects are left out", resolved.GetTotal(), resolved.GetLeftOut())
	}

	own := r.noted("configmaps", "shop", "own", "")
	for reason, named := range map[string]bool{lifecycle.WarnProtected: false, lifecycle.WarnInvalidNamespace: false, lifecycle.WarnExpiry: true} {
		r.warnOf(owned{kind: "configmaps", namespace: "shop", name: "own", uid: own.GetMetadata().GetUid()}, reason, "it waits for secrets/name-in-"+reason)
		p.replies.Reset()
		must.Succeed(t, p.ask(bus.API{Realm: bus.DefaultRealm, Actor: p.user, Verb: bus.VerbReadWarnings}, &coppicev1.ReadWarningsRequest{Uid: own.GetMetadata().GetUid()}))
		if got := strings.Contains(p.replies.String(), "name-in-"+reason); got != named {
			t.Errorf("the warning %s has its text: %t", reason, got)
		}
	}
}
