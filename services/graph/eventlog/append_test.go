package eventlog_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const realm = bus.DefaultRealm

// written is a realm with a log that is written through a proxy, and one alongside it.
type written struct {
	*testkit.Realm
	proxy *testkit.Proxy
	log   *eventlog.Log // through the proxy
	other *eventlog.Log
	// refusals counts the answers that say that the log has another end.
	refusals atomic.Int32
}

func newWritten(t *testing.T) *written {
	t.Helper()
	return newWrittenWith(t, nil)
}

// newWrittenWith is newWritten with a log that is configured otherwise.
func newWrittenWith(t *testing.T, change func(*jetstream.StreamConfig)) *written {
	t.Helper()
	b := &written{Realm: testkit.NewRealm(t)}
	b.proxy = testkit.NewProxy(t, b.Server.URL())
	js, err := jetstream.New(testkit.Dial(t, b.Server, b.proxy.URL(), bus.RoleGraph))
	must.Succeed(t, err)
	if _, err := b.JS().Conn().Subscribe(bus.InboxPrefix(bus.RoleGraph)+".>", func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(`"err_code":10071`)) {
			b.refusals.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.EnsureBucket(b.Ctx, b.JS(), bus.WriterBucket, 1); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		c := bus.LogConfig(realm, 1)
		change(&c)
		if _, err := b.JS().CreateStream(b.Ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	b.log, b.other = b.open(js), b.open(b.JS())
	return b
}

func (b *written) open(js jetstream.JetStream) *eventlog.Log {
	b.Helper()
	l, err := eventlog.Open(b.Ctx, js, realm, 1, keys)
	must.Succeed(b, err)
	return l
}

// keys are those of the realm.
var keys = eventlog.NewKeys(testkit.Secrets(), realm)

// commit is a commit without events, to be appended behind a sequence.
func commit(expected uint64, id byte) ([16]byte, []byte) {
	h := eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{id}, Epoch: 1, Time: 1, FirstRevision: 1, Sequence: expected + 1, Key: 1}
	return h.ID, eventlog.NewBuilder(h).Bytes()
}

func appendTo(ctx context.Context, l *eventlog.Log, expected uint64, id byte) error {
	i, c := commit(expected, id)
	_, err := l.Append(ctx, expected, i, c)
	return err
}

// appending appends through the proxy, and returns a channel that receives the result.
func (b *written) appending(ctx context.Context, expected uint64, id byte) <-chan error {
	done := make(chan error, 1)
	go func() { done <- appendTo(ctx, b.log, expected, id) }()
	return done
}

func (b *written) receive(done <-chan error) error {
	b.Helper()
	return testkit.Receive(b, b.Ctx, "the end of the append", done)
}

// waitForLast waits until the log has come to a sequence.
func (b *written) waitForLast(sequence uint64) {
	b.Helper()
	b.WaitFor(fmt.Sprint("sequence ", sequence), func() bool {
		last, _, err := b.other.Last(b.Ctx)
		return err == nil && last >= sequence
	})
}

// has checks that the log has just these commits.
func (b *written) has(ids ...byte) {
	b.Helper()
	last, _, err := b.other.Last(b.Ctx)
	must.Succeed(b, err)
	if last != uint64(len(ids)) {
		b.Errorf("the log ends at %d, want %d", last, len(ids))
	}
	for i, id := range ids {
		m, err := b.other.Get(b.Ctx, uint64(i+1))
		must.Succeed(b, err)
		c, err := eventlog.Decode(m)
		must.Succeed(b, err)
		if c.ID[0] != id {
			b.Errorf("sequence %d is commit %d, want %d", i+1, c.ID[0], id)
		}
	}
}

// stored is the size of the stream, in bytes.
func (b *written) stored() uint64 {
	b.Helper()
	s, err := b.JS().Stream(b.Ctx, bus.LogStream(realm))
	must.Succeed(b, err)
	return s.CachedInfo().State.Bytes
}

// store appends a message as it is.
func (b *written) store(message []byte) {
	b.Helper()
	if _, err := b.JS().Publish(b.Ctx, bus.LogSubject(realm), message); err != nil {
		b.Fatal(err)
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	for i := range byte(3) {
		must.Succeed(t, appendTo(b.Ctx, b.log, uint64(i), i+1))
	}
	if err := appendTo(b.Ctx, b.other, 2, 9); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("behind another writer: %v", err)
	}
	b.has(1, 2, 3)
}

// An append whose acknowledgement was lost succeeds, and has appended once.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.proxy.Set(testkit.ToClient, testkit.Discard)
	done := b.appending(b.Ctx, 0, 1)
	b.waitForLast(1)
	b.proxy.Heal()
	if err := b.receive(done); err != nil {
		t.Errorf("got %v", err)
	}
	b.has(1)
}

// An append whose acknowledgement is late, later than it waits, succeeds, and
// has appended once: what it has published again was refused.
func TestLateAcknowledgement(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.proxy.Set(testkit.ToClient, testkit.Hold)
	done := b.appending(b.Ctx, 0, 1)
	b.WaitFor("another attempt, which is refused", func() bool { return b.refusals.Load() > 0 })
	b.proxy.Set(testkit.ToClient, testkit.Pass)
	if err := b.receive(done); err != nil {
		t.Errorf("got %v", err)
	}
	b.has(1)
}

// A refusal of an earlier attempt that arrives while another commit is appended must not
// be taken for a refusal of that commit, which is in the log.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	nc := b.JS().Conn()
	answers := make(chan *nats.Msg, 10)
	if _, err := nc.ChanSubscribe(bus.InboxPrefix(bus.RoleGraph)+".>", answers); err != nil {
		t.Fatal(err)
	}
	must.Succeed(t, nc.Flush())
	must.Succeed(t, appendTo(b.Ctx, b.log, 0, 1))
	answer := testkit.Receive(t, b.Ctx, "the answer to the first", answers)
	if !bytes.Contains(answer.Data, []byte(`"seq":1`)) {
		t.Fatalf("on %s: %s", answer.Subject, answer.Data)
	}
	must.Succeed(t, nc.Publish(answer.Subject, []byte(`{"error":{"code":400,"err_code":10060,"description":"expected stream does not match"}}`)))
	must.Succeed(t, nc.Flush())
	if err := appendTo(b.Ctx, b.log, 1, 2); err != nil {
		t.Error(err)
	}
	b.has(1, 2)
}

// An append that never arrived, while another writer's did, is fenced.
func TestLostAppend(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.proxy.Set(testkit.ToServer, testkit.Discard)
	done := b.appending(b.Ctx, 0, 1)
	must.Succeed(t, appendTo(b.Ctx, b.other, 0, 2))
	b.proxy.Heal()
	if err := b.receive(done); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("got %v", err)
	}
	b.has(2)
}

// If the acknowledgement is lost and another writer then appends, the append has
// succeeded: Append finds the commit by its id.
func TestLostAcknowledgementAndAnotherWriter(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.proxy.Set(testkit.ToClient, testkit.Discard)
	done := b.appending(b.Ctx, 0, 1)
	b.waitForLast(1)
	must.Succeed(t, appendTo(b.Ctx, b.other, 1, 2))
	b.proxy.Heal()
	if err := b.receive(done); err != nil {
		t.Errorf("got %v", err)
	}
	b.has(1, 2)
}

// Append never reports failure while the message may still be stored.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	b.proxy.Set(testkit.ToServer, testkit.Hold)
	ctx, cancel := context.WithCancel(b.Ctx)
	done := b.appending(ctx, 0, 1)
	b.WaitFor("the append to be on its way", func() bool { return b.proxy.Held(testkit.ToServer) > 0 })
	cancel()
	if err := b.receive(done); !errors.Is(err, eventlog.ErrOutcomeUnknown) {
		t.Errorf("got %v", err)
	}
	b.has()
	b.proxy.Set(testkit.ToServer, testkit.Pass)
	b.waitForLast(1) // after it was given up
	b.has(1)
}

// An append outlives its connection, and the server.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	must.Succeed(t, appendTo(b.Ctx, b.log, 0, 1))
	b.proxy.Set(testkit.ToServer, testkit.Discard)
	done := b.appending(b.Ctx, 1, 2)
	b.WaitFor("the append to be lost", func() bool { return b.proxy.Lost(testkit.ToServer) > 0 })
	b.proxy.Heal()
	if err := b.receive(done); err != nil {
		t.Errorf("got %v", err)
	}
	b.has(1, 2)
}

// A message that the stream always refuses is an error, and leaves nothing in doubt.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	builder := eventlog.NewBuilder(eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{1}, Epoch: 1, FirstRevision: 1, Sequence: 1, Key: 1})
	note := make([]byte, natsd.MaxPayload+1)
	_, _ = rand.Read(note) // which does not compress
	builder.Begin(eventlog.Command{Note: string(note)})
	builder.End(eventlog.CommandRef{}, nil)
	_, err := b.log.Append(b.Ctx, 0, [16]byte{1}, builder.Bytes())
	if err == nil || errors.Is(err, eventlog.ErrOutcomeUnknown) || errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("got %v", err)
	}
	b.has()
}

// A refusal is final only if the log has reached the expected position. A server that has
// become the leader may have to catch up, and may lose what it had accepted: then the
// append must be tried again.
func TestLogBehindExpectation(t *testing.T) {
	t.Parallel()
	b := newWritten(t)
	done := b.appending(b.Ctx, 2, 3)
	b.WaitFor("a refusal", func() bool { return b.refusals.Load() > 0 })
	for i := range byte(2) {
		must.Succeed(t, appendTo(b.Ctx, b.other, uint64(i), i+1))
	}
	if err := b.receive(done); err != nil {
		t.Errorf("got %v", err)
	}
	b.has(1, 2, 3)
}
