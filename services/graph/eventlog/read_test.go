package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// lines is a log that is written by one goroutine and read by another.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A log is followed even if the stream has reached its limit of consumers. The reason why
// that is slow is logged once.
func TestFollowWithoutConsumers(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 })
	if _, err := b.js.CreateConsumer(b.ctx, bus.LogStream(realm), jetstream.ConsumerConfig{Durable: "reader"}); err != nil {
		t.Fatal(err)
	}
	var said lines
	b.other.Report(slog.New(slog.NewTextHandler(&said, nil)))
	for i := range byte(2) {
		if err := appendTo(b.ctx, b.log, uint64(i), i+1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(b.ctx)
	visited, ended := make(chan uint64, 10), make(chan error, 1)
	go func() {
		ended <- b.other.Follow(ctx, 1, func(m eventlog.Message) error {
			visited <- m.Sequence
			return nil
		})
	}()
	for want := uint64(1); want <= 4; want++ {
		if want > 2 { // while it follows
			if err := appendTo(b.ctx, b.log, want-1, byte(want)); err != nil {
				t.Fatal(err)
			}
		}
		if got := testkit.Receive(t, b.ctx, "a commit", visited); got != want {
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
	b := newBench(t)
	for i := range byte(5) {
		if err := appendTo(b.ctx, b.log, uint64(i), i+1); err != nil {
			t.Fatal(err)
		}
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
		pending, err := again(b.ctx, func() (uint64, error) {
			got = ""
			return b.other.Read(b.ctx, r.from, r.limit, r.maxBytes, func(m eventlog.Message) error {
				got += string(rune('0' + m.Sequence))
				return nil
			})
		})
		if err != nil || got != r.want || pending != r.pending {
			t.Errorf("%+v: got %q, pending %d, %v", r, got, pending, err)
		}
	}
	fail := errors.New("enough")
	if _, err := again(b.ctx, func() (uint64, error) {
		return b.other.Read(b.ctx, 1, 10, 0, func(eventlog.Message) error { return fail })
	}); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	b.noConsumers()
}

// A message that is no commit of the realm is not returned as one: another text, a
// commit of another secret, and a copy of a commit at another position.
func TestGet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := appendTo(b.ctx, b.log, 0, 1); err != nil {
		t.Fatal(err)
	}
	want, err := b.other.Get(b.ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := eventlog.Decode(want); err != nil || c.ID[0] != 1 {
		t.Errorf("sequence 1: %v, %v", c, err)
	}
	copied, err := keys.Seal(bytes.Clone(want), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, resembling := commit(2, 3)
	forged, err := eventlog.NewKeys(secret.Secrets{}.Draw(), realm).Seal(resembling, 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range [][]byte{copied, forged, []byte("not a commit")} {
		b.store(m)
		if got, err := b.other.Get(b.ctx, uint64(i+2)); !errors.Is(err, eventlog.ErrForeign) || got != nil {
			t.Errorf("sequence %d: %d bytes, %v; want ErrForeign", i+2, len(got), err)
		} else if other := errors.Is(err, eventlog.ErrOtherSecret); other != (i == 1) {
			t.Errorf("sequence %d: %v", i+2, err)
		}
	}
	if _, err := b.other.Get(b.ctx, 5); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("behind the end: %v", err)
	}
}

// lagging is a stream on a cluster, in which the copy that answers a direct get has no messages.
type lagging struct{ jetstream.Stream }

func (l lagging) GetMsg(context.Context, uint64, ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	return nil, jetstream.ErrMsgNotFound
}

func (l lagging) CachedInfo() *jetstream.StreamInfo {
	info := *l.Stream.CachedInfo()
	info.Config.Replicas = 3
	return &info
}

// A message that a copy of the log lacks is read from the leader of the stream, also by a search.
func TestGetFromLeader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range byte(3) {
		h := eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{i + 1}, Epoch: 1, Time: 1, FirstRevision: uint64(i) + 1, Sequence: uint64(i) + 1, Key: 1}
		if _, err := b.log.Append(b.ctx, uint64(i), h.ID, eventlog.NewBuilder(h).Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := b.js.Stream(b.ctx, bus.LogStream(realm))
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.On(b.js, lagging{stream}, realm, keys)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := again(b.ctx, func() ([]byte, error) { return log.Get(b.ctx, 2) })
	if err != nil {
		t.Fatal(err)
	}
	if c, err := eventlog.Decode(commit); err != nil || c.ID[0] != 2 {
		t.Errorf("sequence 2: %v, %v", c, err)
	}
	if _, err := again(b.ctx, func() ([]byte, error) { return log.Get(b.ctx, 4) }); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("behind the end: %v", err)
	}
	if at, err := again(b.ctx, func() (uint64, error) { return log.Seek(b.ctx, 3) }); err != nil || at != 3 {
		t.Errorf("revision 3 is at %d, %v; want 3", at, err)
	}
	if last, err := again(b.ctx, func() (uint64, error) { return log.LastCommit(b.ctx) }); err != nil || last != 3 {
		t.Errorf("the last commit is %d, %v; want 3", last, err)
	}
}

// A read goes on behind the end of a copy that lags, with what the leader of the stream has. A read that is
// shorter than that would be taken for the end of the log.
func TestReadBehindLaggingCopy(t *testing.T) {
	t.Parallel()
	const all = "all"
	server := testkit.StartNATS(t, natsd.Config{Dir: t.TempDir(), Roles: []bus.Role{{Name: all, Publish: []string{">"}, Subscribe: []string{">"}}}})
	js, ctx := testkit.JetStream(t, server, all), testkit.Context(t)
	writes, err := eventlog.Open(ctx, js, realm, 1, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(5) {
		if err := appendTo(ctx, writes, uint64(i), i+1); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.On(js, lagging{stream}, realm, keys)
	if err != nil {
		t.Fatal(err)
	}
	read := func(from uint64, limit int) (found []uint64, pending uint64) {
		t.Helper()
		pending, err := log.Read(ctx, from, limit, 1<<20, func(m eventlog.Message) error {
			if _, foreign := keys.Check(m); foreign != "" {
				t.Errorf("sequence %d: %s", m.Sequence, foreign)
			}
			found = append(found, m.Sequence)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found, pending
	}
	testkit.Lag(t, testkit.JetStream(t, server, all), bus.LogStream(realm), 2)
	if found, pending := read(1, 10); !slices.Equal(found, []uint64{1, 2}) || pending > 0 {
		t.Errorf("a log whose end is not known: %v, %d pending", found, pending)
	}
	if last, _, err := log.Last(ctx); err != nil || last != 5 {
		t.Fatalf("the log ends at %d, %v", last, err)
	}
	for _, c := range []struct {
		from    uint64
		limit   int
		found   []uint64
		pending uint64
	}{
		{1, 10, []uint64{1, 2, 3, 4, 5}, 0},
		{1, 2, []uint64{1, 2}, 3},
		{2, 2, []uint64{2, 3}, 2},
		{4, 10, []uint64{4, 5}, 0},
		{6, 10, nil, 0},
	} {
		if found, pending := read(c.from, c.limit); !slices.Equal(found, c.found) || pending != c.pending {
			t.Errorf("%d from %d on: %v and %d pending, want %v and %d", c.limit, c.from, found, pending, c.found, c.pending)
		}
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(5)); err != nil {
		t.Fatal(err)
	}
	if found, _ := read(3, 10); !slices.Equal(found, []uint64{5}) {
		t.Errorf("what was cut is read: %v", found)
	}
}

// A revision is found in the commit that has it, also where other messages
// stand between commits.
func TestSeek(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if at, err := b.log.Seek(b.ctx, 7); err != nil || at != 1 {
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
		if err != nil {
			t.Fatal(err)
		}
		b.store(message)
	}
	for revision, want := range map[uint64]uint64{1: 2, 3: 2, 4: 3, 8: 3, 9: 8, 11: 8, 12: 9, 99: 9} {
		if at, err := b.log.Seek(b.ctx, revision); err != nil || at != want {
			t.Errorf("revision %d is at %d, %v; want %d", revision, at, err, want)
		}
	}
	b.noConsumers()
}

func (b *bench) noConsumers() {
	b.t.Helper()
	s, err := b.js.Stream(b.ctx, bus.LogStream(realm))
	if err != nil {
		b.t.Fatal(err)
	}
	if n := s.CachedInfo().State.Consumers; n != 0 {
		b.t.Errorf("the log has %d consumers", n)
	}
}

// A replica that takes the messages of the log more slowly than they come loses none,
// and its NATS connection is never a slow consumer: whether it reads what is there, or
// follows what is appended.
func TestFollowSlowly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const large, before, after = 1 << 20, 40, 100
	message := make([]byte, large)
	store := func(n int) {
		for range n {
			b.store(message)
		}
	}
	store(before)
	failed := make(chan error, 1000)
	nc, err := nats.Connect(b.server.URL(), append(b.server.Options(bus.RoleGraph), nats.Timeout(testkit.Timeout),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { failed <- err }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log := b.open(js)
	visited, goOn := make(chan uint64), make(chan struct{})
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- log.Follow(ctx, 1, func(m eventlog.Message) error {
			visited <- m.Sequence
			<-goOn
			return nil
		})
	}()
	// visit has the replica take a message, and wait with the next.
	visit := func(want uint64) {
		t.Helper()
		if got := testkit.Receive(t, b.ctx, "a message", visited); got != want {
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
	if err != nil {
		t.Fatal(err)
	}
	c := bus.LogConfig(realm, 1)
	c.DenyDelete = false
	stream, err := js.CreateStream(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), []byte("a message")); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.DeleteMsg(ctx, 3); err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.On(js, stream, realm, keys)
	if err != nil {
		t.Fatal(err)
	}
	log.SetStall(50 * time.Millisecond)
	visited := uint64(0)
	var broken *eventlog.BrokenError
	// On a busy machine, messages that are there may come too late.
	testkit.WaitFor(t, ctx, "the missing message to be found", func() bool {
		err = log.Follow(ctx, 1, func(m eventlog.Message) error {
			visited = m.Sequence
			return nil
		})
		if !errors.As(err, &broken) {
			t.Fatal(err)
		}
		return broken.Sequence >= 3
	})
	if broken.Sequence != 3 || visited != 2 {
		t.Errorf("visited up to %d, and then: %v", visited, err)
	}
}

// leading is a stream whose leader has messages that the copy lacks which answers direct gets.
type leading struct {
	jetstream.Stream
	has map[uint64][]byte
}

func (l leading) GetMsg(ctx context.Context, sequence uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	if data, ok := l.has[sequence]; ok {
		return &jetstream.RawStreamMsg{Sequence: sequence, Data: data}, nil
	}
	return l.Stream.GetMsg(ctx, sequence, opts...)
}

// A reader gets the messages that a copy of the log lacks from the server that leads the stream. What no
// server has is left out.
func TestFill(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	js := testkit.JetStream(t, testkit.StartNATS(t, natsd.Config{Dir: t.TempDir()}), bus.RoleGraph)
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: bus.LogStream(realm), Subjects: []string{bus.LogSubject(realm)}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	const messages = 9
	for i := range messages {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), []byte{byte(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	has := map[uint64][]byte{}
	for _, sequence := range []uint64{3, 4, 6, 8} {
		if err := stream.DeleteMsg(ctx, sequence); err != nil {
			t.Fatal(err)
		}
		if sequence != 4 { // which the leader lacks, too
			has[sequence] = []byte{byte(sequence)}
		}
	}
	log, err := eventlog.On(js, leading{stream, has}, realm, keys)
	if err != nil {
		t.Fatal(err)
	}
	var got []uint64
	for next := uint64(1); next <= messages; {
		before := next
		if err := log.Fill(ctx, next, 1, 1<<20, func(m eventlog.Message) error {
			if m.Data[0] != byte(m.Sequence) {
				t.Errorf("message %d has %v", m.Sequence, m.Data)
			}
			got, next = append(got, m.Sequence), m.Sequence+1
			return nil
		}); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			continue // from next
		} else if err != nil {
			t.Fatal(err)
		}
		if next == before {
			t.Fatalf("nothing is read from %d on", next)
		}
	}
	if want := []uint64{1, 2, 3, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
