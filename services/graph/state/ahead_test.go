package state

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
)

// twoStates plays the same commits to two states. Of one, nodes are read many at once
// and commits begin while others are still to be applied; of the other, all is
// read one by one and applied at once.
type twoStates struct {
	t           *rapid.T
	fast, plain *State
	ahead       []*Tx // of fast, to be applied, oldest first
	snapshots   []*Snapshot
	there       map[int]*lifecycle.Node
	kind        *lifecycle.Kind

	sequence, revision uint64
}

// spread is how far from one another objects are made first, so that others fit
// between them.
const spread = 3

func newTwoStates(t *rapid.T) *twoStates {
	open := func() *State {
		s, err := Open("state", Config{FS: vfs.NewMem(), MemTableSize: 64 << 10, CacheSize: 1 << 20})
		must.Succeed(t, err)
		return s
	}
	return &twoStates{
		t: t, fast: open(), plain: open(), there: map[int]*lifecycle.Node{},
		kind: lifecycle.NewKinds().Of(lifecycle.Group, "Kind"),
	}
}

func (r *twoStates) close() {
	for _, s := range r.snapshots {
		_ = s.Close()
	}
	_ = r.fast.Close()
	_ = r.plain.Close()
}

func (r *twoStates) uid(i int) uid.UID { return uid.MustParse(fmt.Sprintf("u-%03d", i)) }

// some are most of the objects that are there, in order, often without those
// that were made between others.
func (r *twoStates) some() []int {
	all := slices.Sorted(maps.Keys(r.there))
	if rapid.IntRange(0, 3).Draw(r.t, "between, too") > 0 {
		all = slices.DeleteFunc(all, func(i int) bool { return i%spread > 0 })
	}
	if len(all) == 0 {
		return nil
	}
	all = all[rapid.IntRange(0, len(all)/2).Draw(r.t, "from"):]
	for range rapid.IntRange(0, 2).Draw(r.t, "left out") {
		if i := rapid.IntRange(0, len(all)).Draw(r.t, "without"); i < len(all) {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

func (r *twoStates) created(i int) *lifecycle.Event {
	n := &lifecycle.Node{UID: r.uid(i), APIVersion: r.kind.APIVersion(), Kind: r.kind.Kind, Name: fmt.Sprint("n-", i), Generation: 1, ImportTime: 1}
	for _, o := range rapid.SampledFrom([][]int{{998}, {998}, {998}, {998, 999}, {999}, {}}).Draw(r.t, "owners") {
		n.Owners = append(n.Owners, lifecycle.OwnerReference{UID: r.uid(o), APIVersion: r.kind.APIVersion(), Kind: r.kind.Kind, Name: fmt.Sprint("n-", o)})
	}
	r.there[i] = n
	return &lifecycle.Event{Type: lifecycle.ObjectCreated, UID: n.UID, Object: lifecycle.Object{Node: n}}
}

func (r *twoStates) stripped(i int) *lifecycle.Event {
	after := *r.there[i]
	e := &lifecycle.Event{Type: lifecycle.OwnerReferencesRemoved, UID: after.UID, References: after.Owners}
	after.Owners = nil
	r.there[i] = &after
	return e
}

// events are those of a commit.
func (r *twoStates) events() (events []*lifecycle.Event) {
	switch rapid.SampledFrom([]string{"fill", "between", "between", "remove", "remove", "remove"}).Draw(r.t, "commit") {
	case "fill":
		for i := 0; i < 40*spread; i += spread {
			if r.there[i] == nil {
				events = append(events, r.created(i))
			}
		}
	case "between":
		if i := rapid.IntRange(0, 40*spread).Draw(r.t, "new"); r.there[i] == nil {
			events = append(events, r.created(i))
		}
	case "remove":
		some := r.some()
		if i := rapid.IntRange(0, 80*spread).Draw(r.t, "new"); i < 40*spread && r.there[i] == nil {
			events = append(events, r.created(i))
		}
		spared := rapid.IntRange(0, 80).Draw(r.t, "spared")
		for k, i := range some {
			if k == spared && len(r.there[i].Owners) > 0 {
				events = append(events, r.stripped(i))
				continue
			}
			events = append(events, &lifecycle.Event{Type: lifecycle.ObjectDeleted, UID: r.uid(i)})
			delete(r.there, i)
		}
	}
	return events
}

func (r *twoStates) commit() {
	events := r.events()
	var existing []uid.UID
	for _, e := range events {
		if e.Type != lifecycle.ObjectCreated {
			existing = append(existing, e.UID)
		}
	}
	r.sequence++
	apply := func(tx *Tx) {
		for i, e := range events {
			var body []byte
			if e.Type == lifecycle.ObjectCreated {
				body = []byte("body of " + e.UID)
			}
			if _, err := tx.Add(e, r.revision+uint64(i)+1, body); err != nil {
				r.t.Fatal(err)
			}
		}
		tx.EndCommit(Commit{Sequence: r.sequence, Time: 1})
	}
	r.plain.Forget()
	tx := r.plain.Begin()
	apply(tx)
	r.write(tx)
	if n := len(r.ahead); n > 0 {
		tx = r.ahead[n-1].Next()
	} else {
		tx = r.fast.Begin()
	}
	tx.Prefetch(existing)
	apply(tx)
	if rapid.Bool().Draw(r.t, "encode") {
		must.Succeed(r.t, tx.Encode())
	}
	r.ahead = append(r.ahead, tx)
	r.revision += uint64(len(events))
}

func (r *twoStates) write(tx *Tx) {
	if _, err := tx.Apply(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *twoStates) apply() {
	if len(r.ahead) > 0 {
		r.write(r.ahead[0])
		r.ahead = r.ahead[1:]
	}
}

// A state whose objects are read many at once equals, key by key, one whose objects are read
// one by one: with any rows between them when they were read, and with rows that commits,
// applied or in flight, have created there since.
func TestReadAtOnceEqualsReadOneByOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := newTwoStates(t)
		defer r.close()
		for range rapid.IntRange(5, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"commit", "commit", "apply", "snapshot", "read", "read"}).Draw(t, "step") {
			case "commit":
				if len(r.ahead) == 3 {
					r.apply()
				}
				r.commit()
			case "apply":
				r.apply()
			case "snapshot":
				r.snapshots = append(r.snapshots, r.fast.Snapshot())
			case "read":
				var uids []uid.UID
				for _, i := range r.some() {
					uids = append(uids, r.uid(i))
				}
				if n := len(r.snapshots); n > 0 {
					r.snapshots[rapid.IntRange(0, n-1).Draw(t, "by")].Prefetch(uids)
				}
			}
		}
		for len(r.ahead) > 0 {
			r.apply()
		}
		a, b := r.fast.Snapshot(), r.plain.Snapshot()
		defer a.Close()
		defer b.Close()
		if d, err := Diff(a, b); err != nil || d != nil {
			t.Fatalf("read at once and one by one: %v, %v", d, err)
		}
	})
}
