package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// A log is followed even if the stream has reached its limit of consumers. The reason why
// that is slow is logged once.
func TestFollowWithoutConsumers(t *testing.T) {
	t.Parallel()
	b := newWrittenWith(t, func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 })
	if _, err := b.JS().CreateConsumer(b.Ctx, bus.LogStream(realm), jetstream.ConsumerConfig{Durable: "reader"}); err != nil {
		t.Fatal(err)
	}
	var said testkit.Output
	b.other.Report(slog.New(slog.NewTextHandler(&said, nil)))
	for i := range byte(2) {
		must.Succeed(t, appendTo(b.Ctx, b.log, uint64(i), i+1))
	}
	ctx, cancel := context.WithCancel(b.Ctx)
	visited, ended := make(chan uint64, 10), make(chan error, 1)
	go func() {
		ended <- b.other.Follow(ctx, 1, func(m eventlog.Message) error {
			visited <- m.Position
			return nil
		})
	}()
	for want := uint64(1); want <= 4; want++ {
		if want > 2 { // while it follows
			must.Succeed(t, appendTo(b.Ctx, b.log, want-1, byte(want)))
		}
		if got := testkit.Receive(t, b.Ctx, "a commit", visited); got != want {
			t.Fatalf("visited %d, want %d", got, want)
		}
	}
	cancel()
	if err := b.receive(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	s := said.String()
	late := strings.Count(s, "deadline exceeded") // each is another reason, after which the first is logged again
	if n := strings.Count(s, "cannot follow the log"); n < 1 || n > 1+2*late || !strings.Contains(s, "maximum consumers limit reached") {
		t.Errorf("the log says %q", s)
	}
}

// again repeats a read that NATS has not answered in time.
func again[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for {
		result, err := read()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return result, err
		}
	}
}

// Reading stays within its bounds, and needs no consumer.
func TestRead(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	for i := range byte(5) {
		must.Succeed(t, appendTo(b.Ctx, b.log, uint64(i), i+1))
	}
	for _, r := range []struct {
		from            uint64
		limit, maxBytes int
		want            string
		pending         uint64
	}{
		{1, 10, 1 << 20, "12345", 0},
		{3, 2, 1 << 20, "34", 1},
		{2, 10, 1, "2", 3},
		{6, 10, 1 << 20, "", 0},
	} {
		var got string
		pending, err := again(b.Ctx, func() (uint64, error) {
			got = ""
			return b.other.Read(b.Ctx, r.from, r.limit, r.maxBytes, func(m eventlog.Message) error {
				got += string(rune('0' + m.Position))
				return nil
			})
		})
		if err != nil || got != r.want || pending != r.pending {
			t.Errorf("%+v: got %q, pending %d, %v", r, got, pending, err)
		}
	}
	fail := errors.New("enough")
	if _, err := again(b.Ctx, func() (uint64, error) {
		return b.other.Read(b.Ctx, 1, 10, 0, func(eventlog.Message) error { return fail })
	}); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	b.noConsumers()
}

// A message that is no commit of the realm is not returned as one: another text, a
// commit of another secret, and a copy of a commit at another position.
func TestGet(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	must.Succeed(t, appendTo(b.Ctx, b.log, 0, 1))
	want, err := b.other.Get(b.Ctx, 1)
	must.Succeed(t, err)
	if c, err := eventlog.Decode(want); err != nil || c.ID[0] != 1 {
		t.Errorf("sequence 1: %v, %v", c, err)
	}
	copied, err := keys.Seal(bytes.Clone(want), 1)
	must.Succeed(t, err)
	_, resembling := commit(2, 3)
	forged, err := eventlog.NewKeys(secret.Secrets{}.Draw(), realm).Seal(resembling, 3)
	must.Succeed(t, err)
	for i, m := range [][]byte{copied, forged, []byte("not a commit")} {
		b.store(m)
		if got, err := b.other.Get(b.Ctx, uint64(i+2)); !errors.Is(err, eventlog.ErrForeign) || got != nil {
			t.Errorf("sequence %d: %d bytes, %v; want ErrForeign", i+2, len(got), err)
		} else if other := errors.Is(err, eventlog.ErrOtherSecret); other != (i == 1) {
			t.Errorf("sequence %d: %v", i+2, err)
		}
	}
	if _, err := b.other.Get(b.Ctx, 5); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("behind the end: %v", err)
	}
}

// A revision is found in the commit that has it, also where other messages
// stand between commits.
func TestSeek(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	if at, err := b.log.Seek(b.Ctx, 7); err != nil || at != 1 {
		t.Errorf("in an empty log: %d, %v", at, err)
	}
	for i, first := range []uint64{1, 1, 4, 0, 9, 0, 0, 9, 12} {
		if first == 0 {
			b.store([]byte("not a commit"))
			continue
		}
		h := eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{byte(i + 1)}, Epoch: 1, Time: 1, FirstRevision: first, Key: 1}
		by := keys
		if i == 0 {
			by = eventlog.NewKeys(secret.Secrets{}.Draw(), realm) // it only looks like a commit
		}
		message, err := by.Seal(eventlog.NewBuilder(h).Bytes(), uint64(i+1))
		must.Succeed(t, err)
		b.store(message)
	}
	for revision, want := range map[uint64]uint64{1: 2, 3: 2, 4: 3, 8: 3, 9: 8, 11: 8, 12: 9, 99: 9} {
		if at, err := b.log.Seek(b.Ctx, revision); err != nil || at != want {
			t.Errorf("revision %d is at %d, %v; want %d", revision, at, err, want)
		}
	}
	b.noConsumers()
}

func (b *written) noConsumers() {
	b.Helper()
	s, err := b.JS().Stream(b.Ctx, bus.LogStream(realm))
	must.Succeed(b, err)
	if n := s.CachedInfo().State.Consumers; n != 0 {
		b.Errorf("the log has %d consumers", n)
	}
}

// A replica that takes the messages of the log more slowly than they come loses none,
// and its NATS connection is never a slow consumer: whether it reads what is there, or
// follows what is appended.
func TestFollowSlowly(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	const large, before, after = 1 << 20, 40, 100
	message := make([]byte, large)
	store := func(n int) {
		for range n {
			b.store(message)
		}
	}
	store(before)
	failed := make(chan error, 1000)
	nc, err := nats.Connect(b.Server.URL(), append(b.Server.Options(bus.RoleGraph), nats.Timeout(testkit.Timeout),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { failed <- err }))...)
	must.Succeed(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must.Succeed(t, err)
	log := b.open(js)
	visited, goOn := make(chan uint64), make(chan struct{})
	ctx, cancel := context.WithCancel(b.Ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- log.Follow(ctx, 1, func(m eventlog.Message) error {
			visited <- m.Position
			<-goOn
			return nil
		})
	}()
	// visit has the replica take a message, and wait with the next.
	visit := func(want uint64) {
		t.Helper()
		if got := testkit.Receive(t, b.Ctx, "a message", visited); got != want {
			t.Fatalf("visited %d, want %d", got, want)
		}
	}
	for at := uint64(1); at < before; at++ {
		visit(at)
		goOn <- struct{}{}
	}
	visit(before)
	goOn <- struct{}{}
	store(1)
	visit(before + 1) // it follows, by a consumer
	store(after)
	goOn <- struct{}{}
	for at := range uint64(after) {
		visit(before + 2 + at)
		goOn <- struct{}{}
	}
	cancel()
	if err := b.receive(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	select {
	case err := <-failed:
		t.Errorf("the NATS client reports %v", err)
	default:
	}
}

// A damaged file of the stream makes the server lose the last messages, and still count
// them. A reader does not wait for them for ever.
func TestFollowDamagedEnd(t *testing.T) {
	t.Parallel()
	ctx, server := testkit.Context(t), testkit.NATS(t)
	js, err := jetstream.New(testkit.Conn(t, server, bus.RoleGraph))
	must.Succeed(t, err)
	c := bus.LogConfig(realm, 1)
	c.DenyDelete = false
	stream, err := js.CreateStream(ctx, c)
	must.Succeed(t, err)
	for range 3 {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), []byte("a message")); err != nil {
			t.Fatal(err)
		}
	}
	must.Succeed(t, stream.DeleteMsg(ctx, 3))
	log, err := eventlog.On(js, stream, realm, keys)
	must.Succeed(t, err)
	log.SetStall(50 * time.Millisecond)
	visited := uint64(0)
	var broken *eventlog.BrokenError
	// On a busy machine, messages that are there may come too late.
	testkit.WaitFor(t, ctx, "the missing message to be found", func() bool {
		err = log.Follow(ctx, 1, func(m eventlog.Message) error {
			visited = m.Position
			return nil
		})
		if !errors.As(err, &broken) {
			t.Fatal(err)
		}
		return broken.Position >= 3
	})
	if broken.Position != 3 || visited != 2 {
		t.Errorf("visited up to %d, and then: %v", visited, err)
	}
}
