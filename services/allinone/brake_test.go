package allinone_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

var brakeObjects = flag.Int("brake-objects", 3000, "the number of objects of TestBrake; its limit is a hundredth, at least 100, and the chain has a tenth")

// family is a shape of dependents below one root. parent returns the index of the owner of
// the i-th object, or less than 0 for the root.
type family struct {
	name   string
	parent func(i int) int
}

var families = []family{
	{"wide", func(int) int { return -1 }},
	{"chain", func(i int) int { return i - 1 }},
	{"tree", func(i int) int { return (i+9)/10 - 1 }},
}

// braked is a realm whose brake of config maps lets limit deletions through in a window.
type braked struct {
	*stack.Stack
	objects client.ResourceClient
}

var configMaps = client.Resource{Plural: "configmaps"}

// startBraked starts all services. It sets the limit unless it is 0.
func startBraked(t *testing.T, c allinone.Config, limit int) *braked {
	t.Helper()
	s := stack.Start(t, c, client.WithTimeout(testkit.Timeout))
	if limit > 0 {
		settings := &coppicev1.Object{
			ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &coppicev1.ObjectMeta{Name: "settings"},
			Spec: fmt.Appendf(nil, `{"brake":{"objects":%d,"window":"1h"}}`, limit),
		}
		if _, err := s.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Apply(s.Ctx, settings); err != nil {
			t.Fatal(err)
		}
	}
	return &braked{s, s.Resource(configMaps, "shop")}
}

// create creates a root and n objects below it.
func (b *braked) create(f family, n int) {
	b.TB.Helper()
	root := b.Create(client.Resource{Plural: "secrets"}, "shop", named(f.name))
	uid := func(i int) string { return fmt.Sprintf("%s-%d", f.name, i) }
	yes := true
	for from := 0; from < n; {
		// An import accepts owners and dependents in any order, so that a chain needs no request for each object.
		to := min(from+1000, n)
		batch := make([]*coppicev1.Object, 0, to-from)
		for i := from; i < to; i++ {
			o := named(uid(i))
			ref := &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "Secret", Name: f.name, Uid: root.GetMetadata().GetUid(), BlockOwnerDeletion: &yes}
			if p := f.parent(i); p >= 0 {
				ref = &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "ConfigMap", Name: uid(p), Uid: uid(p), BlockOwnerDeletion: &yes}
			}
			o.Metadata.Uid, o.Metadata.OwnerReferences = uid(i), []*coppicev1.OwnerReference{ref}
			batch = append(batch, o)
		}
		results, err := b.objects.ImportBatch(b.Ctx, "family", batch, client.CloseSession(to == n))
		must.Succeed(b.TB, err)
		for _, r := range results {
			if r.Err != nil {
				b.TB.Fatal(r.Err)
			}
		}
		from = to
	}
}

func (b *braked) status() *client.BrakeStatus {
	b.TB.Helper()
	list, err := b.Operations().Brakes(b.Ctx)
	must.Succeed(b.TB, err)
	for _, s := range list {
		if s.GetResource() == "configmaps" {
			return s
		}
	}
	b.TB.Fatal("config maps have no brake")
	return nil
}

// idle waits until nothing is left that the collector may do, and returns the number of
// config maps that are left.
func (b *braked) idle() uint64 {
	b.TB.Helper()
	b.WaitFor("nothing to be pending", func() bool {
		s, err := b.Status(b.Ctx)
		return err == nil && s.GetIdle()
	})
	return b.status().GetTotal()
}

// The collector deletes exactly the limit, whatever the shape; a release lets the rest
// through, and nothing else; and users delete meanwhile.
// make brakes runs it with 100,000 objects.
func TestBrake(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			n, limit := *brakeObjects, max(*brakeObjects/100, 100)
			if f.name == "chain" {
				n = max(n/10, 10*limit)
			}
			b := startBraked(t, allinone.Config{}, limit)
			b.create(f, n)
			// Users delete these during the cascade, while the brake is tripped, and during the release.
			const users = 30
			for i := range users {
				b.Create(configMaps, "shop", named(fmt.Sprint("user-", i)))
			}
			user := 0
			delete := func() {
				t.Helper()
				for range users / 3 {
					b.Delete(configMaps, "shop", fmt.Sprint("user-", user))
					user++
				}
			}
			root := b.Resource(client.Resource{Plural: "secrets"}, "shop")
			plan, err := root.Plan(b.Ctx, []string{f.name})
			if err != nil || len(plan.GetBrakes()) != 1 || plan.GetBrakes()[0].GetDeletions() != uint64(n) || plan.GetBrakes()[0].GetRoom() != uint64(limit) {
				t.Fatalf("the plan has the brakes %v, %v", plan.GetBrakes(), err)
			}
			if _, err := root.Delete(b.Ctx, f.name); err != nil {
				t.Fatal(err)
			}
			delete()
			b.WaitFor("the brake to be tripped", func() bool { return b.status().GetTripped() != 0 })
			if left := b.idle(); left != uint64(n+users-user-limit) || b.status().GetCounted() != uint64(limit) {
				t.Fatalf("%d of %d objects are left, %d are counted", left, n+users-user, b.status().GetCounted())
			}
			delete()
			b.Delete(configMaps, "shop", fmt.Sprintf("%s-%d", f.name, n-1))
			if left := b.idle(); left != uint64(n+users-user-1-limit) {
				t.Fatalf("%d objects are left after DELETEs by users", left)
			}
			dry, err := b.Operations().ReleaseBrake(b.Ctx, configMaps, client.DryRun(true))
			if err != nil || dry.GetReleased() != uint64(n-1-limit) {
				t.Fatalf("a release would let %v through, %v", dry, err)
			}
			begun := time.Now()
			released, err := b.Operations().ReleaseBrake(b.Ctx, configMaps)
			took := time.Since(begun)
			if err != nil || !released.GetTripped() || released.GetReleased() != uint64(n-1-limit) || released.GetMore() {
				t.Fatalf("the release: %v, %v", released, err)
			}
			delete()
			for left := b.status().GetTotal(); left > 0; left = b.status().GetTotal() { // each step has its limit: they may be many
				b.WaitFor("some of the rest to go", func() bool { return b.status().GetTotal() < left })
			}
			t.Logf("the release of %d objects took %v, with their deletion %v", released.GetReleased(), took, time.Since(begun))
			if s := b.status(); s.GetTripped() != 0 || s.GetCounted() != uint64(limit) {
				t.Errorf("the brake is %v after the release", s)
			}
			if verified, err := b.Operations().Verify(b.Ctx); err != nil || verified.GetDifference() != "" {
				t.Errorf("the state differs from its log: %v, %v", verified, err)
			}
		})
	}
}

// A restart neither resets what a brake has counted nor releases it.
func TestBrakeAfterRestart(t *testing.T) {
	t.Parallel()
	c := allinone.Config{Dir: t.TempDir()}
	b := startBraked(t, c, 10)
	b.create(families[0], 100)
	b.Delete(client.Resource{Plural: "secrets"}, "shop", "wide")
	b.WaitFor("the brake to be tripped", func() bool { return b.status().GetTripped() != 0 })
	before := b.status()
	b.Stop()
	b = startBraked(t, c, 0)
	if after := b.status(); after.GetTripped() != before.GetTripped() || after.GetCounted() != 10 || after.GetTotal() != 90 {
		t.Fatalf("after the restart the brake is %v, was %v", after, before)
	}
	if left := b.idle(); left != 90 {
		t.Fatalf("%d objects are left after the restart", left)
	}
	if _, err := b.Operations().ReleaseBrake(b.Ctx, configMaps); err != nil {
		t.Fatal(err)
	}
	b.WaitFor("the rest to go", func() bool { return b.status().GetTotal() == 0 })
}
