package writer_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// paused returns a request whose decision begins, and waits for its release.
func paused(r *writer.Request) (_ *writer.Request, began <-chan struct{}, release func()) {
	work, begin, released := r.Work.(*command.Objects), make(chan struct{}, 1), make(chan struct{})
	decide := work.Decide
	work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		begin <- struct{}{}
		<-released
		return decide(ctx, at, i)
	}
	return r, begin, sync.OnceFunc(func() { close(released) })
}

// signalling returns the request, which sends to decided whenever it decides for an object.
func signalling(r *writer.Request, decided chan<- struct{}) *writer.Request {
	work := r.Work.(*command.Objects)
	decide := work.Decide
	work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		defer func() { decided <- struct{}{} }()
		return decide(ctx, at, i)
	}
	return r
}

// While a commit is in flight the next is decided on top of it. Its commands are not
// answered before both commits are in the log.
func TestDecidesAhead(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first, release := b.underWay()
	decided := make(chan struct{}, 4)
	again, other, batch := b.submit(signalling(create("first"), decided)), b.submit(signalling(create("y"), decided)), b.submit(signalling(create("first", "z"), decided))
	for range 4 {
		testkit.Receive(t, b.ctx, "a decision", decided)
	}
	for _, a := range []<-chan answer{first, again, other, batch} {
		none(t, "a command whose commit, or the one before, is on its way", a)
	}
	release()
	testkit.Receive(t, b.ctx, "the answer", first).objects(t)
	if a := testkit.Receive(t, b.ctx, "the answer", again); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Errorf("the second creation: %v", a)
	}
	testkit.Receive(t, b.ctx, "the answer", other).objects(t)
	if r := testkit.Receive(t, b.ctx, "the answer", batch).objects(t); r[0].GetCode() != 409 || r[1].GetCode() != 201 {
		t.Errorf("the creation of both: %v", r)
	}
	if n := len(b.log.check(t)); n != 3 {
		t.Errorf("the log has %d commits: genesis, the first, and y with z make 3", n)
	}
}

// A commit that was decided on top of one that failed is dropped.
func TestAheadOfNothing(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first, release := b.underWay()
	decided := make(chan struct{}, 1)
	second := b.submit(signalling(create("y"), decided))
	testkit.Receive(t, b.ctx, "the decision", decided)
	b.log.set(func(l *log) { l.fail = eventlog.ErrFenced })
	release()
	for _, from := range []<-chan answer{first, second} {
		if a := testkit.Receive(t, b.ctx, "the answer", from); !errors.Is(a.err, api.ErrServiceUnavailable) {
			t.Errorf("fenced: %v, %v", a.reply, a.err)
		}
	}
	if err := b.wait(); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("the writer ended with %v", err)
	}
	if there := b.there(); len(there) > 0 {
		t.Errorf("there are %v", there)
	}
}

// Decisions ahead of a commit in flight are bounded like the queue, also those that
// change nothing.
func TestAheadIsBounded(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.QueueLength = 4 })
	b.do(create("taken")).objects(t)
	_, release := b.underWay()
	decided := make(chan struct{}, 100)
	var answers []<-chan answer
	for range 4 {
		answers = append(answers, b.submit(signalling(create("taken"), decided)))
		testkit.Receive(t, b.ctx, "the decision", decided)
	}
	for i := range 4 {
		if n, _ := b.w.Queued(); n > i { // one of them may be looked at
			t.Errorf("%d requests wait, of %d", n, i)
		}
		answers = append(answers, b.submit(signalling(create("taken"), decided)))
	}
	if a := b.do(create("taken")); !errors.Is(a.err, api.ErrTooManyRequests) {
		t.Errorf("beyond the bound: %v", a)
	}
	if n := len(decided); n > 0 {
		t.Errorf("%d were decided beyond the bound", n)
	}
	release()
	for _, from := range answers {
		if a := testkit.Receive(t, b.ctx, "an answer", from); !errors.Is(a.err, api.ErrAlreadyExists) {
			t.Errorf("got %v", a)
		}
	}
}

// A command that reads the state itself waits for the commit that is in flight.
func TestCheckSeesTheLastCommit(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	_, release := b.underWay()
	decided := make(chan struct{}, 1)
	b.submit(signalling(create("y"), decided))
	testkit.Receive(t, b.ctx, "the decision", decided)
	r := create("z")
	seen := uint64(0)
	r.Work.(*command.Objects).Check = func(d *writer.OpenCommit) *lifecycle.Error {
		snap := d.Tx.Stored()
		defer snap.Close()
		seen = snap.Revision()
		return nil
	}
	last := b.submit(r)
	release()
	got := testkit.Receive(t, b.ctx, "the answer", last).objects(t)
	if want := got[0].GetObject().GetMetadata().GetResourceVersion() - 1; seen != want {
		t.Errorf("the check saw revision %d, want %d: all that was decided before", seen, want)
	}
}

// A client that has a reply sees the result of its command, and a repetition of the command
// is recognized, even before the state is written.
func TestAnsweredIsSeen(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for i := range 100 {
		r := create(fmt.Sprintf("x-%d", i))
		r.Actor, r.ID = "tester", statetest.CommandID(b.began, uint64(i))
		type seen struct {
			revision, sequence uint64
			known              bool
		}
		sees := make(chan seen, 1)
		r.Done = func(proto.Message, *lifecycle.Error) {
			var s seen
			at, ok, err := b.state.Command(state.CommandKey{Actor: r.Actor, ID: r.ID})
			s.sequence, s.known = at.Sequence, ok && err == nil
			go func() {
				snap := b.state.Snapshot()
				defer snap.Close()
				s.revision = snap.Revision()
				sees <- s
			}()
			runtime.Gosched() // the sooner it looks, the better
		}
		before := b.state.Checkpoint()
		b.w.Submit(r)
		want := seen{before.GetRevision() + 1, before.GetSequence() + 1, true}
		if got := testkit.Receive(t, b.ctx, "a reader", sees); got != want {
			t.Fatalf("the %dth sees %+v, want %+v", i, got, want)
		}
	}
}

// many is the creation of so many objects that their commit is a large one.
func many(prefix string) *writer.Request {
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return create(names...)
}

// stall holds commits up that are in the log, before they are written into the
// state, until the function that it returns is called.
func stall(t *testing.T, c *writer.Config) (release func()) {
	t.Helper()
	stalled := make(chan struct{})
	release = sync.OnceFunc(func() { close(stalled) })
	t.Cleanup(release)
	ready, appended := c.Ready, make(chan struct{})
	c.Ready = func() {
		close(appended) // the first commit has made it the writer
		ready()
	}
	c.Failpoint = func(step string) {
		select {
		case <-appended:
			if step == writer.FailAppended {
				<-stalled
			}
		default:
		}
	}
	return release
}

// A large commit is appended while the one before it is written to the state; a small one
// waits. Neither is answered before the first is written.
func TestFollowsIntoTheLog(t *testing.T) {
	t.Parallel()
	var release func()
	b := start(t, func(c *writer.Config) { release = stall(t, c) })
	first := b.submit(create("first"))
	testkit.WaitFor(t, b.ctx, "the first commit to be in the log", func() bool { return b.log.length() == 2 })
	decided := make(chan struct{}, 2)
	var small []<-chan answer
	for _, name := range []string{"first", "y"} {
		small = append(small, b.submit(signalling(create(name), decided)))
		testkit.Receive(t, b.ctx, "the decision", decided)
	}
	if n := b.log.length(); n != 2 {
		t.Errorf("the log has %d commits: a small one has not waited", n)
	}
	large := b.submit(many("z"))
	testkit.WaitFor(t, b.ctx, "the large commit to be in the log", func() bool { return b.log.length() == 3 })
	decided = make(chan struct{}, 1)
	third := b.submit(signalling(create("z-7"), decided))
	testkit.Receive(t, b.ctx, "the decision on top of both", decided)
	for _, a := range append(small, first, large, third) {
		none(t, "a command on a commit that is not in the state", a)
	}
	release()
	testkit.Receive(t, b.ctx, "the answer", first).objects(t)
	if a := testkit.Receive(t, b.ctx, "the answer", small[0]); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Errorf("the second creation: %v", a)
	}
	testkit.Receive(t, b.ctx, "the answer", small[1]).objects(t)
	testkit.Receive(t, b.ctx, "the answer", large).objects(t)
	if a := testkit.Receive(t, b.ctx, "the answer", third); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Errorf("the creation on top of both: %v", a)
	}
	b.log.check(t)
	if there := b.there(); len(there) != 502 {
		t.Errorf("there are %d objects, want 502", len(there))
	}
}

// When a commit that is in the log cannot be written to the state, the state is not read
// any more, no commit behind it is answered, and the writer ends. The commits are in the
// log, so that the next fold has them.
func TestCannotBeWritten(t *testing.T) {
	t.Parallel()
	var release func()
	b := start(t, func(c *writer.Config) { release = stall(t, c) })
	first := b.submit(create("first"))
	testkit.WaitFor(t, b.ctx, "the first commit to be in the log", func() bool { return b.log.length() == 2 })
	large := b.submit(many("z"))
	testkit.WaitFor(t, b.ctx, "the large commit to be in the log", func() bool { return b.log.length() == 3 })
	b.broken.Store(true)
	_ = b.state.Sync() // to find out
	release()
	err := b.wait()
	b.broken.Store(false)
	testkit.WaitFor(t, b.ctx, "Pebble, which goes on to try, to write the memtables", func() bool { return b.state.Metrics().MemTable.Count == 1 })
	if !errors.Is(err, errorfs.ErrInjected) {
		t.Errorf("the writer ended with %v, want %v", err, errorfs.ErrInjected)
	}
	testkit.Receive(t, b.ctx, "the answer that the first is in the log", first).objects(t)
	snap := b.state.Snapshot()
	if snap.Err() == nil {
		t.Errorf("a state is read, at revision %d, that does not have what was answered", snap.Revision())
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
	none(t, "the command after it", large)
}

// If the disk is slow, a commit that was decided while another was in flight waits for the
// next commands of that one's callers. The commit of a single caller does not wait.
func TestWaitsForWhoWasAnswered(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.appends = 1000 * time.Hour
	must.Succeed(t, b.end())
	applied := make(chan struct{}, 16)
	b.run(func(c *writer.Config) { c.Applied = func(writer.Applied) { applied <- struct{}{} } })
	for _, name := range []string{"x", "y", "z"} {
		b.do(create(name)).objects(t)
	}
	first, release := b.underWay()
	for len(applied) > 0 { // the epoch, and all of those
		<-applied
	}
	before := b.log.length()
	r, decided := create("second"), make(chan int64, 1)
	work := r.Work.(*command.Objects)
	decide := work.Decide
	work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
		decided <- b.lease.looks.Load()
		return decide(ctx, at, i)
	}
	second := b.submit(r)
	looks := testkit.Receive(t, b.ctx, "the decision", decided)
	release()
	testkit.Receive(t, b.ctx, "the answer", first).objects(t)
	testkit.Receive(t, b.ctx, "the first to be in the state", applied)
	// The writer waits once after the decision, and again when it has taken notice that the first commit is
	// applied. A second commit that is not delayed is sent before that.
	testkit.WaitFor(t, b.ctx, "the writer to wait again", func() bool { return b.lease.looks.Load() >= looks+2 })
	testkit.Receive(t, b.ctx, "the answer", b.submit(create("third"))).objects(t)
	testkit.Receive(t, b.ctx, "the answer", second).objects(t)
	if n := b.log.length() - before; n != 2 {
		t.Errorf("%d commits, want the first, and one of the second and the third", n)
	}
}
