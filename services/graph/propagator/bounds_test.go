package propagator

import (
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/queue"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// When too many containers are drained to remember them, the row of another is
// evaluated again soon.
func TestTooManyContainers(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	for i := range queue.DefaultLimit {
		p.draining.AddAt(uid.UID(fmt.Sprint(i)), 0, time.Now().Add(time.Hour))
	}
	p.drain("shop", 0)
	if p.draining.Has("shop") || !p.rows.Has("shop") {
		t.Error("the container is examined by nothing but the scanner")
	}
}

// A walk of a container that is under way when its contents change is followed by another. A
// repeated request alone adds none.
func TestDrainAgain(t *testing.T) {
	t.Parallel()
	p, w := New(Config{}), walk{ofContents, "shop"}
	p.drain("shop", 0)
	for _, f := range []queue.Flags{lost, dependentsChanged} {
		b, _ := p.walks.Take(0)
		p.drain("shop", f)
		p.walks.Done(b)
		if is := p.walks.Pending(w); is != (f == dependentsChanged) {
			t.Errorf("with flags %v, another walk is pending: %t", f, is)
		}
		p.addWalk(w)
	}
}

// When too many rows change to remember them, all are evaluated.
func TestTooManyRows(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	first, _ := p.rows.Take(0)
	p.rows.Done(first)
	changes := make([]state.WorkChange, queue.DefaultLimit)
	for i := range changes {
		changes[i] = state.WorkChange{UID: uid.UID(fmt.Sprint(i)), Has: true}
	}
	p.Notify(changes)
	p.Notify([]state.WorkChange{{UID: "more", Has: true}})
	if b, _ := p.rows.Take(0); !b.All || b.AllFlags != publishAgain {
		t.Error("a row is forgotten")
	}
}
