package state_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// changeRealm applies a commit with an event about the realm itself.
func changeRealm(t *testing.T, s *state.State, event lifecycle.RealmChange, now lifecycle.Time) {
	t.Helper()
	cp := s.Checkpoint()
	tx := s.Begin()
	tx.ChangeRealm(event, now)
	tx.EndCommit(state.Commit{Sequence: cp.GetSequence() + 1, Epoch: cp.GetEpoch(), Time: now, RealmID: cp.GetRealmId(), Position: cp.GetPosition() + 1})
	if _, err := tx.Apply(); err != nil {
		t.Fatal(err)
	}
}

// The origin and the pause of a realm are in the state, and survive a restart. A rollback
// undoes them. A realm without either has no rows of it.
func TestRealm(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	before, err := content(r.State)
	must.Succeed(t, err)
	tx := r.State.Begin()
	tx.Savepoint()
	tx.ChangeRealm(lifecycle.RealmChange{Paused: true, Since: 1}, 2)
	tx.Rollback()
	if !reflect.DeepEqual(tx.Realm(), lifecycle.Realm{}) {
		t.Errorf("after the rollback the realm is %+v", tx.Realm())
	}
	tx.Drop()

	origin := lifecycle.Origin{RealmID: [16]byte{1, 2, 3}, Sequence: 1 << 40}
	check := func(want lifecycle.Realm) {
		t.Helper()
		for range 2 {
			snap := r.Snapshot()
			if !reflect.DeepEqual(r.Realm(), want) || !reflect.DeepEqual(snap.Realm(), want) || !reflect.DeepEqual(snap.Pauses(), want.Pauses) {
				t.Errorf("the realm is %+v and %+v, want %+v", r.Realm(), snap.Realm(), want)
			}
			tx := snap.Begin()
			if !reflect.DeepEqual(tx.Realm(), want) || !reflect.DeepEqual(r.State.Begin().Realm(), want) {
				t.Errorf("a Tx sees %+v, want %+v", tx.Realm(), want)
			}
			tx.Drop()
			must.Succeed(t, snap.Close())
			r.Reopen()
		}
	}
	check(lifecycle.Realm{})
	now := lifecycle.Time(r.State.Checkpoint().GetTime())
	changeRealm(t, r.State, lifecycle.RealmChange{Origin: origin, Paused: true}, now)
	check(lifecycle.Realm{Origin: origin, Paused: true})
	changeRealm(t, r.State, lifecycle.RealmChange{}, now)
	check(lifecycle.Realm{Origin: origin})
	after, err := content(r.State)
	must.Succeed(t, err)
	if n := len(after) - len(before); n != 1 {
		t.Errorf("there are %d more rows than before, want that of the origin", n)
	}
	first, second := lifecycle.Span{From: now, Until: now + 20}, lifecycle.Span{From: now + 30, Until: lifecycle.Never}
	changeRealm(t, r.State, lifecycle.RealmChange{Origin: origin, Paused: true, Since: first.From}, now+10)
	changeRealm(t, r.State, lifecycle.RealmChange{}, first.Until)
	check(lifecycle.Realm{Origin: origin, Pauses: lifecycle.Pauses{first}})
	changeRealm(t, r.State, lifecycle.RealmChange{Origin: origin, Paused: true, Since: second.From}, now+40)
	check(lifecycle.Realm{Origin: origin, Paused: true, Pauses: lifecycle.Pauses{first, second}})
}

// content returns the keys of a state's content.
func content(s *state.State) (keys []string, err error) {
	snap := s.Snapshot()
	err = snap.EachRow(func(key, _ []byte) error {
		keys = append(keys, string(key))
		return nil
	})
	return keys, errors.Join(err, snap.Close())
}
