package writer_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// clock is a writer's clock, which a test steps.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() lifecycle.Time               { return lifecycle.Time(c.micros.Load()) }
func (c *clock) step(d time.Duration)              { c.micros.Add(d.Microseconds()) }
func (c *clock) set(w *writer.Config)              { w.Now = func() time.Time { return c.now().Time() } }
func (c *clock) in(d time.Duration) lifecycle.Time { return c.now().Add(d) }

// stepped is a memWriter whose writer has a clock of its own.
func stepped(t *testing.T) (*memWriter, *clock) {
	t.Helper()
	c := &clock{}
	c.micros.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	return start(t, c.set), c
}

// refused checks that a command was refused on account of its id.
func refused(t *testing.T, a answer, reason lifecycle.Reason, now lifecycle.Time) {
	t.Helper()
	if !errors.Is(a.err, reason) || !a.err.ServerTime.Equal(now.Time()) {
		t.Errorf("got %v, %v, want %s with the time %s", a.reply, a.err, reason, now.Time())
	}
}

// pass has others commit for a time, one command in each step.
func (b *memWriter) pass(c *clock, d, step time.Duration) {
	b.t.Helper()
	for end := c.in(d); c.now() < end; {
		c.step(min(step, end.Time().Sub(c.now().Time())))
		b.do(create(fmt.Sprint("other-", c.now()))).objects(b.t)
	}
}

// An id is recognised for two minutes after its commit, or after the time in it,
// whichever is later, and until then by any writer.
func TestIDsAreKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ahead         time.Duration // of the id
		known, forgot time.Duration // after its commit
	}{
		"of the commit's time": {0, 119 * time.Second, 121 * time.Second},
		"a minute slow":        {-time.Minute, 119 * time.Second, 121 * time.Second},
		// It was forgotten earlier than its time was refused.
		"59 s ahead": {59 * time.Second, 178 * time.Second, 180 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, c := stepped(t)
			at := c.in(test.ahead)
			request := func() *writer.Request { return withIDOf(at, 1, create("x")) }
			first := b.do(request())
			first.objects(t)
			b.do(remove("x")).objects(t) // so that a second one would succeed
			b.pass(c, test.known-30*time.Second, 10*time.Second)
			b.pass(c, 30*time.Second, time.Second)
			same(t, first, b.do(request()))
			b.restartWith(c.set)
			same(t, first, b.do(request()))
			b.pass(c, test.forgot-test.known, time.Second)
			refused(t, b.do(request()), api.ErrOutcomeUnknown, c.now())
			b.restartWith(c.set)
			refused(t, b.do(request()), api.ErrOutcomeUnknown, c.now())
			if b.there()["x"] {
				t.Error("the command was carried out twice")
			}
			b.log.check(t)
		})
	}
}

// S12: an id 59 s ahead is repeated 150 s after its commit.
func TestIDAheadIsRepeatedLate(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	at := c.in(59 * time.Second)
	first := b.do(withIDOf(at, 1, create("x")))
	b.do(remove("x")).objects(t)
	b.pass(c, 150*time.Second, 5*time.Second)
	same(t, first, b.do(withIDOf(at, 1, create("x"))))
	if b.there()["x"] {
		t.Error("the command was carried out twice")
	}
}

// However many other commands there were, an id is not forgotten for their number.
func TestIDsAreNotCounted(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	at := c.now()
	first := b.do(withIDOf(at, 1, create("x")))
	b.do(remove("x")).objects(t)
	const others = 4 << 10
	b.state.SetCommandMemory(100 * others / 8)
	for i := range others {
		if i%64 == 0 {
			c.step(time.Second)
		}
		b.do(withIDOf(c.now(), uint64(i+2), create(fmt.Sprint("other-", i)))).objects(t)
	}
	same(t, first, b.do(withIDOf(at, 1, create("x"))))
}

// An id counts for its actor only.
func TestIDsOfActors(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	by := func(actor string, r *writer.Request) *writer.Request {
		r.Actor = actor
		return withIDOf(c.now(), 1, r)
	}
	ana := b.do(by("ana", create("x")))
	ana.objects(t)
	b.do(remove("x")).objects(t)
	bob := b.do(by("bob", create("x")))
	if bob.objects(t)[0].GetObject().GetMetadata().GetUid() == ana.objects(t)[0].GetObject().GetMetadata().GetUid() {
		t.Error("another actor's command was answered with the first one's outcome")
	}
	same(t, ana, b.do(by("ana", create("x"))))
	same(t, bob, b.do(by("bob", create("x"))))
	_, release := b.underWay()
	one, two := b.submit(by("cid", create("y"))), b.submit(by("dan", create("y")))
	release()
	testkit.Receive(t, b.ctx, "the answer", one).objects(t)
	if a := testkit.Receive(t, b.ctx, "the answer", two); !errors.Is(a.err, api.ErrAlreadyExists) {
		t.Errorf("while the first is decided: %v, %v", a.reply, a.err)
	}
}

// Ids that are malformed, or of a wrong time, are refused.
func TestIDsAreRefused(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	random := withIDOf(c.now(), 1, create("x"))
	random.ID[6] = 4<<4 | random.ID[6]&0xf
	refused(t, b.do(random), api.ErrInvalid, c.now())
	refused(t, b.do(withIDOf(c.in(61*time.Second), 1, create("x"))), api.ErrInvalid, c.now())
	refused(t, b.do(withIDOf(c.in(-121*time.Second), 1, create("x"))), api.ErrOutcomeUnknown, c.now())
	if there := b.there(); len(there) > 0 {
		t.Errorf("there are %v", there)
	}
	b.do(withIDOf(c.in(60*time.Second), 1, create("ahead"))).objects(t)
	b.do(withIDOf(c.in(-119*time.Second), 2, create("behind"))).objects(t)
	// Of one that was refused nothing is kept.
	c.step(2 * time.Second)
	b.do(withIDOf(c.in(59*time.Second), 1, create("x"))).objects(t)
}

// After an hour without commits, callers begin at once: by a right clock, and
// by one that is as slow as the newest commit allows.
func TestIDsAfterAnHour(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]time.Duration{"right": 0, "10 min slow": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, c := stepped(t)
			b.do(create("before")).objects(t)
			c.step(time.Hour)
			request := func(i int) *writer.Request { return withIDOf(c.in(-late), uint64(i+1), create(fmt.Sprint("n-", i))) }
			var first, again []answer
			for _, list := range []*[]answer{&first, &again} {
				var pending []<-chan answer
				for i := range 64 {
					pending = append(pending, b.submit(request(i)))
				}
				for _, p := range pending {
					*list = append(*list, testkit.Receive(t, b.ctx, "the answer", p))
				}
			}
			done := 0
			for i := range first {
				switch {
				case first[i].err == nil:
					same(t, first[i], again[i])
					done++
				case late == 0:
					t.Errorf("caller %d: %v", i, first[i].err)
				default: // it came behind the commit of others
					refused(t, first[i], api.ErrOutcomeUnknown, c.now())
				}
			}
			if there := b.there(); done == 0 || len(there) != done+1 {
				t.Errorf("%d callers were answered; there are %v", done, there)
			}
			b.log.check(t)
		})
	}
}

// A command whose id is too far ahead of the open commit waits for the next commit.
func TestIDAheadOfTheOpenCommit(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	_, release := b.underWay()
	open := b.submit(create("open"))
	testkit.WaitFor(t, b.ctx, "the open commit", func() bool {
		n, _ := b.w.Queued()
		return n == 0
	})
	c.step(2 * time.Second)
	at := c.in(59 * time.Second)
	ahead := b.submit(withIDOf(at, 1, create("ahead")))
	release()
	testkit.Receive(t, b.ctx, "the answer", open).objects(t)
	testkit.Receive(t, b.ctx, "the answer", ahead).objects(t)
	for _, commit := range b.log.check(t) {
		for _, k := range commit.Commands {
			if id, ok := state.CommandID(k.ID).Time(); ok && id > commit.Time.Add(state.CommandAhead) {
				t.Errorf("an id is %s ahead of its commit", id.Time().Sub(commit.Time.Time()))
			}
		}
	}
}

// A process that may have lost its lease does not refuse commands on account of the
// newest commit.
func TestIDsAreRefusedByTheWriterOnly(t *testing.T) {
	t.Parallel()
	b, c := stepped(t)
	b.lease.holds.Store(false)
	ahead := b.submit(withIDOf(c.in(time.Hour), 1, create("x")))
	if err := b.wait(); !errors.Is(err, writer.ErrLeaseLost) {
		t.Errorf("the writer ended with %v", err)
	}
	select {
	case a := <-ahead:
		if !errors.Is(a.err, api.ErrServiceUnavailable) {
			t.Errorf("without the lease: %v", a.err)
		}
	default:
	}
}
