package cycles_test

import (
	"fmt"
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/state/statetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// X06: a cycle is found if nothing outside of it owns one of its objects, or
// may turn out to.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// owners of each object, which are created in order; "?" is an owner
		// whose kind is not registered, "!" one that does not exist.
		objects []string
		owners  map[string][]string
		deleted []string
		want    string
	}{
		{name: "none", objects: []string{"a", "b"}, owners: map[string][]string{"b": {"a"}}, want: "[]"},
		{name: "two", objects: []string{"a", "b"}, owners: map[string][]string{"a": {"b"}, "b": {"a"}}, want: "[[a b]]"},
		{name: "itself", objects: []string{"a"}, owners: map[string][]string{"a": {"a"}}, want: "[[a]]"},
		{name: "what hangs on it is not of it", objects: []string{"a", "b", "c"}, owners: map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"b"}}, want: "[[a b]]"},
		{name: "an owner outside", objects: []string{"o", "a", "b"}, owners: map[string][]string{"a": {"b", "o"}, "b": {"a"}}, want: "[]"},
		{name: "that owner is gone", objects: []string{"o", "a", "b"}, owners: map[string][]string{"a": {"b", "o"}, "b": {"a"}}, deleted: []string{"o"}, want: "[[a b]]"},
		{name: "an owner that never was", objects: []string{"a", "b"}, owners: map[string][]string{"a": {"b", "!"}, "b": {"a"}}, want: "[[a b]]"},
		{name: "an owner that may come", objects: []string{"a", "b"}, owners: map[string][]string{"a": {"b", "?"}, "b": {"a"}}, want: "[]"},
		{name: "two that are one", objects: []string{"a", "b", "c"}, owners: map[string][]string{"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}, want: "[[a b c]]"},
		{name: "one owns the other", objects: []string{"a", "b", "c"}, owners: map[string][]string{"a": {"a"}, "b": {"c", "a"}, "c": {"b"}}, want: "[[a]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := statetest.New(t)
			for _, name := range c.objects {
				r.Create("configmaps/"+name, nil)
			}
			for _, name := range c.objects {
				own(r, name, c.owners[name])
			}
			for _, name := range c.deleted {
				r.Delete("configmaps/"+name, lifecycle.Background)
			}
			snap := r.Snapshot()
			defer snap.Close()
			found, complete := cycles.Unreachable(snap, r.Clock)
			if err := snap.Err(); err != nil || !complete {
				t.Fatal(err, complete)
			}
			names := make([][]string, len(found))
			for i, cycle := range found {
				for _, u := range cycle {
					names[i] = append(names[i], u.String())
				}
			}
			if got := fmt.Sprint(names); got != c.want {
				t.Errorf("found %s, want %s", got, c.want)
			}
		})
	}
}

func own(r *statetest.Realm, name string, owners []string) {
	meta := &coppicev1.ObjectMeta{Name: name, Namespace: "default"}
	for _, o := range owners {
		ref := &coppicev1.OwnerReference{ApiVersion: "v1", Kind: "ConfigMap", Name: "nobody", Uid: "nobody"}
		switch o {
		case "!":
		case "?":
			ref.ApiVersion = "example.com/v1"
		default:
			ref = r.Reference("configmaps/"+o, false)
		}
		meta.OwnerReferences = append(meta.OwnerReferences, ref)
	}
	r.Must(func(ctx *lifecycle.Context) (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Update(ctx, r.Key("configmaps/"+name), &coppicev1.Object{Metadata: meta})
	})
}
