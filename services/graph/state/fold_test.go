package state_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// folded is a state to which commits are applied, some of them together.
type folded struct {
	s  *state.State
	tx *state.Tx
	// pending has the rows that Apply returned.
	pending map[uid.UID]state.WorkRow
}

func openMem(t must.T) *state.State {
	s, err := state.Open("state", state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20})
	must.Succeed(t, err)
	return s
}

func newFolded(t must.T) *folded {
	return &folded{s: openMem(t), pending: map[uid.UID]state.WorkRow{}}
}

func (f *folded) add(t *rapid.T, events []lifecycle.Event, revision uint64) {
	if f.tx == nil {
		if rapid.Bool().Draw(t, "forget") {
			f.s.Forget()
		}
		f.tx = f.s.Begin()
	}
	for i := range events {
		body, err := state.Encode(events[i].Object.Body)
		must.Succeed(t, err)
		if _, err := f.tx.Add(&events[i], revision+uint64(i), body); err != nil {
			t.Fatal(err)
		}
	}
}

func (f *folded) apply(t *rapid.T) {
	if f.tx == nil {
		return
	}
	f.applied(t, f.tx)
	f.tx = nil
}

// applied applies a Tx, and takes note of pending work.
func (f *folded) applied(t *rapid.T, tx *state.Tx) {
	changes, err := tx.Apply()
	must.Succeed(t, err)
	for _, c := range changes {
		if _, had := f.pending[c.UID]; had != c.Had {
			t.Fatalf("pending %s: reported that it was there before: %t, want %t", c.UID, c.Had, had)
		}
		if c.Has {
			f.pending[c.UID] = c.Row
		} else {
			delete(f.pending, c.UID)
		}
	}
}

// TestFold plays random commands, and holds the state against the realm in
// memory after every commit.
//
// A second state folds the same commits in batches of another size, and a third
// begins each commit while up to two before are still to be applied. They must
// become the same, key by key. In the first, commands are also applied and
// rolled back before.
//
// Import sessions are begun, closed and abandoned meanwhile.
//
// S11: the state does not depend on the size of batches, nor on commands that were rolled back.
// A10.1, A10.10: nodes, edges and counts are those of the realm at every revision.
func TestFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, many, ahead := newFolded(t), newFolded(t), newFolded(t)
		for _, f := range []*folded{one, many, ahead} {
			defer f.s.Close()
		}
		realm := lifecycletest.New()
		realm.Latecomers, realm.Containers, realm.Restless, realm.Using = true, true, true, true
		first := realm.Genesis()
		sequence := uint64(0)
		type sent struct {
			at lifecycle.Time // of the commit
			id lifecycle.Time
		}
		var commands []sent // one in each commit
		sessions := map[string]lifecycle.Time{}
		var before *lifecycletest.Realm // the commit
		var under []*state.Tx           // of the third, to be applied
		apply := func(most int) {
			for len(under) > most {
				ahead.applied(t, under[0])
				under = under[1:]
			}
		}
		commit := func(events []lifecycle.Event, revision uint64) {
			sequence++
			id := realm.Clock.Add(time.Duration(rapid.Int64Range(-300, 60).Draw(t, "id ahead by s")) * time.Second)
			id, _ = statetest.CommandID(id, 0).Time() // to a millisecond
			commands = append(commands, sent{realm.Clock, id})
			if n := len(under); n > 0 {
				ahead.tx = under[n-1].Next()
				apply(rapid.IntRange(0, 2).Draw(t, "applied before it is decided, but for"))
				ahead.tx.Prefetch(before.UIDs())
				if rapid.Bool().Draw(t, "with owners") {
					ahead.tx.PrefetchOwners(before.UIDs())
				}
				view(t, "tx ahead", ahead.tx, before)
			}
			session, closed := rapid.SampledFrom([]string{"", "", "s-1", "s-2", "s-3"}).Draw(t, "session"), rapid.IntRange(0, 3).Draw(t, "close") == 0
			if session != "" {
				if sessions[session] = realm.Clock; closed {
					delete(sessions, session)
				}
				maps.DeleteFunc(sessions, func(_ string, last lifecycle.Time) bool { return last.Add(realm.Settings().SessionIdle) <= realm.Clock })
			}
			for _, f := range []*folded{one, many, ahead} {
				f.add(t, events, revision)
				if session != "" {
					f.tx.TouchSession(session, realm.Clock, closed)
				}
				if f == ahead {
					apply(rapid.IntRange(0, 2).Draw(t, "applied before it ends, but for"))
				}
				f.tx.EndCommit(state.Commit{
					Sequence: sequence, Epoch: 1, Time: realm.Clock, Checksum: sequence,
					Commands: []state.Command{{CommandKey: state.CommandKey{Actor: "ana", ID: statetest.CommandID(id, sequence)}, Unfinished: sequence%2 == 0}},
				})
			}
			one.apply(t)
			if rapid.Bool().Draw(t, "encode") {
				must.Succeed(t, ahead.tx.Encode())
			}
			under = append(under, ahead.tx)
			apply(2)
			before = realm.Clone()
		}
		commit(first, 1)

		for range rapid.IntRange(1, 25).Draw(t, "commits") {
			revision := realm.Revision + 1
			if rapid.IntRange(0, 3).Draw(t, "roll back") == 0 {
				rollback(t, one, realm.Clone(), revision)
			}
			var events []lifecycle.Event
			for range rapid.IntRange(1, 3).Draw(t, "commands") {
				events = append(events, realm.RandomEvents(t)...)
			}
			if len(events) == 0 {
				continue
			}
			commit(events, revision)
			if rapid.Bool().Draw(t, "apply") {
				many.apply(t)
			}
			agree(t, one, realm)
			agreeSessions(t, one, sessions)
		}
		many.apply(t)
		apply(0)

		a := one.s.Snapshot()
		defer a.Close()
		for _, f := range []*folded{many, ahead} {
			b := f.s.Snapshot()
			if d, err := state.Diff(a, b); d != nil || err != nil {
				t.Fatalf("two ways to fold, two states: %v, %v", d, err)
			}
			must.Succeed(t, b.Close())
		}
		if got := one.s.Checkpoint().GetRevision(); got != realm.Revision {
			t.Fatalf("revision %d, want %d", got, realm.Revision)
		}
		newest := commands[len(commands)-1].at
		recorded := func(s *state.State, what string) {
			for i, c := range commands {
				n := uint64(i + 1)
				key := state.CommandKey{Actor: "ana", ID: statetest.CommandID(c.id, n)}
				keep := max(c.at, c.id) >= newest.Add(-state.KeepCommands)
				at, ok, err := s.Command(key)
				if err != nil || ok != keep || ok && at != (state.Recorded{Sequence: n, Unfinished: n%2 == 0}) {
					t.Fatalf("%s: command %d, committed %s and with an id of %s before the newest commit, is known as %+v, %t, %v; kept: %t", what, n,
						newest.Time().Sub(c.at.Time()), newest.Time().Sub(c.id.Time()), at, ok, err, keep)
				}
				key.Actor = "bob"
				if _, ok, err := s.Command(key); ok || err != nil {
					t.Fatalf("%s: command %d is known as another actor's, %v", what, n, err)
				}
			}
		}
		recorded(one.s, "in memory")
		recorded(ahead.s, "decided ahead")
		many.s.ForgetCommands()
		recorded(many.s, "from disk")
	})
}

// rollback applies the events of other commands in a Tx, and takes them back.
func rollback(t *rapid.T, f *folded, other *lifecycletest.Realm, revision uint64) {
	if f.tx == nil {
		f.tx = f.s.Begin()
	}
	f.tx.Savepoint()
	f.tx.TouchSession("s-1", other.Clock, rapid.Bool().Draw(t, "close, and roll back"))
	f.add(t, append(other.RandomEvents(t), other.RandomEvents(t)...), revision)
	f.tx.Rollback()
}

// agree holds a state against the realm.
func agree(t *rapid.T, f *folded, realm *lifecycletest.Realm) {
	s := f.s.Snapshot()
	defer s.Close()
	if rapid.Bool().Draw(t, "forget, to look") {
		f.s.Forget()
	}
	fresh := f.s.Begin()
	view(t, "snapshot", s, realm)
	view(t, "tx", fresh, realm)
	s.Forget()
	s.Prefetch(realm.UIDs())
	s.PrefetchCounts(realm.UIDs())
	s.PrefetchOwners(realm.UIDs())
	view(t, "snapshot that has read many at once", s, realm)
	must.Succeed(t, s.Err())
	must.Succeed(t, fresh.Err())
	agreePending(t, f, s, realm)
	agreeEdges(t, s, realm)
}

// agreeSessions holds the rows of import sessions against those that should be there.
func agreeSessions(t *rapid.T, f *folded, want map[string]lifecycle.Time) {
	s := f.s.Snapshot()
	defer s.Close()
	if got := s.Sessions(); !maps.Equal(got, want) {
		t.Fatalf("sessions %v, want %v", got, want)
	}
}

// view holds what a view says against the realm.
func view(t *rapid.T, name string, v lifecycle.View, realm *lifecycletest.Realm) {
	if got, want := v.Settings(), realm.Settings(); got != want {
		t.Fatalf("%s: options %+v, want %+v", name, got, want)
	}
	for _, u := range realm.UIDs() {
		want := realm.Node(u)
		if got := v.Node(u); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: node %s is %+v, want %+v", name, u, got, want)
		}
		if got := v.Lookup(realm.Kinds().OfNode(want), want.Namespace, want.Name); got != u {
			t.Fatalf("%s: %s %s/%s is %s, want %s", name, want.Kind, want.Namespace, want.Name, got, u)
		}
		if got := v.Body(want); string(got.GetSpec()) != string(realm.Body(want).GetSpec()) {
			t.Fatalf("%s: body of %s is %v, want %v", name, u, got, realm.Body(want))
		}
		if got, want := lifecycle.Dependents(v, want), lifecycle.Dependents(realm, want); got != want {
			t.Fatalf("%s: %s has dependents %+v, want %+v", name, u, got, want)
		}
		if got, want := v.Users(want), realm.Users(want); got != want {
			t.Fatalf("%s: %s has users %+v, want %+v", name, u, got, want)
		}
		for i := range want.Uses {
			c := want.Use(&want.Uses[i])
			if got, want := v.Unresolved(c, 1), realm.Unresolved(c, 1); !slices.Equal(got, want) {
				t.Fatalf("%s: %v is waited for by %v, want %v", name, c, got, want)
			}
			for _, anywhere := range []bool{false, true} {
				claims := lifecycle.Claims{Coordinates: c, AnyNamespace: anywhere}
				if got, want := v.UnresolvedCount(claims), realm.UnresolvedCount(claims); got != want {
					t.Fatalf("%s: %d uses wait for %+v, want %d", name, got, claims, want)
				}
			}
		}
		for i := range want.Owners {
			r := &want.Owners[i]
			if got, want := lifecycle.Classify(v, want, r, realm.Clock), lifecycle.Classify(realm, want, r, realm.Clock); got != want {
				t.Fatalf("%s: reference %d of %s is classified as %+v, want %+v", name, i, u, got, want)
			}
		}
	}
}

func agreePending(t *rapid.T, f *folded, s *state.Snapshot, realm *lifecycletest.Realm) {
	want := map[uid.UID]lifecycle.Pending{}
	uids := map[uid.UID]bool{}
	for _, u := range realm.UIDs() {
		uids[u] = true
		for _, r := range realm.Node(u).Owners {
			uids[r.UID] = true
		}
	}
	for u := range uids {
		o := lifecycle.PendingOf(realm, u, realm.Node(u))
		o.EvaluateAt = 0 // a hint, which remembers dependents that are gone
		if o != (lifecycle.Pending{}) {
			want[u] = o
		}
	}
	got := map[uid.UID]lifecycle.Pending{}
	rows := map[uid.UID]state.WorkRow{}
	s.EachWorkRow("", func(u uid.UID, row state.WorkRow) bool {
		rows[u] = row
		row.EvaluateAt = 0
		got[u] = row.Pending
		return true
	})
	if !maps.Equal(got, want) {
		t.Fatalf("pending is %v, want %v", describe(got), describe(want))
	}
	if !maps.Equal(rows, f.pending) {
		t.Fatalf("Apply reported of %v, stored is %v", f.pending, rows)
	}
	clear(rows)
	s.EachWorkRowOf(slices.Sorted(maps.Keys(uids)), func(u uid.UID, row state.WorkRow) { rows[u] = row })
	if !maps.Equal(rows, f.pending) {
		t.Fatalf("of those asked for is pending %v, stored is %v", rows, f.pending)
	}
}

func describe(m map[uid.UID]lifecycle.Pending) string {
	s := ""
	for _, u := range slices.Sorted(maps.Keys(m)) {
		s += fmt.Sprintf("\n%s: %+v", u, m[u])
	}
	return s
}

func agreeEdges(t *rapid.T, s *state.Snapshot, realm *lifecycletest.Realm) {
	want := map[[2]uid.UID]bool{}
	for _, u := range realm.UIDs() {
		for _, r := range realm.Node(u).Owners {
			want[[2]uid.UID{r.UID, u}] = true
		}
	}
	got := map[[2]uid.UID]bool{}
	for pair := range want {
		owner := pair[0]
		s.Dependents(owner, state.ClaimFilter{}, state.Edge{}, func(_ state.Edge, d uid.UID) bool {
			got[[2]uid.UID{owner, d}] = true
			return true
		})
		n := realm.Node(owner)
		if n == nil {
			continue
		}
		for _, valid := range []bool{true, false} {
			var found []uid.UID
			s.Dependents(owner, s.ValidClaims(n, valid), state.Edge{}, func(_ state.Edge, d uid.UID) bool {
				found = append(found, d)
				return true
			})
			var expected []uid.UID
			for _, u := range realm.UIDs() {
				d := realm.Node(u)
				if slices.ContainsFunc(d.Owners, func(r lifecycle.OwnerReference) bool {
					return r.UID == owner && lifecycle.Fits(d, &r, n) == valid
				}) {
					expected = append(expected, u)
				}
			}
			slices.Sort(found)
			if found = slices.Compact(found); !slices.Equal(found, expected) {
				t.Fatalf("dependents of %s with valid=%t: %v, want %v", owner, valid, found, expected)
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Fatalf("edges %v, want %v", got, want)
	}
	for _, u := range realm.UIDs() {
		var found []uid.UID
		s.EachUser(realm.Node(u), func(user uid.UID) bool {
			found = append(found, user)
			return true
		})
		slices.Sort(found)
		if want := realm.UsersOf(realm.Node(u)); !slices.Equal(slices.Compact(found), want) {
			t.Fatalf("users of %s: %v, want %v", u, found, want)
		}
	}
}
