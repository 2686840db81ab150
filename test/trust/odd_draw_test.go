package trust_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/manifest"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// requests are the messages of verbs and operations.
var requests = map[string]proto.Message{
	bus.VerbCreate: &coppicev1.ObjectsRequest{}, bus.VerbUpdate: &coppicev1.ObjectsRequest{}, bus.VerbUpdateStatus: &coppicev1.ObjectsRequest{}, bus.VerbApply: &coppicev1.ObjectsRequest{}, bus.VerbApplyAcross: &coppicev1.ObjectsRequest{},
	bus.VerbPatch: &coppicev1.PatchRequest{}, bus.VerbImport: &coppicev1.ImportRequest{}, bus.VerbRestore: &coppicev1.RestoreRequest{}, bus.VerbGet: &coppicev1.GetRequest{}, bus.VerbList: &coppicev1.ListRequest{},
	bus.VerbWatch: &coppicev1.WatchRequest{}, bus.VerbWatchGraph: &coppicev1.WatchGraphRequest{}, bus.VerbDelete: &coppicev1.DeleteRequest{}, bus.VerbDeleteCollection: &coppicev1.DeleteCollectionRequest{},
	bus.VerbRemoveFinalizer: &coppicev1.RemoveFinalizerRequest{}, bus.VerbResolve: &coppicev1.ResolveObjectsRequest{}, bus.VerbPlan: &coppicev1.PlanRequest{}, bus.VerbStatus: &coppicev1.StatusRequest{},
	bus.VerbConsumeFinalizer: &coppicev1.ConsumeRequest{}, bus.VerbConsumeAgent: &coppicev1.ConsumeRequest{}, bus.VerbConsumeExpiry: &coppicev1.ConsumeRequest{}, bus.VerbReadLog: &coppicev1.ReadLogRequest{}, bus.VerbReadPast: &coppicev1.ReadPastRequest{},
	bus.VerbReadWarnings: &coppicev1.ReadWarningsRequest{}, bus.VerbListConsumers: &coppicev1.ListConsumersRequest{}, bus.VerbListParked: &coppicev1.ListParkedRequest{},
	bus.VerbRetryParked: &coppicev1.ParkedRequest{}, bus.VerbDropParked: &coppicev1.ParkedRequest{}, bus.VerbVerify: &coppicev1.VerifyRequest{}, bus.VerbResume: &coppicev1.ResumeRequest{},
	bus.VerbCreateRealm: &coppicev1.CreateRealmRequest{}, bus.VerbDeleteRealm: &coppicev1.DeleteRealmRequest{}, bus.VerbListRealms: &coppicev1.ListRealmsRequest{},
	bus.VerbProtect: &coppicev1.ProtectRequest{}, bus.VerbUnprotect: &coppicev1.ProtectRequest{}, bus.VerbForceFinalizer: &coppicev1.ForceFinalizerRequest{},
	bus.VerbDeleteUnreadable: &coppicev1.DeleteUnreadableRequest{}, bus.VerbVeto: &coppicev1.VetoRequest{}, bus.VerbBrakes: &coppicev1.BrakesRequest{},
	bus.VerbReleaseBrake: &coppicev1.ReleaseBrakeRequest{}, bus.VerbListFinalizers: &coppicev1.ListFinalizersRequest{}, bus.VerbArchive: &coppicev1.ArchiveRequest{},
	bus.VerbLease: &coppicev1.LeaseRequest{},

	"internal." + bus.OpResolve: &coppicev1.ResolveRequest{}, "internal." + bus.OpPropose: &coppicev1.ProposeRequest{}, "internal." + bus.OpOrphan: &coppicev1.OrphanRequest{},
	"internal." + bus.OpFinish: &coppicev1.FinishRequest{}, "internal." + bus.OpDrain: &coppicev1.DrainRequest{}, "internal." + bus.OpWalk: &coppicev1.WalkRequest{},
	"internal." + bus.OpRepublish: &coppicev1.RepublishRequest{}, "internal." + bus.OpCycles: &coppicev1.CyclesRequest{}, "internal." + bus.OpRealms: &coppicev1.RealmsRequest{},
	"internal." + bus.OpDue: &coppicev1.DueRequest{}, "internal." + bus.OpExpire: &coppicev1.ExpireRequest{}, "internal." + bus.OpExamine: &coppicev1.ExamineRequest{},

	"work." + bus.QueueDirty: &coppicev1.DirtyChunk{}, "parked": &coppicev1.Parked{},
}

// messageOf is the message of requests to a subject, nil where it is not one of protobuf.
func messageOf(subject string) proto.Message {
	t := strings.Split(subject, ".")
	switch {
	case len(t) > 4 && t[2] == "api":
		return requests[t[4]]
	case len(t) > 3 && t[2] == "parked":
		return requests["parked"]
	case len(t) > 3:
		return requests[t[2]+"."+t[3]]
	}
	return nil
}

// oddRequest is a request that was drawn.
type oddRequest struct {
	subject, reply string // without a reply subject it is the sender's inbox
	header         nats.Header
	data           []byte
	// answered: the role may send the request, so it must get a reply.
	answered bool
}

func (o *oddRequest) String() string {
	const most = 300
	return fmt.Sprintf("%s reply %q header %v body (%d bytes) %.*q", o.subject, o.reply, o.header, len(o.data), most, o.data[:min(most, len(o.data))])
}

// draw draws the n-th request of a role.
func draw(seed uint64, n int, role bus.Role, known []*coppicev1.Object) *oddRequest {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %d", role.Name, n)
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, h.Sum64())), known: known}
	o := &oddRequest{}
	for o.subject == "" || harmful(role.Name, o.subject) || seldom(o.subject) && !d.in(200) {
		o.subject = d.subject(role)
	}
	asJSON := false
	o.data, asJSON = d.body(o.subject)
	o.header = d.header(o.subject, asJSON)
	own := !d.in(10)
	if !own {
		o.reply = one(d, append(targets(), "", "_INBOX.operator.x", "_INBOX.graph.x", "_R_.x.y")...)
	}
	if !own && strings.HasPrefix(o.subject, "$JS.API.CONSUMER.MSG.NEXT.") {
		// A pull request with a reply subject that has no subscriber delays a message for
		// the acknowledgement wait: the role may do that to its own work.
		o.data = []byte(`{"batch":1,"no_wait":true}`)
	}
	o.answered = own && bus.RealmOf(o.subject) == bus.DefaultRealm && bus.RequestName(o.subject) != "" && permitted(role, o.subject)
	return o
}

// permitted reports whether a role may publish to a subject.
func permitted(role bus.Role, subject string) bool {
	for _, p := range role.Deny {
		if server.SubjectMatchesFilter(subject, p) {
			return false
		}
	}
	for _, p := range role.Publish {
		if server.SubjectMatchesFilter(subject, p) {
			return true
		}
	}
	return false
}

// seldom reports whether a request takes long because it reads everything.
func seldom(subject string) bool {
	switch bus.RequestName(subject) {
	case bus.VerbVerify, bus.OpCycles:
		return true
	}
	return false
}

// harmful reports whether the role may change by such a request what the test relies on:
// all objects of a namespace, or a kind.
func harmful(role, subject string) bool {
	if role != bus.RoleApplication && role != controller.Name && role != bus.RoleOperator {
		return false
	}
	a, err := bus.ParseAPI(subject)
	if err != nil || a.Actor != role {
		return false
	}
	switch a.Verb {
	case bus.VerbCreate, bus.VerbUpdate, bus.VerbUpdateStatus, bus.VerbPatch, bus.VerbApply, bus.VerbApplyAcross, bus.VerbImport, bus.VerbRestore, bus.VerbDelete, bus.VerbRemoveFinalizer,
		bus.VerbForceFinalizer, bus.VerbProtect, bus.VerbUnprotect, bus.VerbDeleteUnreadable:
		return a.Namespace == markers
	case bus.VerbDeleteCollection:
		return a.Namespace == markers || a.Plural == "kinds" && role == bus.RoleOperator
	case bus.VerbCreateRealm, bus.VerbDeleteRealm:
		return role == bus.RoleOperator
	}
	return false
}

// subject draws a subject that the role may publish to, or another one.
func (d *drawer) subject(role bus.Role) string {
	if d.in(8) {
		others := actors()
		if d.in(2) {
			return one(d, targets()...)
		}
		return d.literal(one(d, one(d, others...).Publish...))
	}
	return d.literal(one(d, role.Publish...))
}

// literal replaces the wildcards of a pattern.
func (d *drawer) literal(pattern string) string {
	t := strings.Split(pattern, ".")
	r := one(d, [2]string{"_", "secrets"}, [2]string{"_", "secrets"}, [2]string{"_", "configmaps"}, [2]string{"_", "pods"}, [2]string{"apps", "deployments"},
		[2]string{"_", "namespaces"}, [2]string{"coppice_dev", "kinds"}, [2]string{"coppice_dev", "realms"}, [2]string{"_", "_"})
	if len(t) > 4 && t[2] == "api" && realmWide(t[4]) && !d.in(4) {
		r = [2]string{"_", "_"}
	}
	namespaces, finalizers := []string{"odd", "odd", "odder", "_", markers}, []string{bus.ExampleFinalizer, controllerFinalizer, guard, "orphan", "foregroundDeletion", "a.example.com/b", "*", ">", "x"}
	if len(t) > 4 && !d.in(3) { // most of these requests have an effect only on few objects
		switch t[4] {
		case bus.VerbVeto:
			r, namespaces = [2]string{"_", noticed.Plural}, []string{noticed.Namespace}
		case bus.VerbProtect, bus.VerbUnprotect, bus.VerbForceFinalizer:
			r, namespaces, finalizers = [2]string{"_", "secrets"}, []string{"odd"}, []string{guard}
		}
	}
	for i, token := range t {
		switch {
		case token == ">" && t[0] == "$JS":
			t[i] = fmt.Sprintf("%d.%d.%d.%d.0", d.IntN(3), d.IntN(50), d.IntN(50), d.number())
		case token == ">":
			t[i] = one(d, finalizers...)
		case token != "*":
		case t[0] == "$JS":
			t[i] = one(d, bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm), bus.LogStream(bus.DefaultRealm), "x", "*")
		case i == 1:
			t[i] = bus.DefaultRealm
			if d.in(25) {
				t[i] = one(d, "other", "*", "default-x", "DEFAULT")
			}
		case i == 5 && t[2] == "api":
			t[i] = r[0]
		case i == 6 && t[2] == "api":
			t[i] = r[1]
		case i == 7 && t[2] == "api":
			t[i] = one(d, namespaces...)
			if r == [2]string{"_", "_"} {
				t[i] = "_"
			}
		default:
			t[i] = one(d, "1", "2", "u")
		}
		if token == "*" && d.in(40) {
			t[i] = one(d, "*", "x", "_", "..", "a/b", "%00", "é", "🙂", strings.Repeat("y", 300), "coppice_dev", "kinds")
		}
	}
	return strings.Join(t, ".")
}

// realmWide reports whether the subject of a verb names no resource.
func realmWide(verb string) bool {
	switch verb {
	case bus.VerbConsumeFinalizer, bus.VerbConsumeExpiry, bus.VerbReadLog, bus.VerbListConsumers, bus.VerbListFinalizers, bus.VerbWatchGraph, bus.VerbBrakes, bus.VerbListParked, bus.VerbRetryParked, bus.VerbDropParked, bus.VerbVerify, bus.VerbArchive, bus.VerbResume, bus.VerbLease,
		bus.VerbCreateRealm, bus.VerbDeleteRealm, bus.VerbListRealms:
		return true
	}
	return false
}

// body draws the body of a request.
func (d *drawer) body(subject string) (data []byte, asJSON bool) {
	asJSON = d.in(6)
	m := messageOf(subject)
	switch {
	case m == nil:
		return []byte(one(d, "", "+ACK", "+WPI", "-NAK", "-NAK {\"delay\":-1}", "+NXT", "+TERM", `{"batch":1,"no_wait":true}`, `{"batch":1,"expires":1}`, `{"batch":-1}`, `{"batch":1e99}`, `null`, `[]`, "\x00", `{"deliver_subject":"coppice.default.log"}`)), asJSON
	case d.in(50):
		return nil, asJSON
	case d.in(20):
		return []byte(one(d, oddValues...)), asJSON
	case d.in(40):
		m = &coppicev1.ObjectsRequest{}
	}
	m = proto.Clone(m)
	d.fill(m.ProtoReflect())
	d.likely(m)
	if asJSON {
		data, _ = manifest.MarshalMessage(m) // of some it cannot; then the body is empty
		text := string(d.mutated(data, 4))
		if d.in(4) {
			for _, from := range []string{`{}`, `""`, `[]`, `:1,`, `:true`} {
				text = strings.Replace(text, from, one(d, `null`, `:null`, `[null]`, `{"a":null}`, from), 1+d.IntN(2))
			}
		}
		return []byte(text), true
	}
	data, _ = proto.Marshal(m)
	return []byte(strings.ReplaceAll(string(d.mutated(data, 5)), invalid, invalid2)), false
}

// likely makes it likely that a request has an effect.
func (d *drawer) likely(m proto.Message) {
	if d.in(3) {
		return
	}
	switch m := m.(type) {
	case *coppicev1.ObjectsRequest:
		m.DryRun = m.GetDryRun() && d.in(4)
		for _, o := range m.GetObjects() {
			d.plausible(o)
		}
	case *coppicev1.ImportRequest:
		m.Session = "s1"
		for _, o := range m.GetObjects() {
			d.plausible(o)
		}
	case *coppicev1.RestoreRequest:
		m.Session, m.Note = "s1", ""
		for _, o := range m.GetObjects() {
			if o.GetObject() == nil {
				o.Object = &coppicev1.Object{}
			}
			d.plausible(o.GetObject())
		}
	case *coppicev1.PatchRequest:
		for _, p := range m.GetPatches() {
			p.Name, p.Preconditions = one(d, texts["name"]...), nil
			p.Patch = []byte(one(d, `{"metadata":{"labels":{"app":"web"}}}`, `{"spec":{"a":null}}`, `{"metadata":{"finalizers":[]}}`, `{"status":{}}`))
		}
	case *coppicev1.DeleteRequest:
		m.Names, m.Plan, m.Version = texts["name"][:1+d.IntN(3)], "", ""
		m.Options = &coppicev1.DeleteOptions{PropagationPolicy: one(d, texts["propagation_policy"]...)}
	case *coppicev1.PlanRequest:
		m.Delete = &coppicev1.DeleteRequest{Names: []string{one(d, d.object().GetMetadata().GetName(), texts["name"][0], texts["name"][1])}}
	case *coppicev1.ReadLogRequest:
		m.Uids, m.FromSequence = nil, uint64(d.IntN(3))
	case *coppicev1.ReadWarningsRequest:
		m.Uid = ""
	case *coppicev1.ListConsumersRequest:
		m.Agents = texts["agents"]
	case *coppicev1.ListParkedRequest:
		m.Subject = ""
	case *coppicev1.DeleteCollectionRequest:
		m.LabelSelector, m.All, m.Continue, m.Version = "app=web", false, "", ""
		m.Options = &coppicev1.DeleteOptions{PropagationPolicy: one(d, texts["propagation_policy"]...)}
	case *coppicev1.RemoveFinalizerRequest:
		for _, o := range m.GetObjects() {
			o.Preconditions = nil
		}
	case *coppicev1.ProtectRequest: // not of all objects: they would not be deleted any more
		m.Reason, m.DryRun = one(d, texts["reason"]...), m.GetDryRun() && d.in(4)
		m.Objects = []*coppicev1.ProtectTarget{{Name: one(d, "d", "e")}}
	case *coppicev1.ForceFinalizerRequest:
		m.Name, m.Reason, m.Preconditions = one(d, texts["name"][:3]...), one(d, texts["reason"]...), nil
	case *coppicev1.DeleteUnreadableRequest:
		m.Name, m.Reason, m.Preconditions = one(d, texts["name"]...), one(d, texts["reason"]...), nil
	case *coppicev1.VetoRequest:
		m.Name, m.Reason, m.Preconditions = noticed.Name, one(d, texts["reason"]...), nil
		m.Agree, m.Until = d.in(2), 0
		if !m.GetAgree() {
			m.Until = time.Now().Add(time.Duration(1+d.IntN(100)) * time.Hour).UnixMicro()
		}
	case *coppicev1.ExamineRequest: // the scanner's clock may be ahead
		m.Policy, m.Cursor, m.Now = noticed.Policy, nil, time.Now().Add(time.Duration(d.IntN(400))*24*time.Hour).UnixMicro()
	case *coppicev1.ListFinalizersRequest:
		m.Continue = ""
	case *coppicev1.LeaseRequest:
		m.Name, m.Holder, m.About, m.Ttl = one(d, "a", "b", "example.com/sites"), one(d, "", "x", "y"), "host/1", 1000
	case *coppicev1.ProposeRequest:
		if d.in(2) {
			m.Strip = nil
		}
	case *coppicev1.FinishRequest:
		m.Finalizer = one(d, "orphan", "foregroundDeletion", "coppice.dev/contents")
	}
}

// header draws the headers of a request.
func (d *drawer) header(subject string, asJSON bool) nats.Header {
	h := nats.Header{}
	if name := bus.RequestName(subject); name != "" && !d.in(20) {
		h[bus.HeaderRequest] = []string{name}
	}
	if asJSON != d.in(30) {
		h[bus.HeaderContentType] = []string{bus.ContentJSON}
	}
	if d.in(3) {
		h[bus.HeaderCommand] = []string{d.commandID()}
	}
	if d.in(25) {
		name := one(d, bus.HeaderRequest, bus.HeaderContentType, bus.HeaderCommand, "Nats-Request-Info", "Nats-Stream", "Nats-Sequence", "Nats-Expected-Last-Sequence", "Nats-Rollup", "Nats-Msg-Id", "Nats-Service-Error-Code", "Nats-Scheduler", "Status", "x")
		h[name] = append(h[name], one(d, "", "503", `{"acc":"operator"}`, `{"acc":"COPPICE"}`, "null", "sub", "default", strings.Repeat("x", 3000), "\r\nNats-Stream: x"))
	}
	return h
}

// commandID draws the id of a command: of the present time, of another time, a repeated
// id, or none.
func (d *drawer) commandID() string {
	u := uuid.UUID{}
	for i := range u {
		u[i] = byte(d.Uint32())
	}
	at := time.Now()
	switch d.IntN(8) {
	case 0:
		at = at.Add(-10 * time.Minute)
	case 1:
		at = at.Add(30 * time.Second)
	case 2:
		at = time.UnixMilli(int64(d.number() >> 16))
	case 3:
		return u.String() // of a random version
	case 4:
		return one(d, "", "x", uuid.Nil.String(), strings.Repeat("0", 36))
	case 5:
		u, at = uuid.UUID{15: byte(d.IntN(50))}, at.Truncate(10*time.Second) // repeated
	}
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	return u.String()
}
