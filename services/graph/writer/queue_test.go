package writer

import (
	"fmt"
	"testing"
	"time"
)

// putAll puts requests of an actor into the queue until one is refused, and returns how many
// were accepted.
func putAll(t *testing.T, q *queue, actor string, most, size int) (accepted int) {
	t.Helper()
	for range most {
		result, removed := q.put(&Request{Actor: actor, Verb: "create", Size: size})
		if result != queued {
			return accepted
		}
		for _, r := range removed {
			if r.Actor == actor {
				t.Fatalf("%s displaced itself", actor)
			}
		}
		accepted++
	}
	return accepted
}

// An actor that fills the queue does not keep others out: each has an equal share.
func TestQueueShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ length, bytes int }{
		"by number": {60, 1 << 30},
		"by bytes":  {1 << 20, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQueue(c.length, c.bytes, time.Hour, nil)
			for i, want := range []int{60, 30, 20, 15} {
				if n := putAll(t, q, fmt.Sprint("actor-", i), 1000, 100); n != want {
					t.Errorf("actor %d got %d places, want %d", i, n, want)
				}
				if l := q.load(); l.requests != 60 || l.bytes != 6000 {
					t.Errorf("with actor %d, %d requests of %d bytes wait", i, l.requests, l.bytes)
				}
			}
			for _, l := range q.lines {
				if l.requests != 15 {
					t.Errorf("%s has %d places at last", l.actor, l.requests)
				}
			}
		})
	}
}

// Requests are handed out in turns, and those of each actor in order. One that is returned is
// next.
func TestQueueTurns(t *testing.T) {
	t.Parallel()
	q := newQueue(100, 1<<20, time.Hour, nil)
	for _, r := range []string{"a1", "a2", "a3", "b1", "c1", "c2", "a4"} {
		if result, removed := q.put(&Request{Actor: r[:1], Note: r}); result != queued || len(removed) > 0 {
			t.Fatalf("%s: %v, %v", r, result, removed)
		}
	}
	var got []string
	for r := q.next(); r != nil; r = q.next() {
		if r.Note == "c1" && r.Size == 0 {
			before := q.load()
			r.Size = 10
			q.putBack(r)
			if l := q.load(); l.requests != before.requests+1 || l.bytes != before.bytes+10 {
				t.Errorf("a returned request is not counted: %v, then %v", before, l)
			}
			continue
		}
		got = append(got, r.Note)
	}
	if want := "[a1 b1 c1 a2 c2 a3 a4]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if l := q.load(); l != (load{}) || len(q.lines)+len(q.turns) > 0 {
		t.Errorf("the empty queue has %v, %v, %v", l, q.lines, q.turns)
	}
	select {
	case <-q.ready():
		t.Error("an empty queue is ready")
	default:
	}
}

// The queue is bounded in the time to decide what waits, as the requests of the same actor and
// verb took it before. Others have their share of the time.
func TestQueueTime(t *testing.T) {
	t.Parallel()
	q := newQueue(1000, 1<<20, 10*time.Second, nil)
	putAll(t, q, "slow", 1, 1)
	r := q.next()
	q.updateEstimate(r, 8*time.Second) // the first of eight
	if n := putAll(t, q, "slow", 1000, 1); n != 10 {
		t.Errorf("%d requests of 1 s wait", n)
	}
	if l := q.load(); l.time != 10*time.Second {
		t.Errorf("they take %s", l.time)
	}
	if n := putAll(t, q, "quick", 100, 1); n != 100 {
		t.Errorf("%d requests of another actor were accepted", n)
	}
	q.updateEstimate(r, 9*time.Second) // now 2 s
	if l := q.load(); l.time != 20*time.Second || q.lines["slow"].time != l.time {
		t.Errorf("they take %s, of the actor %s", l.time, q.lines["slow"].time)
	}
	for r := q.next(); r != nil; r = q.next() {
	}
	if l := q.load(); l != (load{}) {
		t.Errorf("the empty queue has %v", l)
	}
}

// A request that was begun keeps its place.
func TestQueueKeepsWhatIsBegun(t *testing.T) {
	t.Parallel()
	q := newQueue(2, 100, time.Hour, nil)
	begun := &Request{Actor: "a", Size: 60, begun: true}
	for range 2 {
		q.put(begun)
		if q.next() != begun {
			t.Fatal("another request")
		}
	}
	q.putBack(begun)
	q.put(&Request{Actor: "b", Size: 30})
	result, removed := q.put(&Request{Actor: "c", Size: 20})
	if result != queueFull || len(removed) > 0 {
		t.Errorf("%v, %v", result, removed)
	}
	if q.next() != begun {
		t.Error("it was removed")
	}
}

// The queues of a process share a budget. A realm can be used while others fill it.
func TestQueuesShareABudget(t *testing.T) {
	t.Parallel()
	budget := NewBudget(4 << 20)
	one, two := newQueue(1000, 64<<20, time.Hour, budget), newQueue(1000, 64<<20, time.Hour, budget)
	if n := putAll(t, one, "a", 1000, 64<<10); n != 64 {
		t.Errorf("the first realm has %d requests of 64 KiB", n)
	}
	if n := putAll(t, two, "a", 1000, 64<<10); n != 16 {
		t.Errorf("the second realm has %d requests of 64 KiB", n)
	}
	if n := putAll(t, two, "b", 1000, 64<<10); n != 8 {
		t.Errorf("another actor of the second realm has %d requests of 64 KiB", n)
	}
	if used := budget.Used(); used != 5<<20 {
		t.Errorf("%d bytes are used", used)
	}
	one.close()
	if n := putAll(t, two, "a", 1000, 64<<10); n != 64-16 {
		t.Errorf("the second realm has got %d more", n)
	}
	for r := two.next(); r != nil; r = two.next() {
	}
	if used := budget.Used(); used != 0 {
		t.Errorf("%d bytes are used by empty queues", used)
	}
}

// An actor without waiting requests is accepted whatever its requests are estimated to take: only a decision corrects
// an estimate that is too long.
func TestQueueAcceptsTheOnlyRequest(t *testing.T) {
	t.Parallel()
	q := newQueue(100, 1<<20, time.Second, nil)
	slow := func() *Request { return &Request{Actor: "slow", Verb: "create", Size: 1} }
	r := slow()
	if result, _ := q.put(r); result != queued || q.next() != r {
		t.Fatal("an empty queue refuses a request")
	}
	q.updateEstimate(r, time.Hour)
	if result, _ := q.put(&Request{Actor: "other", Verb: "create", Size: 1}); result != queued {
		t.Fatal("another actor is refused")
	}
	if result, _ := q.put(slow()); result != queued {
		t.Error("the only request is refused")
	}
	if result, _ := q.put(slow()); result != queueFull {
		t.Error("a second request is accepted")
	}
}
