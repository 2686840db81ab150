package trust_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// No role can have an answer, or a delivery, act where the role may not publish: every
// request of every role with every kind of target as its reply subject, and consumers
// and snapshots with every kind of target as their deliver subject, on a server with
// an account for each actor.
func TestMatrix(t *testing.T) {
	t.Parallel()
	startWith(t, allinone.Config{Auth: true}).matrix()
}

// The same on three servers, of which the attackers use all.
func TestMatrixInCluster(t *testing.T) {
	t.Parallel()
	startCluster(t).matrix()
}

func (r *realm) matrix() {
	r.t.Helper()
	js, err := jetstream.New(r.conn(bus.RoleAdmin))
	if err != nil {
		r.t.Fatal(err)
	}
	r.called(js)
	before := r.world(js)
	to := targets()
	for _, role := range bus.Actors(bus.Roles(bus.AnyRealm)) {
		nc := r.conn(role.Name)
		tried := attempts(r.t, role)
		if len(tried) == 0 {
			r.t.Errorf("%s may make no request", role.Name)
		}
		unchanged := func(by string) {
			r.t.Helper()
			if after := r.world(js); fmt.Sprint(after) != fmt.Sprint(before) {
				r.t.Errorf("%s %s: now %v, was %v", role.Name, by, after, before)
				before = after
			}
		}
		for _, a := range tried {
			for _, reply := range to {
				r.publish(nc, a.subject, reply, header(a.subject), a.data)
			}
			r.fence(nc, a)
			unchanged("publishes " + a.subject)
		}
		inbox := nc.NewInbox() // of what would be answered
		answers, err := nc.SubscribeSync(inbox)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, reply := range to {
			for _, a := range deliveries(reply) {
				r.publish(nc, a.subject, inbox, nil, a.data)
			}
		}
		for _, a := range tried {
			r.fence(nc, a)
		}
		unchanged("has messages delivered")
		if n, _, err := answers.Pending(); n != 0 || err != nil {
			r.t.Errorf("%s: %d requests to have messages delivered are answered: %v", role.Name, n, err)
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
			attempt{"$JS.API.CONSUMER.CREATE." + stream, []byte(ephemeral)},
			attempt{"$JS.API.CONSUMER.CREATE." + stream + ".x", []byte(named)},
			attempt{"$JS.API.CONSUMER.DURABLE.CREATE." + stream + ".x", []byte(durable)},
			attempt{"$JS.API.STREAM.SNAPSHOT." + stream, fmt.Appendf(nil, `{"deliver_subject":%q,"chunk_size":1024}`, to)},
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
	if err != nil {
		t.Fatal(err)
	}
	parked := bus.ParkedSubject(bus.DefaultRealm, bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), 1)
	tried := slices.DeleteFunc(deliveries(parked), func(a attempt) bool { return !strings.Contains(a.subject, bus.LogStream(bus.DefaultRealm)) })
	tried = append(tried, attempt{"$JS.API.DIRECT.GET." + bus.LogStream(bus.DefaultRealm), []byte(`{"seq":1}`)})
	if len(tried) != 5 {
		t.Fatalf("%d requests are tried", len(tried))
	}
	for _, a := range tried {
		before := r.world(js)
		reply := nc.NewInbox()
		if strings.Contains(a.subject, "DIRECT") {
			reply = parked
		}
		r.publish(nc, a.subject, reply, nil, a.data)
		r.wait(a.subject+" to have an effect", func() bool { return fmt.Sprint(r.world(js)) != fmt.Sprint(before) })
		_ = js.DeleteConsumer(r.ctx, bus.LogStream(bus.DefaultRealm), "x")
		stream, err := js.Stream(r.ctx, bus.ParkedStream(bus.DefaultRealm))
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Purge(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// called creates calls of the external finalizer and the agent that are delivered and not
// acknowledged, so that the test detects a reply that acknowledges one. They are
// delivered again at once.
func (r *realm) called(js jetstream.JetStream) {
	r.t.Helper()
	pods := client.Resource{Plural: bus.ExampleAgent}
	for of, o := range map[client.Resource]*coppicev1.Object{
		secrets: {Metadata: &coppicev1.ObjectMeta{Name: "called", Finalizers: []string{bus.ExampleFinalizer}}},
		pods:    {Metadata: &coppicev1.ObjectMeta{Name: "called"}, Spec: []byte(`{"nodeName":"n"}`)},
	} {
		if _, err := r.owner.Resource(of, "calls").Create(r.ctx, o); err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.owner.Resource(of, "calls").Delete(r.ctx, "called", client.GracePeriod(100*time.Hour)); err != nil {
			r.t.Fatal(err)
		}
	}
	stream := bus.FinalizeStream(bus.DefaultRealm)
	for durable, filter := range map[string]string{
		bus.FinalizerDurable(bus.ExampleFinalizer): bus.FinalizeFilter(bus.DefaultRealm, bus.ExampleFinalizer),
		bus.AgentDurable("", bus.ExampleAgent):     bus.TerminateFilter(bus.DefaultRealm, "", bus.ExampleAgent),
	} {
		c, err := js.CreateConsumer(r.ctx, stream, jetstream.ConsumerConfig{
			Durable: durable, FilterSubject: filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Millisecond,
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := c.Next(jetstream.FetchMaxWait(testkit.Timeout / 2)); err != nil {
			r.t.Fatalf("%s: %v", durable, err)
		}
	}
}

// world is the state that no attempt may change.
type world struct {
	streams map[string]string
	objects int
	lease   string
}

func (r *realm) world(js jetstream.JetStream) world {
	r.t.Helper()
	w := world{streams: map[string]string{}, objects: len(r.objects(secrets, markers)), lease: r.lease(js)}
	list := js.ListStreams(r.ctx)
	for info := range list.Info() {
		state := fmt.Sprintf("%d messages to %d", info.State.Msgs, info.State.LastSeq)
		if strings.HasPrefix(info.Config.Name, "KV_") { // renewed all the time
			state = fmt.Sprintf("%d messages", info.State.Msgs)
		}
		w.streams[info.Config.Name] = fmt.Sprintf("%s, subjects %v, deny purge %t, consumers %v", state, info.Config.Subjects, info.Config.DenyPurge, r.consumers(js, info.Config.Name))
	}
	if err := list.Err(); err != nil {
		r.t.Fatal(err)
	}
	return w
}

// consumers are those of a stream; of the log, which verify reads by one, only those
// with a deliver subject.
func (r *realm) consumers(js jetstream.JetStream, stream string) []string {
	r.t.Helper()
	s, err := js.Stream(r.ctx, stream)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	consumers := s.ListConsumers(r.ctx)
	for info := range consumers.Info() {
		if stream != bus.LogStream(bus.DefaultRealm) || info.Config.DeliverSubject != "" {
			names = append(names, fmt.Sprintf("%s of %s, paused %t", info.Name, info.Config.FilterSubject, info.Paused))
		}
	}
	if err := consumers.Err(); err != nil {
		r.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// fence waits for the replies to two further requests, one after the other: then the
// effects of all earlier replies have happened.
func (r *realm) fence(nc *nats.Conn, a attempt) {
	r.t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for range 2 {
		r.publish(nc, a.subject, inbox, header(a.subject), a.data)
		// "No responders" is a reply too.
		if _, err := sub.NextMsg(testkit.Timeout / 4); err != nil && !errors.Is(err, nats.ErrNoResponders) {
			r.t.Fatalf("%s: %v", a.subject, err)
		}
	}
}
