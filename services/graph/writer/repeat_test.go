package writer_test

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// same checks that two answers are the same success.
func same(t *testing.T, first, again answer) {
	t.Helper()
	if first.err != nil || again.err != nil {
		t.Fatalf("first %v, %v, then %v, %v", first.reply, first.err, again.reply, again.err)
	}
	if !proto.Equal(first.reply, again.reply) {
		t.Fatalf("the repetition was answered\n%v\nthe first\n%v", again.reply, first.reply)
	}
}

// A command that is sent again while it is in flight, or waits with the first for the same
// commit, gets the outcome of the first.
func TestRepetitionInFlight(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	release := b.log.holdUp()
	one := b.submit(withID(1, create("x")))
	testkit.Receive(t, b.ctx, "the append", b.log.arrived)
	oneAgain := b.submit(withID(1, create("x")))
	two, twoAgain := b.submit(withID(2, create("y"))), b.submit(withID(2, create("y")))
	release()
	receive := func(from <-chan answer) answer { return testkit.Receive(t, b.ctx, "the answer", from) }
	same(t, receive(one), receive(oneAgain))
	same(t, receive(two), receive(twoAgain))
	if there := b.there(); len(there) != 2 {
		t.Errorf("there are %v", there)
	}
	b.log.check(t)
}

// A command that was carried out before gets its first outcome, also when
// writer and state have been started again since.
func TestRepetition(t *testing.T) {
	t.Parallel()
	warned := configMap("warned")
	warned.Metadata.Finalizers = []string{"without-a-slash"}
	for name, request := range map[string]func() *writer.Request{
		"that follows from its events":  func() *writer.Request { return create("x") },
		"of a batch":                    func() *writer.Request { return create("x", "y", "z") },
		"with refusals":                 func() *writer.Request { return create("x", "x", "y") },
		"of a batch, whole":             func() *writer.Request { return whole(create("x", "y", "z")) },
		"with refusals, whole":          func() *writer.Request { return whole(create("x", "x", "y")) },
		"with warnings, which are kept": func() *writer.Request { return &writer.Request{Work: creation(warned)} },
		"atomic": func() *writer.Request {
			w := creation(configMap("x"), configMap("y"))
			w.Atomic = true
			return &writer.Request{Work: w}
		},
		"of a removal, whose object is it": func() *writer.Request { return remove("blocked") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, nil)
			b.do(create("blocked")).objects(t)
			first := b.do(withID(1, request()))
			b.do(create("another")).objects(t)
			length := b.log.length()
			same(t, first, b.do(withID(1, request())))
			if n := b.log.length(); n != length {
				t.Errorf("the repetition has grown the log from %d to %d", length, n)
			}
			b.restart()
			length = b.log.length()
			same(t, first, b.do(withID(1, request())))
			if n := b.log.length(); n != length {
				t.Errorf("the repetition has grown the log from %d to %d", length, n)
			}
			b.log.check(t)
		})
	}
}

// Run returns after the recalls that read the log and the state, which its caller
// closes then: also when the lease was lost, and the caller's context goes on.
func TestRecallsEndWithTheWriter(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do(withID(1, create("x"))).objects(t)
	reading := make(chan struct{})
	b.log.set(func(l *log) { l.reading = reading })
	before := b.log.read.Load()
	again := b.submit(withID(1, create("x")))
	testkit.Receive(t, b.ctx, "the recall", reading)
	b.lease.lose()
	if err := b.wait(); !errors.Is(err, writer.ErrLeaseLost) {
		t.Errorf("the writer ended with %v", err)
	}
	if b.log.read.Load() == before {
		t.Error("the writer has ended, and a recall still reads the log")
	}
	if a := testkit.Receive(t, b.ctx, "the answer", again); !errors.Is(a.err, api.ErrTimeout) {
		t.Errorf("the repetition was answered %v, %v; want a retryable error", a.reply, a.err)
	}
}

// whole requests complete objects.
func whole(r *writer.Request) *writer.Request {
	r.Work.(*command.Objects).ReturnObjects = true
	return r
}

// A batch that requests complete objects has the replies of its objects one by one.
func TestWhole(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	for _, again := range []string{"first", "again"} {
		results := b.do(withID(1, whole(create("x", "y")))).objects(t)
		if len(results) != 2 {
			t.Fatalf("%s: %v", again, results)
		}
		for i, r := range results {
			if r.GetCode() != 201 || string(r.GetObject().GetSpec()) != "{}" || r.GetObject().GetMetadata().GetCreationTimestamp() == nil {
				t.Errorf("%s: the result for object %d is %v", again, i, r)
			}
		}
	}
	for i, r := range b.do(create("v", "w")).objects(t) {
		if r.GetCode() != 201 || r.GetObject().GetSpec() != nil {
			t.Errorf("without asking: the result for object %d is %v", i, r)
		}
	}
}

func remove(name string) *writer.Request {
	work := creation(configMap(name))
	work.Decide = func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
		at.Name = name
		return lifecycle.Delete(ctx, at, "", &coppicev1.DeleteOptions{})
	}
	return &writer.Request{Work: work}
}

// A command that was refused has changed nothing, and may succeed when it is
// sent again.
func TestRepetitionOfARefusal(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do(create("x")).objects(t)
	if a := b.do(withID(1, create("x"))); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Fatalf("got %v", a)
	}
	b.do(remove("x")).objects(t)
	b.do(withID(1, create("x"))).objects(t)
}

// While the log cannot be read, the repetition of a command is not carried out
// a second time: it is to be sent once more.
func TestRepetitionWithoutLog(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first := b.do(withID(1, create("x")))
	b.log.set(func(l *log) { l.lost = true })
	if a := b.do(withID(1, create("x"))); !errors.Is(a.err, api.ErrTimeout) || a.err.RetryAfter == 0 {
		t.Errorf("got %v", a)
	}
	b.log.set(func(l *log) { l.lost = false })
	same(t, first, b.do(withID(1, create("x"))))
}

// Commands without an id are not taken for one another.
func TestNoID(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	_, release := b.underWay()
	var answers []<-chan answer
	for i := range 10 {
		answers = append(answers, b.submit(create(fmt.Sprint("n-", i))))
	}
	release()
	for _, a := range answers {
		testkit.Receive(t, b.ctx, "the answer", a).objects(t)
	}
	if n := len(b.there()); n != 11 {
		t.Errorf("%d objects", n)
	}
}
