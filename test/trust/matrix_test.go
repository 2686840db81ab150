package trust_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/archive/natsstore"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// No role can have an answer, or a delivery, act where the role may not publish: every
// request of every role with every kind of target as its reply subject, and consumers
// and snapshots with every kind of target as their deliver subject, on a server with
// an account for each actor.
func TestMatrix(t *testing.T) {
	t.Parallel()
	startWith(t, allinone.Config{Auth: true, Roles: added()}).matrix(actors()...)
}

// The same for clients without a name, on a server that asks for no password.
func TestMatrixOfLocalUser(t *testing.T) {
	t.Parallel()
	startWith(t, allinone.Config{Roles: append(added(), bus.AdminRole())}).matrix(bus.LocalRole(bus.AnyRealm))
}

// The same on three servers, of which the attackers use all.
func TestMatrixInCluster(t *testing.T) {
	t.Parallel()
	startCluster(t, nil).matrix(actors()...)
}

// The same for the users of a users file, whose accounts import more than the users may publish.
func TestMatrixOfUsersFile(t *testing.T) {
	t.Parallel()
	f, err := access.Parse("users.yaml", []byte(`
version: 1
users:
  shop: {roles: [application], namespaces: [shop]}
  bucket: {roles: [finalizer], namespaces: [shop], finalizers: [`+bus.ExampleFinalizer+`]}
  pods: {roles: [agent], agents: [pods], namespaces: [shop]}
`))
	must.Succeed(t, err)
	r := startWith(t, allinone.Config{Auth: true, Users: f, Roles: added()})
	r.matrix(f.NATSRoles()...)
}

// matrix has each of the roles try everything.
func (r *realm) matrix(roles ...bus.Role) {
	r.TB.Helper()
	admin := r.conn(bus.RoleAdmin)
	js, err := jetstream.New(admin)
	must.Succeed(r.TB, err)
	r.maintain(admin)
	r.called(js)
	archive, err := natsstore.Create(r.Ctx, js, archiveBucket, 1)
	must.Succeed(r.TB, err)
	must.Succeed(r.TB, archive.Put(r.Ctx, "x", strings.NewReader("entry"), 5))
	before := r.settled(js)
	to := targets()
	for _, role := range roles {
		nc := r.conn(role.Name)
		tried := attempts(r.TB, role)
		if len(tried) == 0 {
			r.TB.Errorf("%s may make no request", role.Name)
		}
		unchanged := func(by, but string) {
			r.TB.Helper()
			if fmt.Sprint(r.unchanged(js)) == fmt.Sprint(before) {
				return
			}
			after := r.settled(js)
			if but != "" {
				before.streams[but] = after.streams[but]
			}
			if fmt.Sprint(after) != fmt.Sprint(before) {
				r.TB.Errorf("%s %s: now %v, was %v", role.Name, by, after, before)
				before = after
			}
		}
		for _, a := range tried {
			for _, reply := range to {
				r.publish(nc, a.subject, reply, a.header, a.data)
			}
			r.fence(nc, a)
			unchanged(fmt.Sprintf("publishes %.100q to %s", a.data, a.subject), a.stores)
		}
		inbox := nc.NewInbox() // of what would be answered
		answers, err := nc.SubscribeSync(inbox)
		must.Succeed(r.TB, err)
		for _, reply := range to {
			for _, a := range deliveries(reply) {
				r.publish(nc, a.subject, inbox, nil, a.data)
			}
		}
		for _, a := range tried {
			if a.stores == "" {
				r.fence(nc, a)
			}
		}
		unchanged("has messages delivered", "")
		if n, _, err := answers.Pending(); n != 0 || err != nil {
			r.TB.Errorf("%s: %d requests to have messages delivered are answered: %v", role.Name, n, err)
		}
	}
}

// header returns the headers of a request; nil if the subject is not one of requests.
func header(subject string) nats.Header {
	if bus.RequestName(subject) == "" {
		return nil
	}
	return rpc.Header(subject, nil)
}

// deliveries are the requests by which the NATS server publishes to a deliver subject.
func deliveries(to string) []attempt {
	var list []attempt
	for _, stream := range streams() {
		config := fmt.Sprintf(`"deliver_subject":%q,"deliver_policy":"all","ack_policy":"none"`, to)
		ephemeral := fmt.Sprintf(`{"stream_name":%q,"config":{%s}}`, stream, config)
		named := fmt.Sprintf(`{"stream_name":%q,"config":{"name":"x",%s}}`, stream, config)
		durable := fmt.Sprintf(`{"stream_name":%q,"config":{"durable_name":"x",%s}}`, stream, config)
		list = append(list,
			attempt{subject: "$JS.API.CONSUMER.CREATE." + stream, data: []byte(ephemeral)},
			attempt{subject: "$JS.API.CONSUMER.CREATE." + stream + ".x", data: []byte(named)},
			attempt{subject: "$JS.API.CONSUMER.DURABLE.CREATE." + stream + ".x", data: []byte(durable)},
			attempt{subject: "$JS.API.STREAM.SNAPSHOT." + stream, data: fmt.Appendf(nil, `{"deliver_subject":%q,"chunk_size":1024}`, to)},
		)
	}
	return list
}

// The requests of TestMatrix change something if they are permitted, so the test detects
// an excessive permission.
func TestMatrixNotices(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	nc := r.conn(bus.RoleAdmin)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	r.maintain(nc)
	parked := bus.ParkedSubject(bus.DefaultRealm, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), 1)
	tried := slices.DeleteFunc(deliveries(parked), func(a attempt) bool { return !strings.Contains(a.subject, bus.LogStream(bus.DefaultRealm)) })
	// A commit has headers by which no other stream stores it, so the first of these requests reads another message.
	stored, err := js.Publish(r.Ctx, parked, []byte("x"))
	must.Succeed(t, err)
	tried = append([]attempt{{subject: "$JS.API.DIRECT.GET." + bus.ParkedStream(bus.DefaultRealm), data: fmt.Appendf(nil, `{"seq":%d}`, stored.Sequence)}}, tried...)
	tried = append(tried, attempt{subject: "$JS.API.DIRECT.GET." + bus.LogStream(bus.DefaultRealm), data: []byte(`{"seq":1}`)})
	if len(tried) != 6 {
		t.Fatalf("%d requests are tried", len(tried))
	}
	for i, a := range tried {
		before := r.settled(js)
		reply := nc.NewInbox()
		switch i {
		case 0:
			reply = parked
		case 5:
			reply = "$JS.API.STREAM.LEADER.STEPDOWN." + bus.LogStream(bus.DefaultRealm)
		}
		r.publish(nc, a.subject, reply, nil, a.data)
		r.WaitFor(a.subject+" to have an effect", func() bool { return fmt.Sprint(r.unchanged(js)) != fmt.Sprint(before) })
		r.undelivered(js, bus.LogStream(bus.DefaultRealm))
		stream, err := js.Stream(r.Ctx, bus.ParkedStream(bus.DefaultRealm))
		must.Succeed(t, err)
		must.Succeed(t, stream.Purge(r.Ctx))
	}
}

// undelivered deletes the consumers of a stream that have a deliver subject: the NATS server would
// delete them some seconds later, and that is a change of the state, too.
func (r *realm) undelivered(js jetstream.JetStream, stream string) {
	r.TB.Helper()
	s, err := js.Stream(r.Ctx, stream)
	must.Succeed(r.TB, err)
	list := s.ListConsumers(r.Ctx)
	for info := range list.Info() {
		if info.Config.DeliverSubject == "" {
			continue
		}
		if err := js.DeleteConsumer(r.Ctx, stream, info.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			r.TB.Fatal(err)
		}
	}
	must.Succeed(r.TB, list.Err())
}

// called creates calls of the external finalizers and the agent that are delivered and not
// acknowledged, so that the test detects a reply that acknowledges one. They are
// delivered again at once.
func (r *realm) called(js jetstream.JetStream) {
	r.TB.Helper()
	pods := client.Resource{Plural: bus.ExampleAgent}
	for of, o := range map[client.Resource]*coppicev1.Object{
		secrets: {Metadata: &coppicev1.ObjectMeta{Name: "called", Finalizers: []string{bus.ExampleFinalizer, controllerFinalizer}}},
		pods:    {Metadata: &coppicev1.ObjectMeta{Name: "called"}, Spec: []byte(`{"nodeName":"n"}`)},
	} {
		r.Create(of, "calls", o)
		r.Delete(of, "calls", "called", client.GracePeriod(100*time.Hour))
	}
	r.notified(js)
	stream := bus.FinalizeStream(bus.DefaultRealm)
	for durable, filter := range map[string]string{
		bus.FinalizerDurable(bus.ExampleFinalizer): bus.FinalizeFilter(bus.DefaultRealm, bus.ExampleFinalizer),
		bus.FinalizerDurable(controllerFinalizer):  bus.FinalizeFilter(bus.DefaultRealm, controllerFinalizer),
		bus.AgentDurable("", bus.ExampleAgent):     bus.TerminateFilter(bus.DefaultRealm, "", bus.ExampleAgent),
	} {
		c, err := js.CreateConsumer(r.Ctx, stream, jetstream.ConsumerConfig{
			Durable: durable, FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Millisecond,
		})
		must.Succeed(r.TB, err)
		// In a cluster, the consumer's leader may not have subscribed yet, or this server may not know of it.
		r.WaitFor("a call for "+durable, func() bool {
			_, err := c.Next(jetstream.FetchMaxWait(testkit.Timeout / 2))
			if err != nil && !errors.Is(err, nats.ErrNoResponders) {
				r.TB.Fatalf("%s: %v", durable, err)
			}
			return err == nil
		})
	}
}

// noticed is the object that notified creates, and the policy that gives notice of its deletion.
var noticed = struct{ Plural, Namespace, Name, Policy string }{secrets.Plural, "calls", "noticed", "called"}

// notified has a program called about a notice.
func (r *realm) notified(js jetstream.JetStream) {
	r.TB.Helper()
	object := r.Create(secrets, noticed.Namespace, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: noticed.Name}})
	r.Create(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "", &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: noticed.Policy},
		Spec:     fmt.Appendf(nil, `{"kind":"Secret","condition":"object.metadata.name == '%s'","notice":"100h","call":"example.com/keeper"}`, noticed.Name),
	})
	c, err := js.CreateConsumer(r.Ctx, bus.FinalizeStream(bus.DefaultRealm), bus.ExpiryConsumer(bus.DefaultRealm, "example.com/keeper"))
	must.Succeed(r.TB, err)
	examine := bus.InternalSubject(bus.DefaultRealm, bus.OpExamine)
	scanner := r.conn(bus.RoleScanner)
	r.WaitFor("a call about a notice", func() bool {
		data, err := rpc.Encode(&coppicev1.ExamineRequest{Policy: noticed.Policy, Now: time.Now().UnixMicro(), Limit: 1000})
		must.Succeed(r.TB, err)
		if _, err := scanner.RequestMsg(&nats.Msg{Subject: examine, Header: header(examine), Data: data}, testkit.Timeout); err != nil {
			return false
		}
		_, err = c.Next(jetstream.FetchMaxWait(time.Second))
		return err == nil
	})
	// The warning is published after the notice was committed.
	warning := bus.Warning{Realm: bus.DefaultRealm, Plural: secrets.Plural, Namespace: noticed.Namespace, UID: object.GetMetadata().GetUid(), Reason: "ExpiryNotice"}
	r.WaitFor("the warning of the notice", func() bool {
		ctx, cancel := testkit.Attempt(r.Ctx)
		defer cancel()
		s, err := js.Stream(ctx, bus.WarningStream(bus.DefaultRealm))
		if err == nil {
			_, err = s.GetLastMsgForSubject(ctx, warning.Subject())
		}
		return err == nil
	})
}

// unchanged is the state that no attempt may change.
type unchanged struct {
	streams map[string]string
	objects int
	lease   string
	// maintained are the requests to move leaders, streams and servers that the NATS servers have
	// answered, carried out or not. The leaders themselves also change when a machine is busy.
	maintained []string
}

// maintained collects subjects of requests.
type maintained struct {
	mu       sync.Mutex
	subjects []string
}

func (m *maintained) add(subject string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subjects = append(m.subjects, subject)
}

func (m *maintained) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.subjects)
}

// maintain watches for requests to move leaders, streams and servers. The server says so of each
// request to JetStream that it answers.
func (r *realm) maintain(nc *nats.Conn) {
	r.TB.Helper()
	r.maintained = &maintained{}
	_, err := nc.Subscribe(server.JSAuditAdvisory, func(m *nats.Msg) {
		var audit server.JSAPIAudit
		if err := json.Unmarshal(m.Data, &audit); err != nil {
			r.TB.Error(err)
			return
		}
		for _, of := range []string{"STEPDOWN", "PEER", "EVACUATE", "MOVE", "CANCEL_MOVE", "META", "SERVER", "ACCOUNT", "RESET", "UNPIN"} {
			if slices.Contains(strings.Split(audit.Subject, "."), of) {
				r.maintained.add(audit.Subject)
				return
			}
		}
	})
	if err == nil {
		err = nc.FlushWithContext(r.Ctx)
	}
	must.Succeed(r.TB, err)
}

func (r *realm) unchanged(js jetstream.JetStream) (w unchanged) {
	r.TB.Helper()
	limit := 10 * time.Second
	r.WaitFor("the state of the realm", func() bool {
		// A request that is lost in an election of a leader gets no reply.
		limit *= 2
		ctx, cancel := context.WithTimeout(r.Ctx, limit)
		defer cancel()
		var err error
		w, err = r.look(ctx, js)
		return err == nil
	})
	return w
}

// settled returns the state that two readings agree on: NATS leaves out of a list what does not
// reply in time.
func (r *realm) settled(js jetstream.JetStream) (w unchanged) {
	r.TB.Helper()
	r.WaitFor("two equal readings of the state of the realm", func() bool {
		before := w
		w = r.unchanged(js)
		return fmt.Sprint(w) == fmt.Sprint(before)
	})
	return w
}

// look is one attempt of unchanged.
func (r *realm) look(ctx context.Context, js jetstream.JetStream) (unchanged, error) {
	r.TB.Helper()
	w := unchanged{streams: map[string]string{}, objects: len(r.objects(secrets, markers)), lease: r.lease(js), maintained: r.maintained.list()}
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		consumers, err := consumersOf(ctx, js, info.Config.Name)
		if err != nil {
			return w, err
		}
		state := fmt.Sprintf("%d messages to %d", info.State.Msgs, info.State.LastSeq)
		if strings.HasPrefix(info.Config.Name, "KV_") { // renewed all the time
			state = fmt.Sprintf("%d messages", info.State.Msgs)
		}
		w.streams[info.Config.Name] = fmt.Sprintf("%s, subjects %v, deny purge %t, consumers %v", state, info.Config.Subjects, info.Config.DenyPurge, consumers)
	}
	return w, list.Err()
}

// consumersOf returns the consumers of a stream; of the log, which verify reads by one, only those
// with a deliver subject.
func consumersOf(ctx context.Context, js jetstream.JetStream, stream string) ([]string, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	var names []string
	consumers := s.ListConsumers(ctx)
	for info := range consumers.Info() {
		if stream != bus.LogStream(bus.DefaultRealm) || info.Config.DeliverSubject != "" {
			names = append(names, fmt.Sprintf("%s of %s, paused %t", info.Name, info.Config.FilterSubject, info.Paused))
		}
	}
	slices.Sort(names)
	return names, consumers.Err()
}

// fence waits for the replies to two further requests, one after the other: then the
// effects of all earlier replies have happened.
func (r *realm) fence(nc *nats.Conn, a attempt) {
	r.TB.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	must.Succeed(r.TB, err)
	defer func() { _ = sub.Unsubscribe() }()
	for range 2 {
		r.publish(nc, a.subject, inbox, a.header, a.data)
		// "No responders" is a reply too.
		m, err := sub.NextMsg(testkit.Timeout)
		if err != nil && (!errors.Is(err, nats.ErrNoResponders) || a.answer != "") {
			r.TB.Fatalf("%s: %v", a.subject, err)
		}
		if err == nil && !strings.Contains(string(m.Data), a.answer) {
			r.TB.Fatalf("%s: the reply %q does not contain %s", a.subject, m.Data, a.answer)
		}
	}
}
