package trust_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// targets are what an answer must not reach, one of each kind.
func targets() []string {
	log, work, finalize := bus.LogStream(bus.DefaultRealm), bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm)
	list := []string{
		bus.LogSubject(bus.DefaultRealm), "$KV." + bus.LeaseBucket + "." + bus.LeaseKey(bus.DefaultRealm),
		bus.Finalize{Realm: bus.DefaultRealm, Plural: "secrets", UID: "u", Finalizer: bus.ExampleFinalizer}.Subject(),
		bus.Terminate{Realm: bus.DefaultRealm, Plural: "pods", UID: "u"}.Subject(),
		bus.Warning{Realm: bus.DefaultRealm, Plural: "pods", Namespace: "shop", UID: "u", Reason: "x"}.Subject(),
		"coppice.default.parked.work.dirty.1", "coppice.other.log", "coppice.other.api.operator.deletecollection._.secrets.prod",
		"$JS.ACK." + work + ".processors.1.1.1.1.0", "$JS.ACK." + finalize + ".f.1.1.1.1.0", "$SRV.PING", "$SYS.REQ.SERVER.PING",
		"$JS.API.CONSUMER.CREATE." + log, "$JS.API.CONSUMER.DELETE." + work + "." + bus.DurableProcessors, "$JS.API.CONSUMER.PAUSE." + work + "." + bus.DurableProcessors,
		"$JS.API.STREAM.CREATE.shadow", "$JS.API.STREAM.MSG.DELETE." + log, "$JS.API.DIRECT.GET." + log,
	}
	for _, verb := range bus.Verbs() {
		a := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleOperator, Verb: verb, Plural: "secrets", Namespace: "prod"}
		if bus.NamesFinalizer(verb) {
			a.Finalizer = bus.ExampleFinalizer
		}
		list = append(list, a.Subject())
	}
	for _, op := range []string{bus.OpResolve, bus.OpPropose, bus.OpOrphan, bus.OpFinish, bus.OpEvict, bus.OpWalk, bus.OpRedrive, bus.OpCycles} {
		list = append(list, bus.InternalSubject(bus.DefaultRealm, op))
	}
	for _, queue := range []string{bus.QueueDirty, bus.QueueOrphan, bus.QueueFinish, bus.QueueEvict} {
		list = append(list, bus.WorkSubject(bus.DefaultRealm, queue))
	}
	for _, stream := range []string{log, work, finalize, "KV_" + bus.LeaseBucket} {
		for _, op := range []string{"DELETE", "PURGE", "UPDATE", "SNAPSHOT", "RESTORE"} {
			list = append(list, "$JS.API.STREAM."+op+"."+stream)
		}
	}
	return list
}

// attempt is a request that a role may make.
type attempt struct {
	subject string
	data    []byte
	// answered says that it is, so that it can serve as a fence.
	answered bool
}

// attempts are the requests that a role may make, one for each pattern. What they
// ask for changes nothing: dry runs, reads, and requests that are refused.
func attempts(t *testing.T, role bus.Role) []attempt {
	t.Helper()
	dry := &coppicev1.DeleteOptions{DryRun: []string{"All"}}
	of := map[string]proto.Message{
		bus.VerbGet: &coppicev1.GetRequest{Names: []string{"s0"}}, bus.VerbDelete: &coppicev1.DeleteRequest{Names: []string{"s0"}, Options: dry},
		bus.VerbDeleteCollection: &coppicev1.DeleteCollectionRequest{All: true, Options: dry},
		bus.VerbPlan:             &coppicev1.PlanRequest{Delete: &coppicev1.DeleteRequest{Names: []string{"s0"}}},
		bus.VerbCreate:           &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{{Metadata: &coppicev1.ObjectMeta{Name: "x"}}}, DryRun: true},
	}
	var list []attempt
	for _, pattern := range role.Imports() {
		tokens := strings.Split(pattern, ".")
		work := strings.HasSuffix(pattern, "."+bus.DurableProcessors) || strings.Contains(pattern, bus.DurableOrphan) || strings.Contains(pattern, bus.DurableFinish) ||
			strings.Contains(pattern, bus.DurableEvict) || strings.Contains(pattern, bus.DurableProcessors)
		wild := []string{"default", "_", "secrets", "prod"}
		if strings.HasPrefix(pattern, "$JS") {
			wild = []string{bus.FinalizeStream(bus.DefaultRealm), "x"}
			if work {
				wild[0] = bus.WorkStream(bus.DefaultRealm)
			}
		}
		n := 0
		for i, token := range tokens {
			switch token {
			case "*":
				tokens[i] = wild[min(n, len(wild)-1)]
				n++
			case ">":
				tokens[i] = "1.1.1.1.0"
				if strings.HasPrefix(pattern, "coppice.") {
					tokens[i] = bus.ExampleFinalizer
				}
			}
		}
		a := attempt{subject: strings.Join(tokens, ".")}
		name := bus.RequestName(a.subject)
		switch {
		case pattern == "$JS.API.INFO", strings.Contains(pattern, ".parked."), strings.Contains(pattern, ".work."):
			continue // not among the user's permissions; or it stores what it sends
		case strings.HasPrefix(a.subject, "$JS.ACK."):
			a.data = []byte("+WPI")
		case strings.HasPrefix(a.subject, "$JS.API.CONSUMER.MSG.NEXT."):
			a.data, a.answered = []byte(`{"batch":1,"no_wait":true}`), true
		case name != "":
			m := of[name]
			if m == nil {
				m = &coppicev1.ListRequest{}
			}
			data, err := rpc.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			a.data, a.answered = data, true
		default:
			a.answered = true
		}
		list = append(list, a)
	}
	return list
}

// world is what no attempt may change.
type world struct {
	streams map[string]string
	objects int
}

func (r *realm) world(js jetstream.JetStream) world {
	r.t.Helper()
	w := world{streams: map[string]string{}}
	for info := range js.ListStreams(r.ctx).Info() {
		state := fmt.Sprintf("%d messages to %d, %d consumers, subjects %v, deny purge %t", info.State.Msgs, info.State.LastSeq, info.State.Consumers, info.Config.Subjects, info.Config.DenyPurge)
		if info.Config.Name == bus.LogStream(bus.DefaultRealm) { // verify reads it by a consumer
			state = fmt.Sprintf("%d messages to %d, subjects %v, deny purge %t", info.State.Msgs, info.State.LastSeq, info.Config.Subjects, info.Config.DenyPurge)
		}
		if strings.HasPrefix(info.Config.Name, "KV_") { // renewed all the time
			state = fmt.Sprintf("%d messages, subjects %v", info.State.Msgs, info.Config.Subjects)
		}
		w.streams[info.Config.Name] = state
	}
	for _, err := range r.owner.Resource(secrets, "prod").List(r.ctx) {
		if err != nil {
			r.t.Fatal(err)
		}
		w.objects++
	}
	return w
}

// No role can have an answer act where the role may not publish: every request of
// every role, with every kind of target as its reply subject, on a server with an
// account for each actor.
func TestMatrix(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	js, err := jetstream.New(r.conn(bus.RoleAdmin))
	if err != nil {
		t.Fatal(err)
	}
	for durable, filter := range map[string]string{
		bus.FinalizerDurable(bus.ExampleFinalizer): bus.FinalizeFilter(bus.DefaultRealm, bus.ExampleFinalizer),
		bus.AgentDurable("", bus.ExampleAgent):     bus.TerminateFilter(bus.DefaultRealm, "", bus.ExampleAgent),
	} {
		if _, err := js.CreateConsumer(r.ctx, bus.FinalizeStream(bus.DefaultRealm), jetstream.ConsumerConfig{
			Durable: durable, FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy,
		}); err != nil {
			t.Fatal(err)
		}
	}
	before := r.world(js)
	if before.objects != 10 || len(before.streams) < 5 {
		t.Fatalf("there are %d objects and the streams %v", before.objects, before.streams)
	}
	to := targets()
	for _, role := range bus.Actors(bus.Roles(bus.AnyRealm)) {
		nc := r.conn(role.Name)
		tried := attempts(t, role)
		if len(tried) == 0 {
			t.Errorf("%s may make no request", role.Name)
		}
		for _, a := range tried {
			for _, reply := range to {
				m := &nats.Msg{Subject: a.subject, Reply: reply, Data: a.data}
				if bus.RequestName(a.subject) != "" {
					m.Header = rpc.Header(a.subject, nil)
				}
				if err := nc.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
			if a.answered {
				r.fence(nc, a)
			}
			if after := r.world(js); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%s publishes %s: now %v, was %v", role.Name, a.subject, after, before)
				before = after
			}
		}
	}
}

// fence waits until a request like those before it has been answered.
func (r *realm) fence(nc *nats.Conn, a attempt) {
	r.t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for range 2 {
		m := &nats.Msg{Subject: a.subject, Reply: inbox, Data: a.data}
		if bus.RequestName(a.subject) != "" {
			m.Header = rpc.Header(a.subject, nil)
		}
		if err := nc.PublishMsg(m); err != nil {
			r.t.Fatal(err)
		}
		// That there is no responder is an answer, too.
		if _, err := sub.NextMsg(testkit.Timeout / 4); err != nil && !errors.Is(err, nats.ErrNoResponders) {
			r.t.Fatalf("%s: %v", a.subject, err)
		}
	}
}

const (
	document = "../../docs/security.md"
	begin    = "<!-- generated by test/trust: begin -->\n"
	end      = "<!-- generated by test/trust: end -->\n"
)

// What docs/security.md says each role may publish is what the roles say. With
// COPPICE_UPDATE=1 the test writes it.
func TestDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	fmt.Fprintf(&b, "Each request below was sent with each of %d targets as its reply subject; no stream, lease or object changed.\n\n", len(targets()))
	b.WriteString("| role | account | may publish, in each realm |\n|---|---|---|\n")
	for _, role := range bus.Actors(bus.Roles(bus.AnyRealm)) {
		var what []string
		services, err := bus.Services([]bus.Role{role})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range services {
			if s.Subject != "$JS.API.INFO" {
				what = append(what, "`"+s.Subject+"`")
			}
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", role.About, role.Name, strings.Join(what, "<br>"))
	}
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for what is generated", document)
	}
	want := head + begin + b.String() + end + tail
	if want == string(data) {
		return
	}
	if os.Getenv("COPPICE_UPDATE") == "" {
		t.Fatalf("%s is not what internal/bus says: run COPPICE_UPDATE=1 go test ./test/trust -run TestDocument", document)
	}
	if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
