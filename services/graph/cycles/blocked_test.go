package cycles

import (
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// An object that begins to wait while cycles are searched for in an older
// snapshot is examined by the next search.
func TestBlockedSinceTheSnapshot(t *testing.T) {
	t.Parallel()
	b := NewBlocked(10)
	b.Add("old", 7)
	b.Add("new", 7)
	b.Add("new", 9)
	b.keep([]uid.UID{"old", "new"}, 8, false, nil, func(uid.UID) bool { return false })
	if _, ok := b.uids["old"]; ok {
		t.Error("an object that does not wait is kept")
	}
	if _, ok := b.uids["new"]; !ok {
		t.Error("an object that waits since is forgotten")
	}
}

// When too many objects wait to remember them, those that are added while all rows are
// examined in an older snapshot are not forgotten.
func TestTooManyBlocked(t *testing.T) {
	t.Parallel()
	const limit = 10
	b := NewBlocked(limit)
	for i := range limit {
		b.Add(uid.UID(fmt.Sprint(i)), 1)
	}
	b.Add("more", 9)
	none := func(uid.UID) bool { return false }
	b.keep(nil, 8, true, nil, none)
	if b.overflow == 0 {
		t.Error("an object that waits since is forgotten")
	}
	b.keep(nil, 9, true, []*lifecycle.Node{{UID: "more"}}, none)
	if _, ok := b.uids["more"]; !ok && b.overflow == 0 {
		t.Error("an object that waits is forgotten")
	}
}
