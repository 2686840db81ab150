package writer_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// log is a log in memory whose appends a test can delay or fail.
type log struct {
	maxPayload int

	mu      sync.Mutex
	commits [][]byte
	fail    error         // of the next append, instead of storing
	hold    chan struct{} // appends wait until it is closed
	arrived chan struct{} // gets a token when an append begins
	lost    bool          // Get fails
	begins  uint64        // the sequence of the first commit
	reading chan struct{} // unless nil, Get sends to it, and then waits until its context ends
	read    atomic.Int64  // how often Get has returned
	room    int           // how many commits there may be before another writer has appended; 0 for any number
}

func newLog() *log { return &log{maxPayload: 1 << 20, begins: 1, arrived: make(chan struct{}, 1<<16)} }

func (l *log) Created() int64 { return 1 }

func (l *log) Send(expected uint64, _ [16]byte, commit []byte) func(context.Context) (uint64, error) {
	commit = bytes.Clone(commit)
	return func(ctx context.Context) (uint64, error) { return expected + 1, l.append(ctx, expected, commit) }
}

func (l *log) append(ctx context.Context, expected uint64, commit []byte) error {
	l.arrived <- struct{}{}
	l.mu.Lock()
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", eventlog.ErrOutcomeUnknown, ctx.Err())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fail != nil:
		return l.fail
	case expected != l.begins-1+uint64(len(l.commits)), l.room > 0 && len(l.commits) >= l.room:
		return eventlog.ErrFenced
	case len(commit) > l.maxPayload:
		return fmt.Errorf("a commit of %d bytes: the bus takes %d", len(commit), l.maxPayload)
	}
	l.commits = append(l.commits, commit)
	return nil
}

func (l *log) Get(ctx context.Context, sequence uint64) ([]byte, error) {
	defer l.read.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if reading := l.reading; reading != nil {
		l.mu.Unlock()
		reading <- struct{}{}
		<-ctx.Done()
		l.mu.Lock()
		return nil, ctx.Err()
	}
	if sequence < l.begins {
		return nil, fmt.Errorf("%w: %w", eventlog.ErrCut, eventlog.ErrNotFound)
	}
	if l.lost || sequence >= l.begins+uint64(len(l.commits)) {
		return nil, eventlog.ErrNotFound
	}
	return l.commits[sequence-l.begins], nil
}

func (l *log) set(change func(*log)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// holdUp holds appends up, until the function that it returns is called.
func (l *log) holdUp() (release func()) {
	hold := make(chan struct{})
	l.set(func(l *log) { l.hold = hold })
	return sync.OnceFunc(func() {
		l.set(func(l *log) { l.hold = nil })
		close(hold)
	})
}

func (l *log) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.commits)
}

// check checks that the commits follow one another, and returns them.
func (l *log) check(t *testing.T) []*eventlog.Decoded {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var chain eventlog.Chain
	var list []*eventlog.Decoded
	for i, m := range l.commits {
		c, err := eventlog.Decode(m)
		must.Succeed(t, err)
		if c.Sequence != uint64(i+1) {
			t.Fatalf("the commit at sequence %d says that it is at %d", i+1, c.Sequence)
		}
		must.Succeed(t, chain.Next(uint64(i+1), m, c))
		must.Succeed(t, c.Each(func(*eventlog.Entry) error {
			chain.Revision++
			return nil
		}))
		list = append(list, c)
	}
	return list
}

// lease is a lease that a test can take away.
type lease struct {
	holds atomic.Bool
	lost  chan struct{}
	looks atomic.Int64 // how often the writer has called Lost, as it does before it waits
}

func newLease() *lease {
	l := &lease{lost: make(chan struct{})}
	l.holds.Store(true)
	return l
}

func (l *lease) Holds() bool { return l.holds.Load() }

func (l *lease) Lost() <-chan struct{} {
	l.looks.Add(1)
	return l.lost
}

func (l *lease) lose() {
	l.holds.Store(false)
	close(l.lost)
}

// memWriter is a writer on a log and a state in memory.
type memWriter struct {
	t     *testing.T
	ctx   context.Context
	log   *log
	lease *lease
	state *state.State
	fs    vfs.FS
	began lifecycle.Time
	w     *writer.Writer
	wait  func() error // until the writer has ended by itself
	end   func() error
	close func() error

	appends time.Duration // how long the writer that runs next takes them for; 0 for as long as they take
	now     func() time.Time
	broken  atomic.Bool // no table can be written to the file system
}

func start(t *testing.T, change func(*writer.Config)) *memWriter {
	t.Helper()
	b := &memWriter{t: t, ctx: testkit.Context(t), log: newLog(), began: lifecycle.TimeOf(time.Now())}
	b.fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if b.broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(op.Path, ".sst") {
			return errorfs.ErrInjected
		}
		return nil
	}))
	b.open()
	b.run(change)
	return b
}

func (b *memWriter) open() {
	b.t.Helper()
	var err error
	if b.state, err = state.Open("state", state.Config{FS: b.fs, MemTableSize: 1 << 20, CacheSize: 1 << 20}); err != nil {
		b.t.Fatal(err)
	}
	b.close = sync.OnceValue(b.state.Close)
	b.t.Cleanup(func() { _ = b.close() })
}

// run runs a writer, and waits until it is the writer, or has failed.
func (b *memWriter) run(change func(*writer.Config)) {
	b.t.Helper()
	b.lease = newLease()
	ready := make(chan struct{})
	c := writer.Config{
		Realm: "test", State: b.state, Log: b.log, Lease: b.lease, MaxPayload: b.log.maxPayload,
		Ready: func() { close(ready) },
	}
	if change != nil {
		change(&c)
	}
	b.log.maxPayload = c.MaxPayload
	b.w = writer.New(c)
	if b.appends > 0 {
		b.w.SetAppends(b.appends)
	}
	if b.now != nil {
		b.w.SetNow(b.now)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	w := b.w
	go func() { ended <- w.Run(ctx) }()
	b.wait = sync.OnceValue(func() error { return <-ended })
	b.end = func() error {
		cancel()
		return b.wait()
	}
	b.t.Cleanup(func() { _ = b.end() })
	testkit.Receive(b.t, b.ctx, "the writer to begin", ready)
	for len(b.log.arrived) > 0 {
		<-b.log.arrived
	}
}

// answer is what became of a request.
type answer struct {
	reply proto.Message
	err   *lifecycle.Error
}

func (a answer) objects(t *testing.T) []*coppicev1.Result {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
	return a.reply.(*coppicev1.ObjectsReply).GetResults()
}

// submit submits a request, and returns where its answer comes to.
func (b *memWriter) submit(r *writer.Request) <-chan answer {
	answers := make(chan answer, 2)
	if r.Verb = "create"; r.Actor == "" {
		r.Actor = "tester"
	}
	if t, ok := r.ID.Time(); ok && t == 0 {
		of := statetest.CommandID(b.began, 0)
		copy(r.ID[:6], of[:6])
	}
	r.Done = func(m proto.Message, err *lifecycle.Error) { answers <- answer{m, err} }
	b.w.Submit(r)
	return answers
}

func (b *memWriter) do(r *writer.Request) answer {
	b.t.Helper()
	return testkit.Receive(b.t, b.ctx, "an answer", b.submit(r))
}

// underWay creates a first object, and delays the append of its commit until release is
// called.
func (b *memWriter) underWay() (first <-chan answer, release func()) {
	b.t.Helper()
	for len(b.log.arrived) > 0 {
		<-b.log.arrived
	}
	release = b.log.holdUp()
	b.t.Cleanup(release)
	first = b.submit(create("first"))
	testkit.Receive(b.t, b.ctx, "the first append", b.log.arrived)
	return first, release
}

// none checks that there is no answer, once the writer has ended.
func none(t *testing.T, what string, from <-chan answer) {
	t.Helper()
	select {
	case a := <-from:
		t.Errorf("%s was answered: %v, %v", what, a.reply, a.err)
	default:
	}
}

func configMap(name string) *coppicev1.Object {
	return &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: name, Namespace: "a"}, Spec: []byte(`{}`)}
}

// creation is the work of creating objects.
func creation(objects ...*coppicev1.Object) *command.Objects {
	return &command.Objects{
		Resource: "configmaps", Namespace: "a", Count: len(objects),
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			return lifecycle.Create(ctx, at, proto.Clone(objects[i]).(*coppicev1.Object))
		},
		Name: func(i int) string { return objects[i].GetMetadata().GetName() },
	}
}

func create(names ...string) *writer.Request {
	var objects []*coppicev1.Object
	for _, n := range names {
		objects = append(objects, configMap(n))
	}
	return &writer.Request{Work: creation(objects...), Size: 100 * len(names)}
}

// withID gives a request an id; submit gives that the time at which the memWriter began.
func withID(id uint64, r *writer.Request) *writer.Request {
	r.ID = statetest.CommandID(0, id)
	return r
}

// withIDOf gives a request an id of a time.
func withIDOf(at lifecycle.Time, id uint64, r *writer.Request) *writer.Request {
	r.ID = statetest.CommandID(at, id)
	return r
}

// there are the names of the objects that are there.
func (b *memWriter) there() map[string]bool {
	b.t.Helper()
	names := map[string]bool{}
	snap := b.state.Snapshot()
	defer snap.Close()
	snap.Names(snap.Kinds().Resource("configmaps"), "", state.NameCursor{}, func(_, name string, _ uid.UID) bool {
		names[name] = true
		return true
	})
	must.Succeed(b.t, snap.Err())
	return names
}

// revision is the realm's.
func (b *memWriter) revision() uint64 { return b.state.Checkpoint().GetRevision() }

// restart ends the writer, throws the state away if asked to, and begins again
// on the log.
func (b *memWriter) restart() {
	b.t.Helper()
	b.restartWith(nil)
}

func (b *memWriter) restartWith(change func(*writer.Config)) {
	b.t.Helper()
	must.Succeed(b.t, b.end())
	b.restartFailed(change)
}

// restartFailed is restartWith after the writer has ended by itself.
func (b *memWriter) restartFailed(change func(*writer.Config)) {
	b.t.Helper()
	must.Succeed(b.t, b.state.Sync())
	must.Succeed(b.t, b.close())
	b.open()
	b.run(change)
}
