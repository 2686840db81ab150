package reconcile

import (
	"slices"
	"testing"

	"github.com/coppice-gc/coppice/client"
)

// Objects that were deleted during an interruption are reconciled: a watch that resumes
// delivers them without owner references, and one that starts again does not deliver them.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	owner := func(o *client.Object) (keys []Key) {
		for _, r := range o.GetMetadata().GetOwnerReferences() {
			keys = append(keys, Key{"shop", r.GetName()})
		}
		return keys
	}
	object := func(name, owner string) *client.Object {
		o := &client.Object{Metadata: &client.ObjectMeta{Namespace: "shop", Name: name}}
		if owner != "" {
			o.Metadata.OwnerReferences = []*client.OwnerReference{{Name: owner}}
		}
		return o
	}
	s := newSource(client.Resource{Plural: "pods"}, "", owner)
	s.begin()
	for _, step := range []struct {
		begin bool
		event client.WatchEvent
		want  []Key
	}{
		{event: client.WatchEvent{Type: client.Added, Object: object("a", "x")}, want: []Key{{"shop", "x"}}},
		{event: client.WatchEvent{Type: client.Added, Object: object("b", "y")}, want: []Key{{"shop", "y"}}},
		{event: client.WatchEvent{Type: client.Added, Object: object("c", "z")}, want: []Key{{"shop", "z"}}},
		{event: client.WatchEvent{Type: client.Bookmark, Synced: true}},
		{event: client.WatchEvent{Type: client.Deleted, Object: object("a", "")}, want: []Key{{"shop", "x"}}},
		{begin: true, event: client.WatchEvent{Type: client.Added, Object: object("b", "y")}, want: []Key{{"shop", "y"}}},
		{event: client.WatchEvent{Type: client.Bookmark}},
		{event: client.WatchEvent{Type: client.Bookmark, Synced: true}, want: []Key{{"shop", "z"}}},
		{event: client.WatchEvent{Type: client.Bookmark, Synced: true}},
	} {
		if step.begin {
			s.begin()
		}
		if got := s.event(step.event); !slices.Equal(got, step.want) {
			t.Errorf("%v: got %v, want %v", step.event, got, step.want)
		}
	}
	if got := s.all(); !slices.Equal(got, []Key{{"shop", "y"}}) {
		t.Errorf("known are %v", got)
	}
}
