package eventlog_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

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
	b := newWritten(t)
	for i := range byte(3) {
		h := eventlog.Header{RealmID: [16]byte{1}, ID: [16]byte{i + 1}, Epoch: 1, Time: 1, FirstRevision: uint64(i) + 1, Sequence: uint64(i) + 1, Key: 1}
		if _, err := b.log.Append(b.Ctx, uint64(i), h.ID, eventlog.NewBuilder(h).Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := b.JS().Stream(b.Ctx, bus.LogStream(realm))
	must.Succeed(t, err)
	log, err := eventlog.On(b.JS(), lagging{stream}, realm, keys)
	must.Succeed(t, err)
	commit, err := again(b.Ctx, func() ([]byte, error) { return log.Get(b.Ctx, 2) })
	must.Succeed(t, err)
	if c, err := eventlog.Decode(commit); err != nil || c.ID[0] != 2 {
		t.Errorf("sequence 2: %v, %v", c, err)
	}
	if _, err := again(b.Ctx, func() ([]byte, error) { return log.Get(b.Ctx, 4) }); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("behind the end: %v", err)
	}
	if at, err := again(b.Ctx, func() (uint64, error) { return log.Seek(b.Ctx, 3) }); err != nil || at != 3 {
		t.Errorf("revision 3 is at %d, %v; want 3", at, err)
	}
	if last, err := again(b.Ctx, func() (uint64, error) { return log.LastCommit(b.Ctx) }); err != nil || last != 3 {
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
	must.Succeed(t, err)
	for i := range byte(5) {
		must.Succeed(t, appendTo(ctx, writes, uint64(i), i+1))
	}
	stream, err := js.Stream(ctx, bus.LogStream(realm))
	must.Succeed(t, err)
	log, err := eventlog.On(js, lagging{stream}, realm, keys)
	must.Succeed(t, err)
	read := func(from uint64, limit int) (found []uint64, pending uint64) {
		t.Helper()
		pending, err := log.Read(ctx, from, limit, 1<<20, func(m eventlog.Message) error {
			if _, foreign := keys.Check(m); foreign != "" {
				t.Errorf("sequence %d: %s", m.Position, foreign)
			}
			found = append(found, m.Position)
			return nil
		})
		must.Succeed(t, err)
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
	must.Succeed(t, stream.Purge(ctx, jetstream.WithPurgeSequence(5)))
	if found, _ := read(3, 10); !slices.Equal(found, []uint64{5}) {
		t.Errorf("what was cut is read: %v", found)
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
	must.Succeed(t, err)
	const messages = 9
	for i := range messages {
		if _, err := js.Publish(ctx, bus.LogSubject(realm), []byte{byte(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	has := map[uint64][]byte{}
	for _, sequence := range []uint64{3, 4, 6, 8} {
		must.Succeed(t, stream.DeleteMsg(ctx, sequence))
		if sequence != 4 { // which the leader lacks, too
			has[sequence] = []byte{byte(sequence)}
		}
	}
	log, err := eventlog.On(js, leading{stream, has}, realm, keys)
	must.Succeed(t, err)
	var got []uint64
	for next := uint64(1); next <= messages; {
		before := next
		if err := log.Fill(ctx, next, 1, 1<<20, func(m eventlog.Message) error {
			if m.Data[0] != byte(m.Position) {
				t.Errorf("message %d has %v", m.Position, m.Data)
			}
			got, next = append(got, m.Position), m.Position+1
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
