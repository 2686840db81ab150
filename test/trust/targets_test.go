package trust_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// streams are those of a realm, of the leases, of the list of realms, and of an archive.
func streams() []string {
	return []string{
		bus.LogStream(bus.DefaultRealm), bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm),
		bus.ParkedStream(bus.DefaultRealm), bus.WarningStream(bus.DefaultRealm), "KV_" + bus.LeaseBucket,
		"KV_" + bus.WriterBucket, "KV_" + bus.RealmBucket, "OBJ_" + archiveBucket,
	}
}

// expiry is a program that answers notices.
var expiry = bus.ExpiryRole("keeper", "example.com/keeper", bus.AnyRealm)

// controller is a program that works with objects and runs an external finalizer.
var controller = bus.ControllerRole("sites", []string{controllerFinalizer}, bus.AnyRealm)

const controllerFinalizer = "example.com/site"

// added are the roles that an installation adds to those of bus.Roles.
func added() []bus.Role { return []bus.Role{expiry, controller} }

// actors are the roles with accounts of their own.
func actors() []bus.Role { return append(bus.Actors(bus.Roles(bus.AnyRealm)), added()...) }

// notice is a call about a notice.
var notice = bus.Expire{Realm: bus.DefaultRealm, Plural: "secrets", UID: "u", Name: "example.com/keeper"}.Subject()

// operations are those of a realm that services request.
func operations() []string {
	return []string{bus.OpResolve, bus.OpPropose, bus.OpOrphan, bus.OpFinish, bus.OpDrain, bus.OpWalk, bus.OpRepublish, bus.OpCycles, bus.OpDue, bus.OpExpire, bus.OpExamine}
}

// archiveBucket is the object store that the matrix uses as an archive.
const archiveBucket = "archive"

// targets are subjects that no reply and no delivery may reach, some of each kind.
func targets() []string {
	log, work, finalize := bus.LogStream(bus.DefaultRealm), bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm)
	durable := bus.FinalizerDurable(bus.ExampleFinalizer)
	call := bus.Finalize{Realm: bus.DefaultRealm, Plural: "secrets", UID: "u", Finalizer: bus.ExampleFinalizer}.Subject()
	list := []string{
		bus.LogSubject(bus.DefaultRealm), "$KV." + bus.LeaseBucket + "." + bus.MemberKey("x"), "$KV." + bus.WriterBucket + "." + bus.DefaultRealm, call, notice,
		"$KV." + bus.RealmBucket + "." + bus.DefaultRealm,
		bus.Terminate{Realm: bus.DefaultRealm, Plural: "pods", UID: "u"}.Subject(),
		bus.Warning{Realm: bus.DefaultRealm, Plural: "pods", Namespace: "shop", UID: "u", Reason: "x"}.Subject(),
		bus.ParkedSubject(bus.DefaultRealm, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), 1), bus.ParkedSubject(bus.DefaultRealm, call, 1),
		"$O." + archiveBucket + ".M.eA==", "$O." + archiveBucket + ".C.x",
		bus.LogSubject("other"), "coppice.other.api.operator.deletecollection._.secrets." + markers,
		"$JS.ACK." + work + ".processors.1.1.1.1.0", "$JS.ACK." + finalize + "." + durable + ".1.1.1.1.0", "$JS.ACK._.h." + finalize + "." + durable + ".1.1.1.1.0",
		"$JS.FC." + log + ".x.y", "$SRV.PING", "$SRV.INFO", "$SRV.STATS.coppice-writer", "$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT." + bus.CoreAccount + ".CONNZ",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.CREATE.shadow", "$JS.API.META.LEADER.STEPDOWN", "$JS.API.META.RESCUE",
		"$JS.API.SERVER.REMOVE", "$JS.API.SERVER.EVACUATE", "$JS.API.ACCOUNT.PURGE." + bus.CoreAccount,
		"$JS.API.ACCOUNT.STREAM.MOVE." + bus.CoreAccount + "." + log, "$JS.API.ACCOUNT.STREAM.CANCEL_MOVE." + bus.CoreAccount + "." + log,
	}
	for _, stream := range streams() {
		for _, op := range []string{"INFO", "UPDATE", "DELETE", "PURGE", "SNAPSHOT", "RESTORE", "MSG.GET", "MSG.DELETE", "LEADER.STEPDOWN", "PEER.REMOVE", "PEER.EVACUATE", "CANCEL_MOVE"} {
			list = append(list, "$JS.API.STREAM."+op+"."+stream)
		}
		list = append(list, "$JS.API.DIRECT.GET."+stream, "$JS.API.CONSUMER.CREATE."+stream, "$JS.API.CONSUMER.CREATE."+stream+".x", "$JS.API.CONSUMER.DURABLE.CREATE."+stream+".x", "$JS.API.CONSUMER.NAMES."+stream, "$JS.API.CONSUMER.LIST."+stream)
	}
	for consumer, stream := range map[string]string{bus.DurableProcessors: work, durable: finalize} {
		for _, op := range []string{"INFO", "DELETE", "PAUSE", "UNPIN", "RESET", "MSG.NEXT", "LEADER.STEPDOWN", "PEER.REMOVE", "PEER.EVACUATE"} {
			list = append(list, "$JS.API.CONSUMER."+op+"."+stream+"."+consumer)
		}
	}
	for _, verb := range bus.Verbs() {
		a := bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleOperator, Verb: verb, Plural: "secrets", Namespace: markers}
		if bus.NamesFinalizer(verb) {
			a.Finalizer = bus.ExampleFinalizer
		}
		list = append(list, a.Subject())
	}
	for _, op := range operations() {
		list = append(list, bus.InternalSubject(bus.DefaultRealm, op))
	}
	list = append(list, bus.InternalSubject(bus.SystemRealm, bus.OpRealms))
	for _, queue := range []string{bus.QueueDirty, bus.QueueOrphan, bus.QueueFinish, bus.QueueDrain} {
		list = append(list, bus.WorkSubject(bus.DefaultRealm, queue))
	}
	return list
}

// attempt is a request that a role may make.
type attempt struct {
	subject string
	header  nats.Header
	data    []byte
	answer  string // what the reply contains
}

// attempts are the requests that a role may send, one for each pattern. They change
// nothing: dry runs, reads, pulls, acknowledgements of progress, messages that a stream
// refuses to store, and requests that are refused. Each gets a reply.
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
		if pattern == "$JS.API.INFO" {
			continue // not among the user's permissions
		}
		a := attempt{subject: fill(pattern)}
		a.header = header(a.subject)
		switch name := bus.RequestName(a.subject); {
		case strings.Contains(pattern, ".parked.") || strings.Contains(pattern, ".work."):
			// The NATS server stores what it gets, and answers with the place in the stream. A
			// stream that is not the expected one stores nothing, and the server answers, too.
			a.header = nats.Header{jetstream.ExpectedStreamHeader: {"x"}}
			a.answer = fmt.Sprintf(`"err_code":%d`, server.JSStreamNotMatchErr)
		case strings.HasPrefix(a.subject, "$JS.ACK."):
			a.data = []byte("+WPI")
		case strings.HasPrefix(a.subject, "$JS.API.CONSUMER.MSG.NEXT."):
			a.data = []byte(`{"batch":1,"no_wait":true,"deliver_subject":"` + bus.LogSubject(bus.DefaultRealm) + `"}`)
		case name != "":
			m := of[name]
			if m == nil {
				m = &coppicev1.ListRequest{}
			}
			data, err := rpc.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			a.data = data
		}
		list = append(list, a)
	}
	return list
}

// fill replaces the wildcards of a pattern.
func fill(pattern string) string {
	wild := []string{bus.DefaultRealm, "_", "secrets", markers}
	rest := bus.ExampleFinalizer
	if strings.HasPrefix(pattern, "$JS") {
		wild, rest = []string{bus.FinalizeStream(bus.DefaultRealm)}, "1.1.1.1.0"
		for _, durable := range []string{bus.DurableProcessors, bus.DurableOrphan, bus.DurableFinish, bus.DurableDrain} {
			if strings.Contains(pattern, "."+durable) {
				wild[0] = bus.WorkStream(bus.DefaultRealm)
			}
		}
	}
	tokens := strings.Split(pattern, ".")
	n := 0
	for i, token := range tokens {
		switch token {
		case "*":
			tokens[i] = wild[min(n, len(wild)-1)]
			n++
		case ">":
			tokens[i] = rest
		}
	}
	return strings.Join(tokens, ".")
}
