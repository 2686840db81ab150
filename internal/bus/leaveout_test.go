package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// A consumer leaves out messages if they precede what it has delivered and are not waiting for an acknowledgement.
// When it is created again, it delivers all.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js := testkit.JetStream(t, testkit.NATS(t), bus.RoleGraph)
	name := bus.WorkStream(bus.DefaultRealm)
	// The streams of Coppice are work queues. Here that would forbid the consumer that begins late.
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{bus.WorkSubject(bus.DefaultRealm, ">")}})
	must.Succeed(t, err)
	early, late := bus.WorkSubject(bus.DefaultRealm, bus.QueueDirty), bus.WorkSubject(bus.DefaultRealm, bus.QueueDrain)
	for _, subject := range []string{early, early, late, late, late} {
		if _, err := js.Publish(ctx, subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	healthy, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "healthy", FilterSubject: early, AckPolicy: jetstream.AckExplicitPolicy})
	must.Succeed(t, err)
	if m, err := healthy.Next(jetstream.FetchMaxWait(testkit.Timeout)); err != nil || m.Subject() != early {
		t.Fatal(m, err)
	}
	c := jetstream.ConsumerConfig{Durable: "late", FilterSubject: late, AckPolicy: jetstream.AckExplicitPolicy}
	behind := c
	behind.DeliverPolicy, behind.OptStartSeq = jetstream.DeliverByStartSequencePolicy, 5
	if _, err := s.CreateConsumer(ctx, behind); err != nil {
		t.Fatal(err)
	}
	leaves := func() (leave []*jetstream.ConsumerInfo) {
		t.Helper()
		all, err := bus.Consumers(ctx, s)
		if err == nil {
			leave, err = bus.LeaveOut(ctx, s, all)
		}
		if err != nil || len(all) != 2 {
			t.Fatalf("%d consumers, %v", len(all), err)
		}
		return leave
	}
	leave := leaves()
	if len(leave) != 1 || leave[0].Name != "late" {
		t.Fatalf("%v leave out messages, want the consumer late", leave)
	}
	for range 2 { // only the first still finds the consumer that leaves out messages
		must.Succeed(t, bus.RenewConsumer(ctx, s, leave[0], c))
		is, err := s.Consumer(ctx, "late")
		must.Succeed(t, err)
		if m, err := is.Next(jetstream.FetchMaxWait(testkit.Timeout)); err != nil || m.Subject() != late {
			t.Fatal(m, err)
		}
	}
	if leave := leaves(); len(leave) > 0 {
		t.Errorf("%v leave out messages, want none", leave)
	}
	if is, err := s.Consumer(ctx, "late"); err != nil || is.CachedInfo().NumPending != 1 || is.CachedInfo().NumAckPending != 2 {
		t.Errorf("the new consumer: %v, %v; want 2 of 3 messages delivered", is, err)
	}
}
