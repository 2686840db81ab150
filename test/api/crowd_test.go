package api_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/services/allinone"
)

// Many cascades at the same time, with each policy.
func TestManyCascades(t *testing.T) {
	t.Parallel()
	r := start(t)
	const families, children = 10, 4
	var owners, stay []string
	var group sync.WaitGroup
	for name, policy := range map[string]string{
		"background": "Background", "foreground": "Foreground", "default": "", "orphans": "Orphan", "undeleted": "none",
	} {
		for i := range families {
			family := fmt.Sprintf("%s-%d", name, i)
			if policy == "none" {
				owners = append(owners, family)
			}
			for c := range children {
				if policy == "none" || policy == "Orphan" {
					stay = append(stay, fmt.Sprintf("%s-%d", family, c))
				}
			}
			group.Go(func() {
				if err := r.family(family, children, policy); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	slices.Sort(owners)
	slices.Sort(stay)
	// C044: exactly the dependents are left whose owner orphaned them, or was not deleted.
	r.WaitFor("the survivors to be alone", func() bool {
		return slices.Equal(r.names(pods, "shop"), stay) && slices.Equal(r.names(deployments, "shop"), owners)
	})
	for _, name := range stay {
		want := 0
		if strings.HasPrefix(name, "undeleted") {
			want = 1
		}
		if refs := r.Get(pods, "shop", name).GetMetadata().GetOwnerReferences(); len(refs) != want {
			t.Errorf("%s has owners %v", name, refs)
		}
	}
}

// family creates an owner with dependents, and deletes the owner, unless the
// policy is none.
func (r *realm) family(name string, children int, policy string) error {
	owner, err := r.Resource(deployments, "shop").Create(r.Ctx, named(name))
	if err != nil {
		return err
	}
	for c := range children {
		if _, err := r.Resource(pods, "shop").Create(r.Ctx, named(fmt.Sprintf("%s-%d", name, c), owner)); err != nil {
			return err
		}
	}
	if policy == "none" {
		return nil
	}
	_, err = r.Resource(deployments, "shop").Delete(r.Ctx, name, client.PropagationPolicy(policy))
	return err
}

// Many objects name an owner in another namespace. The service restarts during the cascade.
func TestForeignOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startWith(t, allinone.Config{Dir: dir})
	owner := r.Create(deployments, "shop", named("web"))
	var valid []string
	for i := range 10 {
		valid = append(valid, fmt.Sprintf("valid-%d", i))
		r.Create(pods, "shop", named(valid[i], owner))
	}
	foreign := func(round string) {
		t.Helper()
		for i := range 40 {
			r.Create(pods, fmt.Sprintf("elsewhere-%d", i%4), named(fmt.Sprintf("%s-%d", round, i), owner))
		}
	}
	foreign("before")
	r.Stop()
	r = startWith(t, allinone.Config{Dir: dir})
	foreign("after")
	// C040: dependents that name an owner outside of their namespace are collected; those with valid
	// references stay, and so does their owner.
	r.WaitFor("the foreign ones to go", func() bool {
		return len(r.names(pods, "elsewhere-0"))+len(r.names(pods, "elsewhere-1"))+len(r.names(pods, "elsewhere-2"))+len(r.names(pods, "elsewhere-3")) == 0
	})
	if left := r.names(pods, "shop"); !slices.Equal(left, valid) {
		t.Errorf("left in the owner's namespace are %v", left)
	}
	r.Get(deployments, "shop", "web")
}

// names returns the names of the remaining objects, in order.
func (r *realm) names(resource client.Resource, namespace string) []string {
	r.TB.Helper()
	var names []string
	for o, err := range r.Resource(resource, namespace).List(r.Ctx) {
		must.Succeed(r.TB, err)
		names = append(names, o.GetMetadata().GetName())
	}
	return names
}
