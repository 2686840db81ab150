package state_test

import (
	"testing"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func owned(r *statetest.Realm, owner string) *coppicev1.ObjectMeta {
	return &coppicev1.ObjectMeta{OwnerReferences: []*coppicev1.OwnerReference{r.Reference(owner, true)}}
}

// pending is the row of an object, which must be there.
func pending(t *testing.T, r *statetest.Realm, u uid.UID) state.WorkRow {
	t.Helper()
	snap := r.Snapshot()
	defer snap.Close()
	row, ok := snap.Pending(u)
	if !ok {
		t.Fatalf("no work is pending because of %s", u)
	}
	return row
}

// hasPending reports whether anything is pending because of an object.
func hasPending(r *statetest.Realm, u uid.UID) bool {
	snap := r.Snapshot()
	defer snap.Close()
	_, ok := snap.Pending(u)
	return ok
}

func absent(r *statetest.Realm, u uid.UID) bool {
	snap := r.Snapshot()
	defer snap.Close()
	return snap.Absent(u)
}

// A row that says something else, or is about more, is as old as it was: the
// age of pending work is that of the oldest. One that comes again is new.
func TestPendingSince(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	web := r.Create("deployments/web", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	begun := r.Clock
	r.Delete("deployments/web", lifecycle.Orphan)
	row := pending(t, r, web)
	if !row.Orphan || row.Since != begun {
		t.Fatalf("pending %+v since %v, want to orphan since %v", row.Pending, row.Since, begun)
	}
	step := func(what string, do func(), holds func(state.WorkRow) bool) {
		t.Helper()
		r.Clock = r.Clock.Add(time.Minute)
		before := pending(t, r, web).Revision
		do()
		row := pending(t, r, web)
		if !holds(row) || row.Since != begun || row.Revision <= before {
			t.Errorf("%s: %+v; it began at %v, and was of revision %d", what, row, begun, before)
		}
	}
	step("more dependents", func() { r.Create("pods/b", owned(r, "deployments/web")) }, func(row state.WorkRow) bool { return row.Orphan })
	step("another policy", func() { r.Delete("deployments/web", lifecycle.Foreground) }, func(row state.WorkRow) bool { return row.Evaluate && !row.Orphan })
	step("dependents gone", func() {
		for _, p := range []string{"pods/a", "pods/b"} {
			r.Delete(p, lifecycle.Background)
		}
	}, func(row state.WorkRow) bool { return !row.Evaluate && row.Finish == lifecycle.FinalizerForeground })

	r.RemoveFinalizer("deployments/web", lifecycle.FinalizerForeground)
	if hasPending(r, web) {
		t.Errorf("still pending: %+v", pending(t, r, web))
	}
	r.Clock = r.Clock.Add(time.Minute)
	r.Create("pods/c", owned(r, "deployments/web"))
	if row := pending(t, r, web); !row.Evaluate || row.Since != r.Clock {
		t.Errorf("pending again: %+v, want to evaluate since %v", row, r.Clock)
	}
}

// An owner that is deleted while strangers are to be evaluated because of it has pending
// something else, which looks the same: the row has to say that it changed.
func TestPendingForOthers(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{lifecycle.Background, lifecycle.Foreground} {
		r := statetest.New(t)
		web := r.Create("deployments/web", nil)
		r.Create("pods/a", owned(r, "deployments/web"))
		r.Create("pods/stranger@shop", owned(r, "deployments/web"))
		before := pending(t, r, web)
		reported := false
		r.Applied = func(_ uint64, _ []state.Change, changes []state.WorkChange) {
			for _, c := range changes {
				reported = reported || c.UID == web && c.Has
			}
		}
		r.Delete("deployments/web", policy)
		after := pending(t, r, web)
		if after.Pending != before.Pending || after.Since != before.Since {
			t.Errorf("%s: %+v became %+v", policy, before, after)
		}
		if !reported || after.Revision <= before.Revision {
			t.Errorf("%s: reported: %t; revision %d became %d", policy, reported, before.Revision, after.Revision)
		}
	}
}

// A10.11, C010: the removal of an owner is stored beyond the window while a dependent names
// it, and not longer.
func TestAbsence(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	web := r.Create("deployments/web", nil)
	alone := r.Create("deployments/alone", nil)
	r.Create("pods/a", owned(r, "deployments/web"))
	r.Create("pods/b", owned(r, "deployments/web"))
	if absent(r, web) {
		t.Error("a row for an owner that is there")
	}
	r.Delete("deployments/web", lifecycle.Background)
	r.Delete("deployments/alone", lifecycle.Background)
	if !absent(r, web) {
		t.Error("no row for an owner that is gone")
	}
	if absent(r, alone) {
		t.Error("a row for an owner that no object names")
	}
	r.Delete("pods/a", lifecycle.Background)
	if !absent(r, web) {
		t.Error("the row went with the first dependent")
	}
	r.Delete("pods/b", lifecycle.Background)
	if absent(r, web) || hasPending(r, web) {
		t.Error("a row is left behind by the last dependent")
	}
	// An object that names it later is evaluated too: the window still has the deletion.
	r.Create("pods/late", owned(r, "deployments/web"))
	if !absent(r, web) || !hasPending(r, web) {
		t.Error("no row for an owner that is named again")
	}
	// And when it is back, it is not absent.
	r.Import("deployments/web", &coppicev1.ObjectMeta{Uid: "web"})
	if absent(r, web) || hasPending(r, web) {
		t.Error("a row for an owner that came back")
	}
}

// A dependent may also lose its reference, without going itself.
func TestAbsenceEndsByStrip(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	web := r.Create("deployments/web", nil)
	r.Create("deployments/api", nil)
	m := owned(r, "deployments/web")
	m.OwnerReferences = append(m.OwnerReferences, r.Reference("deployments/api", false))
	pod := r.Create("pods/a", m)
	r.Delete("deployments/web", lifecycle.Background)
	if !absent(r, web) || !hasPending(r, web) {
		t.Fatal("no rows for an owner that is gone")
	}
	r.Work([]uid.UID{pod}, lifecycle.Strip)
	if absent(r, web) || hasPending(r, web) {
		t.Error("a row is left behind")
	}
}
