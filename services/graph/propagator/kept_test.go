package propagator

import (
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// An object that begins to wait while cycles are searched for in an older
// snapshot is examined by the next search.
func TestWaitsSinceTheSnapshot(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	p.hold("old", 7)
	p.hold("new", 7)
	p.hold("new", 9)
	p.waited([]uid.UID{"old", "new"}, 8, false, nil, func(uid.UID) bool { return false })
	if _, ok := p.held["old"]; ok {
		t.Error("an object that does not wait is kept")
	}
	if _, ok := p.held["new"]; !ok {
		t.Error("an object that waits since is forgotten")
	}
}

// When too many objects wait to remember them, those that come while all rows are
// examined in an older snapshot are not forgotten.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	p := New(Config{})
	for i := range maxHints {
		p.hold(uid.UID(fmt.Sprint(i)), 1)
	}
	p.hold("more", 9)
	none := func(uid.UID) bool { return false }
	p.waited(nil, 8, true, nil, none)
	if p.allHeld == 0 {
		t.Error("an object that waits since is forgotten")
	}
	p.waited(nil, 9, true, []*lifecycle.Node{{UID: "more"}}, none)
	if _, ok := p.held["more"]; !ok && p.allHeld == 0 {
		t.Error("an object that waits is forgotten")
	}
}

// When too many containers are drained to remember them, the row of another is
// examined again soon.
func TestTooManyContainers(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	p := New(Config{State: r.State})
	for i := range maxHints {
		p.evicting[uid.UID(fmt.Sprint(i))] = false
	}
	p.evict(t.Context(), nil, "shop", false)
	if _, ok := p.due.at["shop"]; !ok {
		t.Error("the container is examined by nothing but the scanner")
	}
}
