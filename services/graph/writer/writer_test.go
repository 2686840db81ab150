package writer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Requests that are submitted while a commit is in flight become one commit.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	first, release := b.underWay()
	var answers []<-chan answer
	for i := range 100 {
		answers = append(answers, b.submit(create(fmt.Sprint("n-", i))))
	}
	none(t, "a command whose append is on its way", first)
	testkit.WaitFor(t, b.ctx, "the queue to be taken", func() bool { n, _ := b.w.Queued(); return n == 0 })
	release()
	testkit.Receive(t, b.ctx, "the first answer", first).objects(t)
	for _, a := range answers {
		if r := testkit.Receive(t, b.ctx, "an answer", a).objects(t); r[0].GetCode() != 201 {
			t.Fatalf("got %v", r[0])
		}
	}
	commits := b.log.check(t)
	if n := len(commits); n != 3 {
		t.Errorf("the log has %d commits: genesis, the first, the others together make 3", n)
	}
	if n := len(b.there()); n != 101 {
		t.Errorf("%d objects", n)
	}
}

// Commands of one commit see what those before them have changed.
func TestOverlay(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	_, release := b.underWay()
	one, two := b.submit(create("x")), b.submit(create("x"))
	release()
	testkit.Receive(t, b.ctx, "the answer", one).objects(t)
	if a := testkit.Receive(t, b.ctx, "the answer", two); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Errorf("the second creation in the same commit: %v", a)
	}
}

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*writer.Config)
		size   int
		fit    int
	}{
		"by length": {func(c *writer.Config) { c.QueueLength = 10 }, 1, 10},
		"by bytes":  {func(c *writer.Config) { c.QueueBytes = 1000 }, 300, 3},
		// Otherwise a request that is larger than the queue would never be accepted.
		"by bytes, save for one": {func(c *writer.Config) { c.QueueBytes = 1000 }, 5000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, c.change)
			first, began, release := paused(create("first"))
			defer release()
			b.submit(first)
			testkit.Receive(t, b.ctx, "the first to be decided", began)
			var queued []<-chan answer
			for i := range c.fit {
				r := create(fmt.Sprint("n-", i))
				r.Size = c.size
				queued = append(queued, b.submit(r))
			}
			r := create("too-many")
			r.Size = c.size
			a := b.do(r)
			if !errors.Is(a.err, api.ErrTooManyRequests) || a.err.RetryAfter == 0 {
				t.Errorf("beyond the bound: %v", a)
			}
			release()
			for _, q := range queued {
				testkit.Receive(t, b.ctx, "an answer", q).objects(t)
			}
			b.do(create("too-many")).objects(t)
		})
	}
}

// An atomic batch is all or none, and leaves the other commands of its commit
// alone.
func TestAtomicRollsBack(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do(create("taken")).objects(t)
	_, release := b.underWay()
	before := b.submit(create("before"))
	work := creation(configMap("x"), configMap("y"), configMap("taken"))
	work.Atomic = true
	batch := b.submit(&writer.Request{Work: work})
	after := b.submit(create("x"))
	release()
	testkit.Receive(t, b.ctx, "the answer", before).objects(t)
	a := testkit.Receive(t, b.ctx, "the answer", batch)
	if !errors.Is(a.err, api.ErrAlreadyExists) || a.err.Index != 2 {
		t.Errorf("the atomic batch: %v", a)
	}
	testkit.Receive(t, b.ctx, "the answer", after).objects(t) // x is free
	if there := b.there(); there["y"] || !there["x"] || !there["before"] {
		t.Errorf("there are %v", there)
	}
	b.log.check(t)
}

// A dry run has the reply of the real command, between other commands too, and changes
// nothing.
func TestDryRun(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	revision, length := b.revision(), b.log.length()
	dry := func(name string) *writer.Request {
		work := creation(configMap(name))
		work.DryRun = true
		return withID(7, &writer.Request{Work: work})
	}
	r := b.do(dry("x")).objects(t)
	if r[0].GetCode() != 201 || r[0].GetObject().GetMetadata().GetUid() == "" || r[0].GetObject().GetMetadata().GetResourceVersion() != 0 {
		t.Errorf("the dry run said %v", r[0])
	}
	// S13: a dry run writes no commit.
	if b.revision() != revision || b.log.length() != length {
		t.Errorf("a dry run has advanced the revision from %d to %d, the log from %d to %d", revision, b.revision(), length, b.log.length())
	}
	_, release := b.underWay()
	one, two, three := b.submit(create("x")), b.submit(dry("y")), b.submit(create("y"))
	release()
	for _, a := range []<-chan answer{one, two, three} {
		testkit.Receive(t, b.ctx, "the answer", a).objects(t)
	}
	// Its id is not taken: nothing was carried out.
	b.do(withID(7, create("z"))).objects(t)
	if there := b.there(); len(there) != 4 {
		t.Errorf("there are %v", there)
	}
	b.log.check(t)
}

// A command that changes nothing makes no commit, and neither does an empty dry run.
func TestNoChangeNoCommit(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do(create("x")).objects(t)
	length := b.log.length()
	if a := b.do(create("x")); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Errorf("got %v", a)
	}
	if n := b.log.length(); n != length {
		t.Errorf("a refusal has grown the log from %d to %d", length, n)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	small := func(c *writer.Config) { c.MaxPayload = 128 << 10 }
	large := func(name string, size int) *coppicev1.Object {
		o := configMap(name)
		o.Spec = []byte(`"` + strings.Repeat("x", size) + `"`)
		return o
	}
	b := start(t, small)
	if a := b.do(&writer.Request{Work: creation(large("x", 100<<10))}); !errors.Is(a.err, api.ErrRequestEntityTooLarge) {
		t.Errorf("an object: %v", a)
	}
	work := creation(large("x", 50<<10), large("y", 50<<10), large("z", 50<<10))
	work.Atomic = true
	if a := b.do(&writer.Request{Work: work}); !errors.Is(a.err, api.ErrRequestEntityTooLarge) {
		t.Errorf("an atomic batch: %v", a)
	}
	// A request that needs its own commit gets it.
	_, release := b.underWay()
	one := b.submit(&writer.Request{Work: creation(large("one", 50<<10))})
	work = creation(large("x", 50<<10), large("y", 50<<10))
	work.Atomic = true
	batch := b.submit(&writer.Request{Work: work})
	release()
	testkit.Receive(t, b.ctx, "the answer", one).objects(t)
	testkit.Receive(t, b.ctx, "the answer", batch).objects(t)
	if there := b.there(); len(there) != 4 || there["z"] {
		t.Errorf("there are %v", there)
	}
	b.log.check(t)
}

// A batch that is larger than a commit goes on in the next, and has one outcome.
func TestBatchOverCommits(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.MaxPayload = 256 << 10 })
	var objects []*coppicev1.Object
	for i := range 800 {
		o := configMap(fmt.Sprintf("n-%03d", i))
		o.Spec = []byte(`"` + strings.Repeat("x", 500) + `"`)
		objects = append(objects, o)
	}
	length := b.log.length()
	first := b.do(withID(1, &writer.Request{Work: creation(objects...)})).objects(t)
	if n := b.log.length() - length; n < 3 {
		t.Fatalf("the batch took %d commits; the test wants several", n)
	}
	for i, r := range first {
		if want := fmt.Sprintf("n-%03d", i); r.GetCode() != 201 || r.GetObject().GetMetadata().GetName() != want {
			t.Fatalf("result %d is %v", i, r)
		}
	}
	length = b.log.length()
	again := b.do(withID(1, &writer.Request{Work: creation(objects...)})).objects(t)
	if len(again) != len(first) {
		t.Fatalf("the repetition has %d results, the first had %d", len(again), len(first))
	}
	for i := range first {
		if !proto.Equal(again[i], first[i]) {
			t.Fatalf("result %d of the repetition is %v, was %v", i, again[i], first[i])
		}
	}
	if n := b.log.length(); n != length {
		t.Errorf("the repetition has grown the log from %d to %d", length, n)
	}
	b.log.check(t)
}

// The reply of a batch over several commits is kept with the last, which must
// have room for it.
func TestKeptReplyFits(t *testing.T) {
	t.Parallel()
	for large := range 5 {
		t.Run(fmt.Sprint(large), func(t *testing.T) {
			t.Parallel()
			b := start(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
			var objects []*coppicev1.Object
			for i := range 200 {
				objects = append(objects, configMap(fmt.Sprintf("n-%03d-%s", i, strings.Repeat("x", 100))))
			}
			for i := range large {
				o := configMap(fmt.Sprintf("z-%03d", i))
				o.Spec = []byte(`"` + strings.Repeat("x", 20<<10) + `"`)
				objects = append(objects, o)
			}
			first := b.do(withID(1, &writer.Request{Work: creation(objects...)})).objects(t)
			again := b.do(withID(1, &writer.Request{Work: creation(objects...)})).objects(t)
			if len(again) != len(objects) || len(first) != len(objects) {
				t.Fatalf("%d results, then %d", len(first), len(again))
			}
			b.log.check(t)
		})
	}
}

// A batch of which most is refused has a reply that is larger than its events.
// It is stored with the other replies of the commit, and must fit into the message.
func TestRefusalsFit(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
	batch := func(last string) *writer.Request {
		var objects []*coppicev1.Object
		for range 150 {
			objects = append(objects, configMap("taken-"+strings.Repeat("x", 100)))
		}
		return &writer.Request{Work: creation(append(objects, configMap(last))...)}
	}
	b.do(batch("first")).objects(t)
	release := b.log.holdUp()
	b.submit(create("blocked"))
	testkit.Receive(t, b.ctx, "the append", b.log.arrived)
	var answers []<-chan answer
	for i := range 5 {
		answers = append(answers, b.submit(withID(uint64(i+1), batch(fmt.Sprint("last-", i)))))
	}
	release()
	for i, a := range answers {
		first := testkit.Receive(t, b.ctx, "the answer", a).objects(t)
		if len(first) != 151 || first[0].GetError().GetReason() != string(api.ErrAlreadyExists) || first[150].GetCode() != 201 {
			t.Fatalf("batch %d has %d results: %v, ..., %v", i, len(first), first[0], first[len(first)-1])
		}
		again := b.do(withID(uint64(i+1), batch("other"))).objects(t)
		for j := range first {
			if !proto.Equal(again[j], first[j]) {
				t.Fatalf("batch %d: result %d of the repetition is %v, was %v", i, j, again[j], first[j])
			}
		}
	}
	b.log.check(t)
}

// A batch that ends with refusals in a commit of their own is still known by
// its id.
func TestLastPartWithoutEvents(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *writer.Config) { c.MaxPayload = 64 << 10 })
	large := func(name string) *coppicev1.Object {
		o := configMap(name)
		o.Spec = []byte(`"` + strings.Repeat("x", 20<<10) + `"`)
		return o
	}
	for n := range 4 { // one of them fills a commit, so that the rest is alone
		objects := []*coppicev1.Object{configMap(fmt.Sprint("first-", n))}
		for i := range n {
			objects = append(objects, large(fmt.Sprintf("large-%d-%d", n, i)))
		}
		for range 150 {
			objects = append(objects, objects[0])
		}
		id := uint64(n + 1)
		first := b.do(withID(id, &writer.Request{Work: creation(objects...)})).objects(t)
		again := b.do(withID(id, &writer.Request{Work: creation(objects...)})).objects(t)
		for i := range first {
			if !proto.Equal(again[i], first[i]) {
				t.Fatalf("%d: result %d of the repetition is %v, was %v", n, i, again[i], first[i])
			}
		}
	}
	b.log.check(t)
}

// A lost lease ends the writer. Queued requests are refused as retryable, and no read is
// answered.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.do(create("x")).objects(t)
	b.lease.holds.Store(false) // expired, and not noticed yet
	read, absent := b.submit(create("x")), b.submit(deletionOf("never", ""))
	if err := b.wait(); !errors.Is(err, writer.ErrLeaseLost) {
		t.Errorf("the writer ended with %v", err)
	}
	select {
	case a := <-read:
		if !errors.Is(a.err, api.ErrServiceUnavailable) {
			t.Errorf("without the lease a refusal was answered: %v, %v", a.reply, a.err)
		}
	default:
	}
	// X15: a writer without the lease does not report that an object does not exist.
	if a := testkit.Receive(t, b.ctx, "an answer", absent); !errors.Is(a.err, api.ErrServiceUnavailable) {
		t.Errorf("without the lease: %v, %v", a.reply, a.err)
	}
	if a := b.do(create("y")); !errors.Is(a.err, api.ErrServiceUnavailable) {
		t.Errorf("submitted behind the end: %v", a)
	}
}

// Without its lease a writer decides nothing more.
func TestLeaseLostWhileIdle(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.lease.lose()
	testkit.WaitFor(t, b.ctx, "the writer's end", func() bool {
		a := b.do(create("y"))
		return errors.Is(a.err, api.ErrServiceUnavailable)
	})
	if err := b.wait(); !errors.Is(err, writer.ErrLeaseLost) {
		t.Errorf("the writer ended with %v", err)
	}
}

// Requests of a commit that is in doubt are not answered, and queued requests are refused
// as retryable.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	release := b.log.holdUp()
	defer release()
	doubtful := b.submit(withID(1, create("x")))
	repetition := b.submit(withID(1, create("x")))
	testkit.Receive(t, b.ctx, "the append", b.log.arrived)
	queued := b.submit(create("y"))
	if err := b.end(); !errors.Is(err, eventlog.ErrOutcomeUnknown) {
		t.Errorf("the writer ended with %v", err)
	}
	none(t, "a command in doubt", doubtful)
	_ = repetition // it queued behind, or with the first: see below
	if a := testkit.Receive(t, b.ctx, "an answer", queued); !errors.Is(a.err, api.ErrServiceUnavailable) {
		t.Errorf("what was queued: %v", a)
	}
	if len(b.there()) != 0 {
		t.Errorf("the state has %v", b.there())
	}
}

// A writer that is fenced ends, and has changed nothing.
func TestFenced(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.log.set(func(l *log) { l.fail = eventlog.ErrFenced })
	fenced := b.submit(create("x"))
	if err := b.wait(); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("the writer ended with %v", err)
	}
	select {
	case a := <-fenced:
		if !errors.Is(a.err, api.ErrServiceUnavailable) {
			t.Errorf("a fenced command was answered: %v, %v", a.reply, a.err)
		}
	default:
	}
	if len(b.there()) != 0 {
		t.Errorf("the state has %v", b.there())
	}
}
