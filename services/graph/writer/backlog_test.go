package writer_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// by gives a request an actor.
func by(actor string, r *writer.Request) *writer.Request {
	r.Actor = actor
	return r
}

// large is the creation of an object of which two fit into a commit of 64 KiB.
func large(name string) *writer.Request {
	o := configMap(name)
	o.Spec = []byte(`"` + strings.Repeat("x", 20<<10) + `"`)
	return &writer.Request{Work: creation(o), Size: 20 << 10}
}

// refusedAtOnce reports whether a request was refused at once because there are too many.
func refusedAtOnce(t *testing.T, from <-chan answer) bool {
	t.Helper()
	select {
	case a := <-from:
		if !errors.Is(a.err, api.ErrTooManyRequests) {
			t.Fatal(a.err)
		}
		return true
	default:
		return false
	}
}

// counter counts what was not decided.
type counter struct {
	mu sync.Mutex
	of map[writer.Count]int
}

func (c *counter) count(reason writer.Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[writer.Count]int{}
	}
	c.of[reason]++
}

func (c *counter) get(reason writer.Count) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[reason]
}

// Requests that do not fit into the open commit wait in the queue, where they are counted and
// bounded, however many commits they take. They waited in a list without a bound.
func TestBacklogIsBounded(t *testing.T) {
	t.Parallel()
	const bound = 16
	var counted counter
	b := start(t, func(c *writer.Config) { c.QueueLength, c.MaxPayload, c.Counted = bound, 64<<10, counted.count })
	_, release := b.underWay()
	var accepted []<-chan answer
	refusals := 0
	for i := range 200 {
		decided := make(chan struct{}, 8)
		from := b.submit(signalling(large(fmt.Sprint("n-", i)), decided))
		if refusedAtOnce(t, from) {
			refusals++
		} else {
			accepted = append(accepted, from)
		}
		if i < 3 { // two fill the commit, and the third does not fit
			testkit.Receive(t, b.ctx, "a decision", decided)
		}
		// The one that does not fit may be looked at, and return to a full queue.
		if n, _ := b.w.Queued(); n > bound+1 {
			t.Fatalf("%d requests wait", n)
		}
	}
	if n := len(accepted); n < 2+bound || n > 3+bound {
		t.Errorf("%d were accepted, want 2 that are decided and %d that wait", n, bound)
	}
	testkit.WaitFor(t, b.ctx, "all that wait to be counted", func() bool { n, _ := b.w.Queued(); return n == len(accepted)-2 })
	if n := counted.get(writer.CountRefused); n != refusals {
		t.Errorf("%d refusals were counted, of %d", n, refusals)
	}
	release()
	for _, a := range accepted {
		testkit.Receive(t, b.ctx, "an answer", a).objects(t)
	}
	if n, bytes := b.w.Queued(); n+bytes > 0 {
		t.Errorf("at the end %d requests of %d bytes wait", n, bytes)
	}
	b.log.check(t)
}

// A request that is decided in parts lets each other actor decide a request between two of them.
func TestUnfinishedTakesTurns(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	_, release := b.underWay()
	decided := make(chan struct{}, 1000)
	batch := b.submit(signalling(partsOf(false), decided))
	testkit.WaitFor(t, b.ctx, "the batch to wait for the next commit", func() bool {
		n, _ := b.w.Queued()
		return n == 1 && len(decided) > 0
	})
	other := b.submit(by("other", create("other")))
	release()
	sameParts(t, testkit.Receive(t, b.ctx, "the answer", batch), false)
	testkit.Receive(t, b.ctx, "the answer", other).objects(t)
	var actors []string
	for _, c := range b.log.check(t)[2:] {
		for _, k := range c.Commands {
			actors = append(actors, k.Actor)
		}
	}
	if i := slices.Index(actors, "other"); i < 0 || i > 2 || len(actors) < 6 {
		t.Errorf("the commands are by %v; want the other one behind the second part", actors)
	}
}

// One actor's backlog does not delay another's request: they are decided in turns.
func TestActorsTakeTurns(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first, began, release := paused(create("first"))
	defer release()
	b.submit(first)
	testkit.Receive(t, b.ctx, "the first to be decided", began)
	var mu sync.Mutex
	var order []string
	noting := func(name string) *writer.Request {
		r := create(name)
		work := r.Work.(*command.Objects)
		decide := work.Decide
		work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			return decide(ctx, at, i)
		}
		return r
	}
	var answers []<-chan answer
	for i := range 50 {
		answers = append(answers, b.submit(by("busy", noting(fmt.Sprintf("busy-%02d", i)))))
	}
	for i := range 2 {
		answers = append(answers, b.submit(by("other", noting(fmt.Sprint("other-", i)))))
	}
	release()
	for _, a := range answers {
		testkit.Receive(t, b.ctx, "an answer", a).objects(t)
	}
	if want := []string{"busy-00", "other-0", "busy-01", "other-1", "busy-02"}; !slices.Equal(order[:5], want) {
		t.Errorf("decided %v, want first %v", order, want)
	}
	if busy := order[4:]; !slices.IsSorted(busy) {
		t.Errorf("one actor's requests were decided out of order: %v", busy)
	}
}

// A full queue refuses the newest requests of the actor that has filled it, and accepts another
// actor's.
func TestFullQueueAcceptsOthers(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.QueueLength = 10 })
	first, began, release := paused(create("first"))
	defer release()
	b.submit(first)
	testkit.Receive(t, b.ctx, "the first to be decided", began)
	var busy, other []<-chan answer
	for i := range 10 {
		busy = append(busy, b.submit(by("busy", withID(uint64(i+1), create(fmt.Sprint("busy-", i))))))
	}
	repetition := b.submit(by("busy", withID(10, create("busy-9"))))
	for i := range 5 {
		other = append(other, b.submit(by("other", create(fmt.Sprint("other-", i)))))
	}
	for _, actor := range []string{"busy", "other"} {
		if a := b.do(by(actor, create("more"))); !errors.Is(a.err, api.ErrTooManyRequests) {
			t.Errorf("beyond the share of %s: %v", actor, a)
		}
	}
	for _, a := range append(busy[5:], repetition) {
		if a := testkit.Receive(t, b.ctx, "the refusal", a); !errors.Is(a.err, api.ErrTooManyRequests) {
			t.Errorf("displaced: %v", a)
		}
	}
	if n, _ := b.w.Queued(); n != 10 {
		t.Errorf("%d wait", n)
	}
	release()
	for _, a := range append(busy[:5], other...) {
		testkit.Receive(t, b.ctx, "an answer", a).objects(t)
	}
	// Nothing of the refused command is kept.
	b.do(by("busy", withID(10, create("busy-9")))).objects(t)
}

// A request whose client no longer waits is dropped when its turn comes.
func TestExpiredIsDropped(t *testing.T) {
	t.Parallel()
	var counted counter
	b := start(t, func(c *writer.Config) { c.Counted = counted.count })
	first, began, release := paused(create("first"))
	defer release()
	b.submit(first)
	testkit.Receive(t, b.ctx, "the first to be decided", began)
	expiring := func(at time.Time, r *writer.Request) *writer.Request {
		r.Expires = at
		return r
	}
	past, future := time.Now(), time.Now().Add(time.Hour)
	dropped := []<-chan answer{b.submit(expiring(past, create("x"))), b.submit(expiring(past, withID(1, create("y")))), b.submit(expiring(past, withID(1, create("y"))))}
	kept := []<-chan answer{
		b.submit(expiring(future, create("z"))),
		// The client of the repetition still waits.
		b.submit(expiring(past, withID(2, create("v")))), b.submit(expiring(future, withID(2, create("v")))),
		b.submit(expiring(past, withID(3, create("w")))), b.submit(withID(3, create("w"))),
	}
	release()
	for _, a := range kept {
		testkit.Receive(t, b.ctx, "an answer", a).objects(t)
	}
	b.do(create("last")).objects(t)
	for _, a := range dropped {
		none(t, "an expired request", a)
	}
	if there := b.there(); there["x"] || there["y"] || !there["v"] || !there["w"] || len(there) != 5 {
		t.Errorf("there are %v", there)
	}
	if n := counted.get(writer.CountExpired); n != 2 {
		t.Errorf("%d were counted", n)
	}
	if _, repetitions := b.w.Backlog(); repetitions != 0 {
		t.Errorf("%d repetitions wait", repetitions)
	}
	b.do(withID(1, create("y"))).objects(t) // the command can be repeated
}

// A command of which parts are in the log is not dropped silently when it has expired.
func TestExpiredPartsAreAnswered(t *testing.T) {
	t.Parallel()
	b := start(t, parted)
	b.logOnePart()
	began, read := time.Now(), b.log.read.Load()
	b.now = func() time.Time { // it expires while the first part is read
		if b.log.read.Load() > read {
			return began.Add(time.Hour)
		}
		return began
	}
	b.restartFailed(parted)
	length := b.log.length()
	again := partsOf(false)
	again.Expires = began.Add(time.Minute)
	if a := b.do(again); !errors.Is(a.err, api.ErrTimeout) {
		t.Errorf("got %v, %v", a.reply, a.err)
	}
	if n := b.log.length(); n != length {
		t.Errorf("the log has grown from %d to %d", length, n)
	}
	sameParts(t, b.do(partsOf(false)), false)
}

// A repetition of a command that waits, or is in flight, is not queued and its work is not
// kept. Their number is bounded.
func TestRepetitionsShareTheCommand(t *testing.T) {
	t.Parallel()
	for name, inFlight := range map[string]bool{"queued": false, "in flight": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var counted counter
			b := start(t, func(c *writer.Config) { c.Counted = counted.count })
			var release func()
			var one <-chan answer
			if inFlight {
				release = b.log.holdUp()
				one = b.submit(withID(1, create("x")))
				testkit.Receive(t, b.ctx, "the append", b.log.arrived)
			} else {
				var first *writer.Request
				var began <-chan struct{}
				first, began, release = paused(create("first"))
				b.submit(first)
				testkit.Receive(t, b.ctx, "the first to be decided", began)
				one = b.submit(withID(1, create("x")))
			}
			defer release()
			before, _ := b.w.Queued()
			var freed atomic.Int64
			var accepted []<-chan answer
			refusals := 0
			const all = 200
			for range all {
				r := withID(1, create("x"))
				r.Size = 100 << 10
				runtime.AddCleanup(r.Work.(*command.Objects), func(struct{}) { freed.Add(1) }, struct{}{})
				from := b.submit(r)
				if refusedAtOnce(t, from) {
					refusals++
				} else {
					accepted = append(accepted, from)
				}
			}
			if n, _ := b.w.Queued(); n != before {
				t.Errorf("%d requests wait, before the repetitions %d", n, before)
			}
			if _, n := b.w.Backlog(); n != len(accepted) || n != 64 || counted.get(writer.CountRepeated) != n {
				t.Errorf("%d repetitions wait, of %d, and %d were counted", n, len(accepted), counted.get(writer.CountRepeated))
			}
			testkit.WaitFor(t, b.ctx, "the repetitions to be freed", func() bool {
				runtime.GC()
				return freed.Load() == all
			})
			release()
			first := testkit.Receive(t, b.ctx, "the answer", one)
			for _, a := range accepted {
				same(t, first, testkit.Receive(t, b.ctx, "the answer", a))
			}
			if _, n := b.w.Backlog(); n != 0 {
				t.Errorf("%d repetitions wait at the end", n)
			}
		})
	}
}

// A command that takes long does not keep the writer from appending those before it.
func TestSlowDecisionsDoNotDelayTheCommit(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	slow := func(name string) *writer.Request {
		r := create(name)
		work := r.Work.(*command.Objects)
		decide := work.Decide
		work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, i int) (*lifecycle.Outcome, *lifecycle.Error) {
			for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
				runtime.Gosched()
			}
			return decide(ctx, at, i)
		}
		return r
	}
	first, began, release := paused(create("first"))
	defer release()
	b.submit(first)
	testkit.Receive(t, b.ctx, "the first to be decided", began)
	var answers []<-chan answer
	for i := range 20 {
		answers = append(answers, b.submit(slow(fmt.Sprint("slow-", i))))
	}
	release()
	for _, a := range answers {
		testkit.Receive(t, b.ctx, "an answer", a).objects(t)
	}
	if n := b.log.length(); n < 4 {
		t.Errorf("the log has %d commits: all requests were decided for one", n)
	}
}
