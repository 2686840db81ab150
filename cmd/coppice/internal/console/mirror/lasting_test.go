package mirror

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The reasons of warnings end with the references that they are about. They are not sure if they depend on an owner that
// the mirror does not have.
func TestLasting(t *testing.T) {
	t.Parallel()
	const otherUID = "01a22a6f-81da-7b6b-ba14-ec9ae71262d7"
	owner := putOf(ownerUID, "configmaps", "ConfigMap", "other", "owner", 1, nil)
	dependent := func(version uint64, owner *coppicev1.Object) Change {
		return putOf(dependentUID, "pods", "Pod", "shop", "a", version, owner)
	}
	a := dependent(3, nil)
	inCycle := putOf(otherUID, "pods", "Pod", "shop", "b", 2, a.Object)
	terminating := dependent(9, inCycle.Object)
	terminating.Object.Metadata.DeletionTimestamp = timestamppb.Now()
	for _, c := range []struct {
		what                        string
		changes                     []Change
		otherNamespace, unreachable Lasting
	}{
		{"no object", nil, Over, Over},
		{"an owner in another namespace", []Change{owner, dependent(2, owner.Object)}, Lasts, Over},
		{"an owner that is not known", []Change{dependent(2, owner.Object)}, Unsure, Unsure},
		{"no owner", []Change{owner, dependent(2, owner.Object), dependent(3, nil)}, Over, Over},
		{"an owner that was removed", []Change{owner, dependent(2, owner.Object), {Op: Remove, Resource: owner.Resource, Object: owner.Object}}, Over, Unsure},
		{"a cycle", []Change{a, inCycle, dependent(4, inCycle.Object)}, Over, Lasts},
		{"a cycle that was opened", []Change{a, inCycle, dependent(4, inCycle.Object), dependent(5, nil)}, Over, Over},
		{"a cycle that is being deleted", []Change{a, inCycle, terminating}, Over, Over},
		{"a removed object", []Change{a, {Op: Remove, Resource: a.Resource, Object: a.Object}}, Over, Over},
	} {
		m := New(time.Now)
		m.Apply(append(c.changes, Change{Op: Synced})...)
		if o, u := m.OtherNamespace(dependentUID), m.Unreachable(dependentUID); o != c.otherNamespace || u != c.unreachable {
			t.Errorf("%s: %d, %d; want %d, %d", c.what, o, u, c.otherNamespace, c.unreachable)
		}
	}
}
