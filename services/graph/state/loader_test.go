package state_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// A state that is loaded into many of Pebble's tables is the same, key by key. An aborted
// load leaves an empty state.
func TestLoader(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	for i := range 50 {
		r.Create(fmt.Sprintf("configmaps/c-%03d", i), nil)
	}
	r.Delete("configmaps/c-007", "Background")
	snap := r.Snapshot()
	defer snap.Close()
	config := state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20}
	for _, finish := range []bool{false, true} {
		l, err := state.NewLoader("state", config)
		must.Succeed(t, err)
		l.SetTable(1000)
		must.Succeed(t, errors.Join(snap.EachRow(l.Add), snap.EachPosition(l.Add)))
		if finish {
			err = l.Finish(t.Context(), snap.Checkpoint())
		} else {
			err = l.Abort()
		}
		must.Succeed(t, err)
		s, err := state.Open("state", config)
		must.Succeed(t, err)
		loaded := s.Snapshot()
		d, err := state.Diff(snap, loaded)
		if err != nil || finish != (d == nil) {
			t.Errorf("finished %t: %v, %v", finish, d, err)
		}
		if !finish && loaded.Checkpoint().GetSequence() != 0 {
			t.Error("an aborted load left a checkpoint")
		}
		must.Succeed(t, errors.Join(loaded.Close(), s.Close()))
	}
	if _, err := state.NewLoader("state", config); err == nil {
		t.Error("a state was loaded over another one")
	}
}

// Rows that are out of order are refused.
func TestLoaderRefusesDisorder(t *testing.T) {
	t.Parallel()
	for _, keys := range [][]string{{"ob", "oa"}, {"oa", "oa"}, {"oa", "na", "ob"}, {"ms"}, {""}} {
		l, err := state.NewLoader("state", state.Config{FS: vfs.NewMem(), MemTableSize: 1 << 20, CacheSize: 1 << 20})
		must.Succeed(t, err)
		for _, k := range keys {
			if err = l.Add([]byte(k), nil); err != nil {
				break
			}
		}
		if err == nil {
			t.Errorf("%q: accepted", keys)
		}
		if err := l.Abort(); err != nil {
			t.Error(err)
		}
	}
}
