package trust_test

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// The NATS server refuses every subject that a role may not publish to, in any spelling.
func TestDeniedSubjects(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true, Roles: added()})
	work, finalize := bus.WorkStream(bus.DefaultRealm), bus.FinalizeStream(bus.DefaultRealm)
	other := bus.FinalizerDurable("example.com/other") // its name can be guessed
	for role, subjects := range map[string][]string{
		bus.RoleApplication: {
			// The role may not delete kinds, change realms, or act as another actor.
			"coppice.default.api.application.delete.coppice_dev.kinds._", "coppice.default.api.application.deletecollection.coppice_dev.kinds._",
			"coppice.default.api.application.delete.coppice_dev.kinds.x", "coppice.*.api.application.delete.coppice_dev.kinds._", "coppice.>.api.application.delete.coppice_dev.kinds._",
			"coppice.default.api.application.update.coppice_dev.realms._", "coppice.default.api.application.create.coppice_dev.realms._",
			"coppice.default.api.application.applyacross._.pods.prod", "coppice.default.api.application.applyacross.*.*.*",
			"coppice.default.api.application.>", "coppice.default.api.*.delete._.secrets.prod",
			"coppice.default.api.operator.delete._.secrets.prod", "coppice.default.api.application.readlog._._._", "coppice.default.internal.propose",
			// Nor read the past.
			"coppice.default.api.application.readpast._.secrets.prod", "coppice.default.api.application.readpast._._._", "coppice.default.api.reader.readpast._.secrets.prod",
		},
		bus.RoleViewer: {
			"coppice.default.api.viewer.readpast._.secrets.prod", "coppice.default.api.viewer.readpast._._._", "coppice.default.api.viewer.readlog._._._",
			"coppice.default.api.reader.readpast._.secrets.prod", "coppice.default.api.viewer.delete._.secrets.prod", "coppice.default.api.viewer.create._.secrets.prod",
		},
		bus.RoleReader: {
			"coppice.default.api.reader.delete._.secrets.prod", "coppice.default.api.reader.create._.secrets.prod", "coppice.default.api.reader.verify._._._",
			"coppice.default.api.reader.list._.secrets.prod.x", "$JS.API.DIRECT.GET." + bus.LogStream(bus.DefaultRealm), "$JS.API.STREAM.MSG.GET." + bus.LogStream(bus.DefaultRealm), "$SRV.PING",
		},
		bus.RoleFinalizer: {
			"$JS.API.CONSUMER.MSG.NEXT." + finalize + "." + other, "$JS.ACK." + finalize + "." + other + ".1.1.1.1.0",
			"$JS.ACK._.h." + finalize + "." + other + ".1.1.1.1.0.x", "$JS.ACK._.h." + work + ".processors.1.1.1.1.0",
			"coppice.default.api.finalizer.consumefinalizer._._._.example.com/other", "coppice.default.api.finalizer.consumefinalizer._._._.>",
			"coppice.default.api.finalizer.removefinalizer._.secrets.prod.example.com/other", "coppice.default.api.finalizer.removefinalizer._.secrets.prod.*.com/bucket",
			"coppice.default.parked.work.dirty.1", "coppice.default.parked.finalize._.secrets.u.example.com/other", "coppice.default.finalize._.secrets.u." + bus.ExampleFinalizer,
		},
		controller.Name: {
			"$JS.API.CONSUMER.MSG.NEXT." + finalize + "." + other, "$JS.ACK." + finalize + "." + other + ".1.1.1.1.0",
			"coppice.default.api.sites.consumefinalizer._._._.example.com/other", "coppice.default.api.sites.consumefinalizer._._._.>",
			"coppice.default.api.sites.removefinalizer._.secrets.prod.example.com/other", "coppice.default.api.sites.delete.coppice_dev.kinds._",
			"coppice.default.api.application.delete._.secrets.prod", "coppice.default.finalize._.secrets.u.example.com/site",
		},
		expiry.Name: {
			"$JS.API.CONSUMER.MSG.NEXT." + finalize + "." + bus.ExpiryDurable("example.com/other"), "$JS.ACK." + finalize + "." + bus.ExpiryDurable("example.com/other") + ".1.1.1.1.0",
			"coppice.default.api.keeper.consumeexpiry._._._.example.com/other", "coppice.default.api.keeper.consumeexpiry._._._.>", "coppice.default.api.operator.veto._.secrets.prod",
			"coppice.default.api.keeper.delete._.secrets.prod", "coppice.default.api.keeper.list._.secrets.prod", notice,
		},
		bus.RoleAgent: {
			"coppice.default.api.agent.delete._.secrets.prod", "coppice.default.api.agent.delete.*.pods.prod", "coppice.default.api.agent.consumeagent._.secrets._", "coppice.default.api.agent.consumeagent._.*._",
		},
		bus.RoleScanner:   {"coppice.default.work.orphan", "coppice.default.work.dirty.x", "coppice.default.internal.propose", "coppice.default.log"},
		bus.RoleProcessor: {"coppice.default.work.dirty", "coppice.default.internal.finish", "coppice.default.parked.work.orphan.1", "$JS.API.CONSUMER.MSG.NEXT." + work + "." + bus.DurableOrphan},
	} {
		var denied atomic.Int64
		nc, err := r.connect(role, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				denied.Add(1)
			}
		}))
		must.Succeed(t, err)
		for i, subject := range subjects {
			data, err := rpc.Encode(&coppicev1.DeleteCollectionRequest{All: true})
			must.Succeed(t, err)
			r.publish(nc, subject, nc.NewInbox(), header(subject), data)
			r.WaitFor(role+" to be denied "+subject, func() bool { return denied.Load() == int64(i+1) })
		}
		nc.Close()
	}
	r.unharmed()
}

// Requests that a role may send, with content that exceeds its rights or is malformed,
// are refused or find nothing.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	operator, reader := r.conn(bus.RoleOperator), r.conn(bus.RoleReader)
	of := func(actor, verb, finalizer string) string {
		a := bus.API{Realm: bus.DefaultRealm, Actor: actor, Verb: verb, Finalizer: finalizer}
		if verb == bus.VerbRemoveFinalizer {
			a.Plural, a.Namespace = "secrets", markers
		}
		return a.Subject()
	}
	for _, c := range []struct {
		name    string
		nc      *nats.Conn
		subject string
		request proto.Message
		reason  client.Reason // none: it is answered
	}{
		{"the consumer of all finalizers", operator, of(bus.RoleOperator, bus.VerbConsumeFinalizer, ">"), &coppicev1.ConsumeRequest{}, client.ErrBadRequest},
		{"the consumer of any finalizer", operator, of(bus.RoleOperator, bus.VerbConsumeFinalizer, "*"), &coppicev1.ConsumeRequest{}, client.ErrBadRequest},
		{"the consumer of a group's finalizers", operator, of(bus.RoleOperator, bus.VerbConsumeFinalizer, "example.com/*"), &coppicev1.ConsumeRequest{}, client.ErrBadRequest},
		{"the consumer of a built-in finalizer", operator, of(bus.RoleOperator, bus.VerbConsumeFinalizer, "orphan"), &coppicev1.ConsumeRequest{}, client.ErrBadRequest},
		{"the removal of all finalizers", operator, of(bus.RoleOperator, bus.VerbRemoveFinalizer, ">"), &coppicev1.RemoveFinalizerRequest{Objects: []*coppicev1.FinalizerTarget{{Name: "s0"}}}, ""},
		{"consumers by wildcards", reader, of(bus.RoleReader, bus.VerbListConsumers, ""), &coppicev1.ListConsumersRequest{Finalizers: []string{"*", ">", ""}, Agents: []string{"*", ">", "", "a b", "*.*"}}, client.ErrBadRequest},
		{"parked work by wildcards", reader, of(bus.RoleReader, bus.VerbListParked, ""), &coppicev1.ListParkedRequest{Subject: "coppice.default.finalize.>"}, client.ErrBadRequest},
		{"parked work of another stream", reader, of(bus.RoleReader, bus.VerbListParked, ""), &coppicev1.ListParkedRequest{Subject: bus.LogSubject(bus.DefaultRealm)}, client.ErrBadRequest},
		{"parked work behind the last", reader, of(bus.RoleReader, bus.VerbListParked, ""), &coppicev1.ListParkedRequest{After: math.MaxUint64, Limit: math.MaxUint32}, ""},
		{"parked work of no id", reader, of(bus.RoleReader, bus.VerbListParked, ""), &coppicev1.ListParkedRequest{Ids: []uint64{0, math.MaxUint64}}, ""},
		{"a retry of no id", operator, of(bus.RoleOperator, bus.VerbRetryParked, ""), &coppicev1.ParkedRequest{Ids: []uint64{0, math.MaxUint64}}, ""},
		{"the log to its end", reader, of(bus.RoleReader, bus.VerbReadLog, ""), &coppicev1.ReadLogRequest{FromSequence: 1, ToSequence: math.MaxUint64, Limit: math.MaxUint32, MaxBytes: math.MaxUint64}, ""},
		{"the log behind its end", reader, of(bus.RoleReader, bus.VerbReadLog, ""), &coppicev1.ReadLogRequest{FromSequence: math.MaxUint64, FromRevision: math.MaxUint64}, ""},
		{"the log of nothing", reader, of(bus.RoleReader, bus.VerbReadLog, ""), &coppicev1.ReadLogRequest{Uids: []string{""}}, client.ErrBadRequest},
	} {
		m, sub := r.ask(c.nc, c.subject, c.request)
		if got := client.Reason(m.Header.Get(bus.HeaderReason)); got != c.reason {
			t.Errorf("%s: answered with %q (%s), want %q", c.name, got, m.Header.Get(micro.ErrorHeader), c.reason)
		}
		_ = sub.Unsubscribe()
	}
	r.unharmed()
}

// A client cannot choose its account by a header: a server with accounts replaces the
// header, and the services of a server without accounts ignore it.
func TestForgedAccount(t *testing.T) {
	t.Parallel()
	data, err := rpc.Encode(&coppicev1.ListRequest{})
	must.Succeed(t, err)
	for name, auth := range map[string]bool{"with accounts": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startWith(t, allinone.Config{Auth: auth, OneAccount: !auth})
			nc := r.conn(bus.RoleReader)
			list := subject(bus.RoleReader, bus.VerbList, "secrets", markers)
			h := header(list)
			h.Set("Nats-Request-Info", `{"acc":"`+bus.RoleOperator+`"}`)
			m, err := nc.RequestMsg(&nats.Msg{Subject: list, Header: h, Data: data}, testkit.Timeout)
			must.Succeed(t, err)
			want := client.ErrForbidden
			if auth { // the header says reader, as the subject does
				want = ""
			}
			if got := client.Reason(m.Header.Get(bus.HeaderReason)); got != want {
				t.Errorf("answered with %q (%s), want %q", got, m.Header.Get(micro.ErrorHeader), want)
			}
		})
	}
}

// A message without the version of a request, or with the headers of stored messages, is
// refused.
func TestNoRequests(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	nc := r.conn(bus.RoleOperator)
	data, err := rpc.Encode(&coppicev1.DeleteCollectionRequest{All: true})
	must.Succeed(t, err)
	unversioned, err := proto.Marshal(&coppicev1.DeleteCollectionRequest{All: true})
	must.Succeed(t, err)
	for name, c := range map[string]struct {
		header nats.Header
		data   []byte
	}{
		"no verb":               {nats.Header{}, data},
		"another verb":          {nats.Header{bus.HeaderRequest: {bus.VerbList}}, data},
		"no body":               {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}}, nil},
		"no version":            {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}}, unversioned},
		"null":                  {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}, bus.HeaderContentType: {bus.ContentJSON}}, []byte("null")},
		"everything by mistake": {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}, bus.HeaderContentType: {bus.ContentJSON}}, []byte(`{"protocol":1}`)},
		"a stored message":      {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}, "Nats-Stream": {"x"}}, data},
		"a sequence":            {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}, "Nats-Sequence": {"1"}}, data},
		"a status":              {nats.Header{bus.HeaderRequest: {bus.VerbDeleteCollection}, "Nats-Service-Error-Code": {"400"}}, data},
	} {
		m, err := nc.RequestMsg(&nats.Msg{Subject: everything, Header: c.header, Data: c.data}, testkit.Timeout)
		must.Succeed(t, err)
		if got := client.Reason(m.Header.Get(bus.HeaderReason)); got != client.ErrBadRequest {
			t.Errorf("%s: answered with %q (%s)", name, got, m.Header.Get(micro.ErrorHeader))
		}
	}
	r.unharmed()
}

// Parked work whose content names another subject than it was parked under is not
// published to that subject.
func TestForgedParkedWork(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	nc := r.conn(bus.RoleProcessor)
	forged, err := proto.Marshal(&coppicev1.Parked{Subject: bus.LogSubject(bus.DefaultRealm), Message: []byte("x")})
	must.Succeed(t, err)
	parked := bus.ParkedSubject(bus.DefaultRealm, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), 1)
	if m, err := nc.Request(parked, forged, testkit.Timeout); err != nil || strings.Contains(string(m.Data), "error") {
		t.Fatalf("%v, %v", m, err)
	}
	before, err := r.Log().Last(r.Ctx)
	must.Succeed(t, err)
	list, err := r.Operations().ListParked(r.Ctx)
	if err != nil || len(list.Parked) != 1 {
		t.Fatalf("parked: %v, %v", list, err)
	}
	failed, err := r.Operations().RetryParked(r.Ctx, []uint64{list.Parked[0].GetId()})
	if err != nil || !errors.Is(failed[0], client.ErrInvalid) {
		t.Errorf("retried: %v, %v", failed, err)
	}
	if last, err := r.Log().Last(r.Ctx); err != nil || last != before {
		t.Errorf("the log ends at %d, and did at %d: %v", last, before, err)
	}
}

// A pull request for many messages of the work stream is refused: it could stay for ever.
func TestLargePulls(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	pull := bus.PullSubject(bus.WorkStream(bus.DefaultRealm), bus.DurableProcessors)
	m, err := r.conn(bus.RoleProcessor).Request(pull, []byte(`{"batch":1000000}`), testkit.Timeout)
	must.Succeed(t, err)
	if status := m.Header.Get("Status"); status != "409" {
		t.Errorf("answered with %v, want status 409", m.Header)
	}
}

// The scanner's credentials can publish hints that name a revision which does not exist:
// more of them than there are workers do not delay a cascade.
func TestHintsOfTheFuture(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	hint, err := proto.Marshal(&coppicev1.DirtyChunk{Groups: []*coppicev1.DependentsOf{{Revision: 1 << 60, Dependents: []byte(uid.New())}}})
	must.Succeed(t, err)
	nc := r.conn(bus.RoleScanner)
	for range 16 {
		r.publish(nc, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), "", nil, hint)
	}
	must.Succeed(t, nc.FlushWithContext(r.Ctx))
	r.cascades()
}

// A client that leaves while its verification runs does not prevent other verifications.
func TestAbandonedVerification(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	for range 3 {
		_, sub := r.ask(r.conn(bus.RoleOperator), bus.RealmAPI(bus.DefaultRealm, bus.RoleOperator, bus.VerbVerify).Subject(), &coppicev1.VerifyRequest{})
		must.Succeed(t, sub.Unsubscribe())
		if v, err := r.Operations().Verify(r.Ctx); err != nil || v.GetDifference() != "" {
			t.Errorf("verification: %v, %v", v, err)
		}
	}
}

// Names and reply subjects of several KiB do not become subjects of the graph
// service: the NATS server would end its connections.
func TestLongSubjects(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]bool{"with accounts": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := &failureLog{Handler: slog.DiscardHandler}
			r := startWith(t, allinone.Config{Auth: auth, OneAccount: !auth, Log: slog.New(failures)})
			nc := r.conn(bus.RoleReader)
			long := strings.Repeat("x", 5000)
			for _, request := range []*coppicev1.ListConsumersRequest{{Agents: []string{long}}, {Agents: []string{"pods." + long}}, {Finalizers: []string{long}}} {
				m, _ := r.ask(nc, bus.RealmAPI(bus.DefaultRealm, bus.RoleReader, bus.VerbListConsumers).Subject(), request)
				if len(request.GetAgents()) > 0 && m.Header.Get(bus.HeaderReason) != string(client.ErrBadRequest) {
					t.Errorf("an agent of %d bytes is answered with %v", len(request.GetAgents()[0]), m.Header)
				}
			}
			data, err := rpc.Encode(&coppicev1.WatchRequest{})
			must.Succeed(t, err)
			watch := subject(bus.RoleReader, bus.VerbWatch, "secrets", markers)
			for n := 900; n <= 4000; n += 10 {
				r.publish(nc, watch, bus.InboxPrefix(bus.RoleReader)+"."+strings.Repeat("y", n), header(watch), data)
			}
			for range 2 {
				m, _ := r.ask(nc, watch, &coppicev1.WatchRequest{})
				if why := m.Header.Get(micro.ErrorHeader); why != "" {
					t.Errorf("a watch is refused: %s", why)
				}
			}
			r.unharmed()
			for _, line := range failures.list() {
				t.Errorf("a service has failed: %s", line)
			}
		})
	}
}
