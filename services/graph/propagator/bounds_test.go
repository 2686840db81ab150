package propagator

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/propagator/queue"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// An object that begins to wait while cycles are searched for in an older
// snapshot is examined by the next search.
func TestWaitsSinceTheSnapshot(t *testing.T) {
	t.Parallel()
	c := New(Config{}).cycles
	c.add("old", 7)
	c.add("new", 7)
	c.add("new", 9)
	c.keep([]uid.UID{"old", "new"}, 8, false, nil, func(uid.UID) bool { return false })
	if _, ok := c.blocked["old"]; ok {
		t.Error("an object that does not wait is kept")
	}
	if _, ok := c.blocked["new"]; !ok {
		t.Error("an object that waits since is forgotten")
	}
}

// When too many objects wait to remember them, those that come while all rows are
// examined in an older snapshot are not forgotten.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	c := New(Config{}).cycles
	for i := range maxBlocked {
		c.add(uid.UID(fmt.Sprint(i)), 1)
	}
	c.add("more", 9)
	none := func(uid.UID) bool { return false }
	c.keep(nil, 8, true, nil, none)
	if c.overflow == 0 {
		t.Error("an object that waits since is forgotten")
	}
	c.keep(nil, 9, true, []*lifecycle.Node{{UID: "more"}}, none)
	if _, ok := c.blocked["more"]; !ok && c.overflow == 0 {
		t.Error("an object that waits is forgotten")
	}
}

// When too many containers are drained to remember them, the row of another is
// evaluated again soon.
func TestTooManyContainers(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	for i := range queue.DefaultLimit {
		p.draining.AddAt(uid.UID(fmt.Sprint(i)), 0, time.Now().Add(time.Hour))
	}
	p.drain("shop", false)
	if p.draining.Has("shop") || !p.rows.Has("shop") {
		t.Error("the container is examined by nothing but the scanner")
	}
}

// When too many rows change to remember them, all are evaluated.
func TestTooManyRows(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	first, _ := p.rows.Take(0)
	p.rows.Done(first)
	changes := make([]state.OwedChange, queue.DefaultLimit)
	for i := range changes {
		changes[i] = state.OwedChange{UID: uid.UID(fmt.Sprint(i)), Has: true}
	}
	p.Notify(changes)
	p.Notify([]state.OwedChange{{UID: "more", Has: true}})
	if b, _ := p.rows.Take(0); !b.All || b.AllFlags != everything {
		t.Error("a row is forgotten")
	}
}
