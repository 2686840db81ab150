package scanner_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/scanner"
)

// due replies with one object that has expired by the time of the scanner, and the cursor of the
// next one.
func (b *scanned) due(q *coppicev1.DueRequest) (*coppicev1.DueReply, *lifecycle.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.searches = append(b.searches, q.GetNow())
	var due []string
	for u, at := range b.expires {
		if at <= q.GetNow() && u > string(q.GetCursor()) {
			due = append(due, u)
		}
	}
	slices.Sort(due)
	reply := &coppicev1.DueReply{}
	if len(due) > 0 {
		reply.Objects = []*coppicev1.DueObject{{Uid: []byte(uid.MustParse(due[0])), At: b.expires[due[0]]}}
	}
	if len(due) > 1 {
		reply.Cursor = []byte(due[0])
	}
	return reply, nil
}

func (b *scanned) expire(q *coppicev1.ExpireRequest) (*coppicev1.ExpireReply, *lifecycle.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reply := &coppicev1.ExpireReply{}
	for _, o := range q.GetObjects() {
		u, _, err := uid.CutBytes(o.GetUid())
		if err != nil || o.GetAt() != b.expires[u.String()] || o.GetAt() > q.GetNow() {
			b.Errorf("asked at %d to delete %s, which expires at %d: %v", q.GetNow(), u, o.GetAt(), err)
		}
		b.expired = append(b.expired, u.String())
		delete(b.expires, u.String())
		reply.Expired++
	}
	return reply, nil
}

// wall is a wall clock and a clock since boot, which a test sets.
type wall struct {
	micros  atomic.Int64
	elapsed atomic.Int64

	mu   sync.Mutex
	read int64 // elapsed when the wall clock was read last: time passes on both clocks at once
}

func (w *wall) configure(c *scanner.Config) {
	c.ExpiryInterval = time.Millisecond
	c.Wall = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.read = w.elapsed.Load()
		return time.UnixMicro(w.micros.Load())
	}
	c.Elapsed = func() time.Duration {
		w.mu.Lock()
		defer w.mu.Unlock()
		return time.Duration(w.read)
	}
}

// pass has time pass on both clocks.
func (w *wall) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.elapsed.Add(int64(d))
	w.micros.Add(d.Microseconds())
}

// searched waits until another search has begun and ended, and returns the time of its clock.
func (b *scanned) searched() int64 {
	b.Helper()
	b.mu.Lock()
	n := len(b.searches)
	b.mu.Unlock()
	var at int64
	b.WaitFor("two more searches for expired objects", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.searches) < n+2 {
			return false
		}
		at = b.searches[len(b.searches)-1]
		return true
	})
	return at
}

func (b *scanned) gone() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.expired)
}

// B6.2: what has expired is deleted, page by page, and nothing else.
func TestExpire(t *testing.T) {
	t.Parallel()
	b := newEmpty(t)
	const hour = int64(time.Hour / time.Microsecond)
	b.expires = map[string]int64{"a": hour, "b": hour, "c": 2 * hour}
	w := &wall{}
	w.micros.Store(1)
	b.serve().run(w.configure)
	if b.searched(); len(b.gone()) > 0 {
		t.Fatalf("%v were deleted early", b.gone())
	}
	w.pass(time.Hour)
	b.WaitFor("two objects to be deleted", func() bool { return len(b.gone()) == 2 })
	if b.searched(); !slices.Equal(b.gone(), []string{"a", "b"}) {
		t.Errorf("deleted %v", b.gone())
	}
	b.WaitFor("the metric", func() bool { return b.metric("coppice_scanner_expired_total") == 2 })
}

// B6.2: a wall clock that steps ahead and back deletes nothing early. A step back has effect at
// once, one ahead after an hour.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	b := newEmpty(t)
	day := 24 * time.Hour
	b.expires = map[string]int64{"a": (10 * day).Microseconds()}
	w := &wall{}
	w.micros.Store((9 * day).Microseconds())
	b.serve().run(w.configure)
	b.searched()
	w.micros.Add((2 * day).Microseconds())
	w.pass(30 * time.Minute)
	if at := time.UnixMicro(b.searched()); at.After(time.UnixMicro(0).Add(9*day + 31*time.Minute)) {
		t.Errorf("half an hour after a step ahead by two days it is %v", at.UTC())
	}
	w.micros.Add(-(2 * day).Microseconds())
	b.searched()
	w.micros.Add(-day.Microseconds())
	if at := time.UnixMicro(b.searched()); !at.Equal(time.UnixMicro(0).Add(8*day + 30*time.Minute)) {
		t.Errorf("after a step back by a day it is %v", at.UTC())
	}
	w.pass(23 * time.Hour)
	if b.searched(); len(b.gone()) > 0 {
		t.Fatalf("%v were deleted early", b.gone())
	}
	w.micros.Add(day.Microseconds())
	b.searched()
	w.pass(30 * time.Minute)
	if b.searched(); len(b.gone()) > 0 {
		t.Fatalf("%v were deleted half an hour after a step ahead", b.gone())
	}
	w.pass(time.Hour)
	b.WaitFor("the step to be followed", func() bool { return len(b.gone()) == 1 })
}

func (b *scanned) listPolicies(*coppicev1.ListRequest) (*coppicev1.ListReply, *lifecycle.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reply := &coppicev1.ListReply{}
	for _, name := range b.policies {
		reply.Objects = append(reply.Objects, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}})
	}
	return reply, nil
}

// examine is a policy that applies to one object on each of two pages; the policy "broken" fails.
func (b *scanned) examine(q *coppicev1.ExamineRequest) (*coppicev1.ExamineReply, *lifecycle.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.examined = append(b.examined, q.GetPolicy()+string(q.GetCursor()))
	if q.GetPolicy() == "broken" {
		return nil, lifecycle.ErrBadRequest("spec: it is broken")
	}
	reply := &coppicev1.ExamineReply{Examined: 5, Matched: 1, Expired: 1}
	if len(q.GetCursor()) == 0 {
		reply.Cursor = []byte("/2")
	}
	return reply, nil
}

// B6.5: all policies are evaluated on all pages, also behind one that fails.
func TestPolicies(t *testing.T) {
	t.Parallel()
	b := newEmpty(t)
	b.policies = []string{"broken", "old"}
	b.serve().run(nil)
	b.WaitFor("the metric", func() bool {
		return b.metric("coppice_scanner_expired_total") >= 2 && b.metric("coppice_scanner_policy_matches") == 2
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.examined[:3]; !slices.Equal(got, []string{"broken", "old", "old/2"}) {
		t.Errorf("examined %v", got)
	}
}
