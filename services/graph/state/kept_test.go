package state

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// kept commits to a state one by one.
type kept struct {
	t                  *testing.T
	s                  *State
	kind               *lifecycle.Kind
	sequence, revision uint64
	ahead              bool // each is decided before the one before is applied
	last               *Tx  // that is not applied yet
}

func newKept(t *testing.T) *kept {
	t.Helper()
	return &kept{t: t, s: smallState(t, vfs.NewMem()), kind: lifecycle.NewKinds().Of(lifecycle.Group, "Kind")}
}

func (k *kept) creation(name string) *lifecycle.Event {
	n := &lifecycle.Node{UID: uid.MustParse("u-" + name), APIVersion: k.kind.APIVersion(), Kind: k.kind.Kind, Name: name, Generation: 1, ImportTime: 1}
	return &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: n.UID, Object: lifecycle.Object{Node: n}}
}

func deletion(name string) *lifecycle.Event {
	return &lifecycle.Event{Type: lifecycle.ObjectDeleted, UID: uid.MustParse("u-" + name)}
}

// commit commits events, and what reading does alongside them.
func (k *kept) commit(read func(*Tx), events ...*lifecycle.Event) {
	k.t.Helper()
	var tx *Tx
	if k.last != nil {
		tx = k.last.Next()
	} else {
		tx = k.s.Begin()
	}
	defer tx.Drop()
	if read != nil {
		read(tx)
	}
	for _, e := range events {
		k.revision++
		apply(k.t, tx, e, k.revision, []byte("body of "+e.UID))
	}
	k.sequence++
	tx.EndCommit(Commit{Sequence: k.sequence, Time: 1})
	before := tx
	if k.ahead {
		before, k.last = k.last, tx
	}
	if before == nil {
		return
	}
	if _, err := before.Apply(); err != nil {
		k.t.Fatal(err)
	}
}

// Rows that a commit has read or written are not read again by the next two commits,
// unless one of these is large.
func TestBeginRemembers(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	a := uid.MustParse("u-a")
	k.commit(nil, k.creation("a"))
	// A later lookup does not find it.
	for _, key := range [][]byte{keyOfUID(tableNode, a), nameKey(nil, k.kind.Resource(), "", "a")} {
		must.Succeed(t, k.s.db.Delete(key, pebble.NoSync))
	}
	there := func(tx *Tx) bool { return tx.Lookup(k.kind, "", "a") == a && tx.Node(a) != nil }
	for i := range 3 {
		k.commit(func(tx *Tx) {
			if !there(tx) {
				t.Errorf("it was looked up by commit %d after", i+1)
			}
		}, k.creation(fmt.Sprint("small-", i)))
	}
	var many []*lifecycle.Event
	for i := range mostKept {
		many = append(many, k.creation(fmt.Sprint("many-", i)))
	}
	k.commit(nil, many...)
	k.commit(func(tx *Tx) {
		if there(tx) {
			t.Error("it is remembered after a large commit")
		}
	})
}

// A10.11: how long the removal of an object is stored is a function of the log,
// also where every commit asks.
func TestBeginForgetsRemovals(t *testing.T) {
	t.Parallel()
	remembering, ahead, looking := newKept(t), newKept(t), newKept(t)
	ahead.ahead = true
	states := []*kept{remembering, ahead, looking}
	for _, k := range states {
		k.s.removed.max = 3
		k.commit(nil, k.creation("a"))
		k.commit(nil, deletion("a"))
	}
	var known [3]bool
	forgotten := false
	for i := range 6 {
		name := fmt.Sprint("b-", i)
		for n, k := range states {
			if k == looking {
				k.s.Forget()
			}
			k.commit(func(tx *Tx) {
				_, known[n] = tx.Removed(uid.MustParse("u-a"), k.creation("a").Object.Coordinates())
			}, k.creation(name), deletion(name))
		}
		if known[0] != known[2] || known[1] != known[2] {
			t.Fatalf("after %d others: known where it is remembered: %t, where it is not written yet: %t, where it is looked up: %t", i, known[0], known[1], known[2])
		}
		if i == 0 && !known[0] {
			t.Fatal("it is not known at once")
		}
		forgotten = forgotten || !known[0]
	}
	if !forgotten {
		t.Fatal("it is known for ever")
	}
}

// An object that was deleted and created again under another name no longer has the first.
func TestBeginForgetsNames(t *testing.T) {
	t.Parallel()
	k := newKept(t)
	find := func(tx *Tx, name string) uid.UID { return tx.Lookup(k.kind, "", name) }
	k.commit(nil, k.creation("a"))
	k.commit(func(tx *Tx) { find(tx, "a") }, deletion("a"))
	back := k.creation("b")
	back.UID, back.Object.UID = uid.MustParse("u-a"), uid.MustParse("u-a")
	k.commit(func(tx *Tx) { find(tx, "a") }, back)
	k.commit(func(tx *Tx) {
		if got := find(tx, "a"); got != "" {
			t.Errorf("a is the name of %s", got)
		}
		if got := find(tx, "b"); got != back.UID {
			t.Errorf("b is the name of %q", got)
		}
	})
}
