package allinone_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/scanner"
)

func expiring(name string, at time.Time) *coppicev1.Object {
	o := named(name)
	o.Metadata.ExpiresAt = timestamppb.New(at)
	return o
}

func soon(c *scanner.Config) {
	c.ExpiryInterval, c.PolicyInterval = 20*time.Millisecond, 20*time.Millisecond
}

// gone waits until none of the config maps exists.
func (b *braked) gone(names ...string) {
	b.TB.Helper()
	b.WaitFor(fmt.Sprint(names, " to be removed"), func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			_, err := b.objects.Get(b.Ctx, name)
			return !errors.Is(err, client.ErrNotFound)
		})
	})
}

// B6.2, B6.3, B6.4: objects are deleted when they expire, with what they own; a protected one stays
// until it is unprotected, and the brake pauses the others until it is released.
func TestExpiry(t *testing.T) {
	t.Parallel()
	const limit = 2
	b := startBraked(t, allinone.Config{Scanner: soon}, limit)
	past, later := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	create := func(o *coppicev1.Object) *coppicev1.Object { return b.Create(configMaps, "shop", o) }
	create(expiring("later", later))
	root := create(expiring("root", later))
	child := named("child")
	child.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{ApiVersion: "v1", Kind: "ConfigMap", Name: "root", Uid: root.GetMetadata().GetUid()}}
	create(child)
	safe := create(expiring("safe", later))
	if _, err := b.objects.Protect(b.Ctx, []string{"safe"}, "production"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*coppicev1.Object{root, safe} {
		o = &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: o.GetMetadata().GetName(), ExpiresAt: timestamppb.New(past)}}
		if _, err := b.objects.Apply(b.Ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	b.gone("root", "child")
	begun := time.Now()
	expires := begun.Add(2 * time.Second)
	create(expiring("two", expires))
	create(expiring("three", expires))
	b.WaitFor("the brake to be tripped", func() bool { return b.status().GetTripped() != 0 })
	if now := time.Now(); now.Before(expires) {
		t.Errorf("objects expired after %v, %v early", now.Sub(begun), expires.Sub(now))
	}
	if total := b.status().GetTotal(); total != 4 { // later, safe, two, three
		t.Errorf("%d objects are left while the brake is tripped", total)
	}
	if _, err := b.Operations().ReleaseBrake(b.Ctx, configMaps); err != nil {
		t.Fatal(err)
	}
	b.gone("two", "three")
	b.WaitFor("a warning about the protected object", func() bool {
		found, err := b.Warnings(b.Ctx, safe.GetMetadata().GetUid())
		return err == nil && slices.ContainsFunc(found, func(w client.Warning) bool {
			return w.Reason == lifecycle.WarnProtected && strings.Contains(w.Message, "it expired at ")
		})
	})
	if _, err := b.objects.Unprotect(b.Ctx, []string{"safe"}, "closed"); err != nil {
		t.Fatal(err)
	}
	b.WaitFor("the brake to be tripped again", func() bool { return b.status().GetTripped() != 0 })
	deleted := map[string]client.LogEvent{}
	b.read(func(e client.LogEvent) {
		if e.Type == "ObjectDeleted" && e.Resource == configMaps.String() {
			deleted[e.Name] = e
		}
	})
	if e := deleted["root"]; e.Actor != "expiry" || e.Verb != "delete" || e.Reason != coppicev1.Reason_REASON_REQUESTED || e.Note == "" {
		t.Errorf("the deletion of the root is %+v", e)
	}
	if e := deleted["child"]; e.Reason != coppicev1.Reason_REASON_OWNER_ABSENT {
		t.Errorf("the deletion of what it owned is %+v", e)
	}
	if len(deleted) != 4 {
		t.Errorf("deleted %v, want root, child, two and three", deleted)
	}
}

// read calls visit for the events of the log.
func (b *braked) read(visit func(client.LogEvent)) {
	b.TB.Helper()
	ctx, cancel := context.WithCancel(b.Ctx)
	defer cancel()
	for commit, err := range b.Log().Read(ctx, client.FromSequence(1)) {
		must.Succeed(b.TB, err)
		for _, e := range client.Events(commit.Commit, func(_, kind string) string { return strings.ToLower(kind) + "s" }) {
			visit(e)
		}
	}
}

// B6.5, B6.6: a policy deletes the objects to which it applies, and no others, as the actor
// expiry:<policy>. One that reports only deletes nothing; one that is wrong is refused.
func TestExpiryPolicy(t *testing.T) {
	t.Parallel()
	b := startBraked(t, allinone.Config{Scanner: soon}, 1000)
	policies := b.Resource(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "")
	apply := func(name, spec string) error {
		_, err := policies.Apply(b.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(spec)})
		return err
	}
	for _, name := range []string{"a", "b", "kept", "safe", "busy"} {
		o := named(name)
		o.Metadata.Labels = map[string]string{"env": "preview"}
		if name == "kept" {
			o.Metadata.Labels = nil
		}
		b.Create(configMaps, "shop", o)
	}
	if _, err := b.objects.Protect(b.Ctx, []string{"safe"}, "production"); err != nil {
		t.Fatal(err)
	}
	const spec = `{"kind":"ConfigMap","selector":"env=preview","minAge":"1s","condition":"object.metadata.name != 'busy'"`
	if err := apply("wrong", spec+`,"minUnchanged":"soon"}`); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), "spec.minUnchanged") {
		t.Fatalf("a wrong policy: %v", err)
	}
	must.Succeed(t, apply("old", spec+`,"minUnchanged":"1s","reportOnly":true}`))
	b.WaitFor("the objects to be old enough", func() bool {
		o, err := b.objects.Get(b.Ctx, "busy")
		return err == nil && time.Since(o.GetMetadata().GetCreationTimestamp().AsTime()) > 3*time.Second
	})
	if total := b.status().GetTotal(); total != 5 {
		t.Fatalf("%d objects are left by a policy that reports only, want 5", total)
	}
	must.Succeed(t, apply("old", spec+`,"minUnchanged":"1s"}`))
	b.gone("a", "b")
	b.WaitFor("the others to stay", func() bool { return b.status().GetTotal() == 3 })
	var actors []string
	b.read(func(e client.LogEvent) {
		if e.Type == "ObjectDeleted" && e.Resource == configMaps.String() {
			actors = append(actors, e.Name+" "+e.Actor+" "+e.Verb)
		}
	})
	slices.Sort(actors)
	if want := []string{"a expiry:old delete", "b expiry:old delete"}; !slices.Equal(actors, want) {
		t.Errorf("the log has %v, want %v", actors, want)
	}
	many := make([]*coppicev1.Object, 100)
	for i := range many {
		many[i] = &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: fmt.Sprintf("p-%d", i)}, Spec: []byte(spec + `,"reportOnly":true}`)}
	}
	results, err := policies.CreateBatch(b.Ctx, many)
	must.Succeed(t, err)
	for i, r := range results {
		if last := i == len(results)-1; last != errors.Is(r.Err, client.ErrInvalid) || !last && r.Err != nil {
			t.Errorf("policy %d of 100, besides one that exists: %v", i+1, r.Err)
		}
	}
}

// B4.4, B4.5: the release of a brake lets through what an expiry policy had pending, with what it owns; what the
// policy applies to later trips the brake again.
func TestReleaseExpiryPolicy(t *testing.T) {
	t.Parallel()
	b := startBraked(t, allinone.Config{Scanner: soon}, 2)
	preview := func(name string, owners ...*coppicev1.OwnerReference) *coppicev1.Object {
		t.Helper()
		o := named(name)
		o.Metadata.OwnerReferences = owners
		if len(owners) == 0 {
			o.Metadata.Labels = map[string]string{"env": "preview"}
		}
		o, err := b.objects.Create(b.Ctx, o)
		must.Succeed(t, err)
		return o
	}
	const old, children = 10, 3
	for i := range old {
		root := preview(fmt.Sprint("old-", i))
		for j := range children {
			preview(fmt.Sprint("old-", i, "-", j), &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "ConfigMap", Name: root.GetMetadata().GetName(), Uid: root.GetMetadata().GetUid()})
		}
	}
	for name, spec := range map[string]string{
		"previews": `{"kind":"ConfigMap","selector":"env=preview","condition":"object.metadata.name != 'busy'"}`,
		// Neither of these deletes anything, so that a release lets nothing of them through.
		"reports": `{"kind":"ConfigMap","condition":"object.metadata.name == 'kept'","reportOnly":true}`,
		"others":  `{"kind":"Secret","condition":"true"}`,
	} {
		policy := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name}, Spec: []byte(spec)}
		if name != "others" {
			b.Create(configMaps, "shop", named(map[string]string{"previews": "busy", "reports": "kept"}[name]))
		}
		if _, err := b.Resource(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "").Apply(b.Ctx, policy); err != nil {
			t.Fatal(err)
		}
	}
	tripped := func() bool { return b.status().GetTripped() != 0 }
	b.WaitFor("the brake to be tripped", tripped)
	b.idle()
	left := b.status().GetTotal() - 2 // busy and kept
	if left == 0 || left >= old*(children+1) {
		t.Fatalf("%d objects are left while the brake is tripped", left)
	}
	released, err := b.Operations().ReleaseBrake(b.Ctx, configMaps)
	if err != nil || !released.GetTripped() || released.GetMore() || released.GetReleased() != left {
		t.Fatalf("the release: %v, %v, want %d objects", released, err, left)
	}
	b.WaitFor("the rest to go", func() bool { return b.status().GetTotal() == 2 })
	if tripped() {
		t.Error("the brake is tripped by what was released")
	}
	preview("later")
	b.WaitFor("the brake to be tripped by what the policy applies to later", tripped)
	b.gone("old-0")
	if total := b.status().GetTotal(); total != 3 {
		t.Errorf("%d objects are left, want later, busy and kept", total)
	}
}
