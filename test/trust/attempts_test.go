package trust_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// attempt is a request that a role may make.
type attempt struct {
	subject string
	header  nats.Header
	data    []byte
	answer  string // what the reply contains
	stores  string // the stream that stores the message
}

// attempts are the requests that a role may send, some for each pattern. They change
// nothing but the stream that stores them: dry runs, reads, pulls, acknowledgements of progress, and requests
// that are refused. Each gets a reply.
func attempts(tb testing.TB, role bus.Role) (list []attempt) {
	tb.Helper()
	patterns := role.Imports()
	if role.OfFile { // its account imports more than the user may publish
		patterns = role.Publish
	}
	for _, pattern := range patterns {
		if pattern == "$JS.API.INFO" {
			continue // not among the user's permissions
		}
		a := attempt{subject: fill(role, pattern)}
		a.header = header(a.subject)
		add := func(data string) {
			a := a
			a.data = []byte(data)
			list = append(list, a)
		}
		name := bus.RequestName(a.subject)
		switch {
		case strings.Contains(pattern, ".parked.") || strings.Contains(pattern, ".work."):
			// The NATS server stores what it gets, and answers with the place in the stream. A
			// stream that is not the expected one stores nothing, and the server answers, too.
			refused, stored := a, a
			refused.header = nats.Header{jetstream.ExpectedStreamHeader: {"x"}}
			refused.answer = fmt.Sprintf(`"err_code":%d`, server.JSStreamNotMatchErr)
			stored.stores = bus.WorkStream(bus.DefaultRealm)
			if strings.Contains(pattern, ".parked.") {
				stored.stores = bus.ParkedStream(bus.DefaultRealm)
			}
			stored.data = storedBody(tb, a.subject)
			list = append(list, refused, stored)
		case strings.HasPrefix(a.subject, "$JS.ACK."):
			add("+WPI")
			a.subject = strings.Replace(a.subject, ".1.1.1.1.0", ".1.999999.999999.1.0", 1) // which was not delivered
			add(`+NXT {"batch":1,"no_wait":true}`)
		case strings.HasPrefix(a.subject, "$JS.API.CONSUMER.MSG.NEXT."):
			add(`{"batch":1,"no_wait":true,"deliver_subject":"` + bus.LogSubject(bus.DefaultRealm) + `"}`)
			add(`{"batch":3,"no_wait":true,"max_bytes":100}`)
			add(`{"batch":1,"expires":1000000}`)
		case name != "":
			data, err := rpc.Encode(body(a.subject))
			must.Succeed(tb, err)
			add(string(data))
		default:
			add("")
		}
	}
	return list
}

// storedBody is a message as a role publishes it to a stream.
func storedBody(tb testing.TB, subject string) []byte {
	tb.Helper()
	var m proto.Message = &coppicev1.DirtyChunk{Groups: []*coppicev1.DependentsOf{}}
	if of, ok := bus.Unparked(bus.DefaultRealm, subject); ok {
		m = &coppicev1.Parked{Subject: of, Message: []byte("x"), Error: "failed", Attempts: 1, By: "x"}
	}
	data, err := proto.Marshal(m)
	must.Succeed(tb, err)
	return data
}

// body is a request to a subject that could be a client's, and changes nothing.
func body(subject string) proto.Message {
	const absent = "absent"
	deletion := &coppicev1.DeleteRequest{Names: []string{"s0"}, Options: &coppicev1.DeleteOptions{DryRun: []string{"All"}}}
	object := &coppicev1.Object{ApiVersion: "v1", Kind: "Secret", Metadata: &coppicev1.ObjectMeta{Name: "s0", Namespace: markers}}
	uid := uuid.MustParse("0193a000-0000-7000-8000-000000000000")
	const internal = "internal."
	name := bus.RequestName(subject)
	if strings.Contains(subject, "."+internal) {
		name = internal + name
	}
	switch name {
	case bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbApply, bus.VerbApplyAcross:
		return &coppicev1.ObjectsRequest{Objects: []*coppicev1.Object{object}, DryRun: true, ReturnObjects: true}
	case bus.VerbPatch:
		return &coppicev1.PatchRequest{Patches: []*coppicev1.Patch{{Name: "s0", Patch: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}}, DryRun: true}
	case bus.VerbImport:
		return &coppicev1.ImportRequest{Objects: []*coppicev1.Object{object}, DryRun: true}
	case bus.VerbRestore:
		return &coppicev1.RestoreRequest{Objects: []*coppicev1.RestoredObject{{Object: object}}, DryRun: true}
	case bus.VerbGet:
		return &coppicev1.GetRequest{Names: []string{"s0"}}
	case bus.VerbList:
		return &coppicev1.ListRequest{Limit: 2}
	case bus.VerbWatch:
		return &coppicev1.WatchRequest{Page: true}
	case bus.VerbWatchGraph:
		return &coppicev1.WatchGraphRequest{Page: true}
	case bus.VerbDelete:
		return deletion
	case bus.VerbDeleteCollection:
		return &coppicev1.DeleteCollectionRequest{All: true, Options: deletion.GetOptions()}
	case bus.VerbPlan:
		return &coppicev1.PlanRequest{Delete: &coppicev1.DeleteRequest{Names: []string{"s0"}}, AskGrant: true}
	case bus.VerbRemoveFinalizer:
		return &coppicev1.RemoveFinalizerRequest{Objects: []*coppicev1.FinalizerTarget{{Name: absent}}}
	case bus.VerbForceFinalizer:
		return &coppicev1.ForceFinalizerRequest{Name: absent, Reason: "x"}
	case bus.VerbDeleteUnreadable:
		return &coppicev1.DeleteUnreadableRequest{Name: "s0", Reason: "x", DryRun: true}
	case bus.VerbProtect, bus.VerbUnprotect:
		return &coppicev1.ProtectRequest{Objects: []*coppicev1.ProtectTarget{{Name: "s0"}}, Reason: "x", DryRun: true}
	case bus.VerbVeto:
		return &coppicev1.VetoRequest{Name: absent, Agree: true}
	case bus.VerbResolve:
		return &coppicev1.ResolveObjectsRequest{Names: []string{"s0"}, Owners: true, Dependents: true}
	case bus.VerbReadLog:
		return &coppicev1.ReadLogRequest{FromSequence: 1, Limit: 2}
	case bus.VerbReadPast:
		return &coppicev1.ReadPastRequest{At: &coppicev1.ReadPastRequest_Revision{Revision: 1}, Read: &coppicev1.ReadPastRequest_List{List: &coppicev1.ListRequest{Limit: 1}}}
	case bus.VerbListParked:
		return &coppicev1.ListParkedRequest{Limit: 2, Content: true}
	case bus.VerbRetryParked, bus.VerbDropParked:
		return &coppicev1.ParkedRequest{Ids: []uint64{999999}}
	case bus.VerbListConsumers:
		return &coppicev1.ListConsumersRequest{Finalizers: []string{bus.ExampleFinalizer}}
	case bus.VerbConsumeFinalizer, bus.VerbConsumeAgent, bus.VerbConsumeExpiry:
		return &coppicev1.ConsumeRequest{Process: "x"}
	case bus.VerbLease:
		return &coppicev1.LeaseRequest{Name: "example.com/sites", Holder: "x", Ttl: 10000}
	case bus.VerbReleaseBrake:
		return &coppicev1.ReleaseBrakeRequest{DryRun: true}
	case bus.VerbCreateRealm:
		return &coppicev1.CreateRealmRequest{Id: absent} // not the form of an id
	case bus.VerbDeleteRealm:
		return &coppicev1.DeleteRealmRequest{Confirm: absent} // not its name
	case internal + bus.OpResolve:
		return &coppicev1.ResolveRequest{Uids: uid[:]}
	case internal + bus.OpPropose:
		return &coppicev1.ProposeRequest{Collect: uid[:]}
	case internal + bus.OpFinish:
		return &coppicev1.FinishRequest{Finalizer: "orphan", Uids: uid[:]}
	}
	return requests[name]
}

// fill replaces the wildcards of a pattern of a role.
func fill(role bus.Role, pattern string) string {
	tokens := strings.Split(pattern, ".")
	wild := []string{"_", "secrets", markers}
	rest := bus.ExampleFinalizer
	switch {
	case tokens[0] == "$SRV":
		rest = "PING"
	case tokens[0] == "$JS":
		wild, rest = []string{bus.FinalizeStream(bus.DefaultRealm), bus.FinalizerDurable(bus.ExampleFinalizer), "1", "1", "1", "1", "0"}, "1.1.1.1.0"
		for _, durable := range []string{bus.DurableProcessors, bus.DurableOrphan, bus.DurableFinish, bus.DurableDrain} {
			if strings.Contains(pattern, "."+durable) {
				wild[0] = bus.WorkStream(bus.DefaultRealm)
			}
		}
	case len(tokens) > 3 && tokens[1] == "*":
		tokens[1] = bus.DefaultRealm
		if tokens[2] == "api" && tokens[3] == "*" {
			tokens[3] = role.Name
		}
		if strings.HasPrefix(strings.Join(tokens[2:], "."), "parked.finalize.>") {
			rest = "_.secrets.u." + bus.ExampleFinalizer
		}
	}
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
