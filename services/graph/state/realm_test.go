package state_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// changeRealm applies a commit with an event about the realm itself.
func changeRealm(t *testing.T, s *state.State, event lifecycle.Realm) {
	t.Helper()
	cp := s.Checkpoint()
	tx := s.Begin()
	tx.ChangeRealm(event)
	tx.EndCommit(state.Commit{Sequence: cp.GetSequence() + 1, Epoch: cp.GetEpoch(), Time: lifecycle.Time(cp.GetTime()), RealmID: cp.GetRealmId(), Position: cp.GetPosition() + 1})
	if _, err := tx.Flush(); err != nil {
		t.Fatal(err)
	}
}

// The origin and the pause of a realm are in the state, and survive a restart. A rollback
// undoes them. A realm without either has no rows of it.
func TestRealm(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	before, err := content(r.State)
	if err != nil {
		t.Fatal(err)
	}
	tx := r.State.Begin()
	tx.Savepoint()
	tx.ChangeRealm(lifecycle.Realm{Paused: true})
	tx.Rollback()
	if tx.Realm() != (lifecycle.Realm{}) {
		t.Errorf("after the rollback the realm is %+v", tx.Realm())
	}
	tx.Drop()

	origin := lifecycle.Origin{RealmID: [16]byte{1, 2, 3}, Sequence: 1 << 40}
	check := func(want lifecycle.Realm) {
		t.Helper()
		for range 2 {
			snap := r.Snapshot()
			if r.Realm() != want || snap.Realm() != want {
				t.Errorf("the realm is %+v and %+v, want %+v", r.Realm(), snap.Realm(), want)
			}
			tx := snap.Begin()
			if tx.Realm() != want || r.State.Begin().Realm() != want {
				t.Errorf("a Tx sees %+v, want %+v", tx.Realm(), want)
			}
			tx.Drop()
			if err := snap.Close(); err != nil {
				t.Fatal(err)
			}
			r.Reopen()
		}
	}
	check(lifecycle.Realm{})
	changeRealm(t, r.State, lifecycle.Realm{Origin: origin, Paused: true})
	check(lifecycle.Realm{Origin: origin, Paused: true})
	changeRealm(t, r.State, lifecycle.Realm{})
	check(lifecycle.Realm{Origin: origin})
	after, err := content(r.State)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(after) - len(before); n != 1 {
		t.Errorf("there are %d more rows than before, want that of the origin", n)
	}
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
