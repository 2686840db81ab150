package state_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

// What is read of many owners at once is what is read of each alone, also where
// there are more claims on one than are kept, or it is gone, or never was.
func TestPrefetchCounts(t *testing.T) {
	t.Parallel()
	r := statetest.New(t)
	owners := []uid.UID{uid.MustParse("never")}
	claims := []lifecycle.Coordinates{{}}
	var pods []uid.UID
	for i, n := range []int{0, 1, 8, 9, 20} {
		name := fmt.Sprint("d-", i)
		target := "deployments/" + name
		owners = append(owners, r.Create(target, nil))
		for j := range n {
			meta := owned(r, target)
			if j%2 == 1 { // claims that it is another
				meta.OwnerReferences[0].Name = fmt.Sprint(name, "-", j)
			}
			pods = append(pods, r.Create(fmt.Sprintf("pods/%s-%d", name, j), meta))
			ref := meta.OwnerReferences[0]
			claims = append(claims, lifecycle.Coordinates{Group: "apps", Kind: ref.GetKind(), Namespace: "default", Name: ref.GetName()})
		}
	}
	r.Delete("deployments/d-2", lifecycle.Background)
	r.Delete("deployments/d-1", lifecycle.Background)
	r.Delete("deployments/d-0", lifecycle.Background) // nothing points to it
	slices.Sort(owners)

	many, tx := r.Snapshot(), r.State.Begin()
	defer many.Close()
	alone := r.State.Begin()
	many.Prefetch(slices.Concat(pods, owners))
	many.PrefetchOwners(pods)
	many.PrefetchCounts(owners)
	tx.Prefetch(pods)
	tx.PrefetchOwners(pods)
	for _, u := range owners {
		for _, v := range []lifecycle.View{many, tx} {
			for _, c := range claims {
				for _, anywhere := range []bool{false, true} {
					asked := lifecycle.Claims{Coordinates: c, AnyNamespace: anywhere && c != lifecycle.Coordinates{}}
					if got, want := v.Count(u, asked), alone.Count(u, asked); got != want {
						t.Errorf("%T: %s has %+v of %+v, want %+v", v, u, got, asked, want)
					}
				}
				got, same := v.Removed(u, c)
				if want, so := alone.Removed(u, c); got != want || same != so {
					t.Errorf("%T: %s as %+v was removed at %d, %t, want %d, %t", v, u, c, got, same, want, so)
				}
			}
			for _, limit := range []int{1, 100} {
				if got, want := v.ClaimsOn(u, limit), alone.ClaimsOn(u, limit); !slices.Equal(got, want) {
					t.Errorf("%T: on %s are %v, want %v", v, u, got, want)
				}
			}
		}
	}
}
