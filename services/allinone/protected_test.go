package allinone_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// A warning names the protected objects for which the deletion of a namespace waits. There is none for a
// namespace that waits for a finalizer of an object in it.
func TestWarningOfProtectedContents(t *testing.T) {
	t.Parallel()
	_, b := startBraked(t, allinone.Config{}, 100)
	namespaces := b.c.Resource(client.Resource{Plural: "namespaces"}, "")
	remove := func(name string, keep func(client.ResourceClient)) {
		t.Helper()
		objects := b.c.Resource(configMaps, name)
		for _, o := range []*coppicev1.Object{named("a"), named("b")} {
			o.Metadata.Finalizers = []string{"example.com/x"}
			if _, err := objects.Create(b.ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := namespaces.Create(b.ctx, named(name)); err != nil {
			t.Fatal(err)
		}
		keep(objects)
		if _, err := namespaces.Delete(b.ctx, name); err != nil {
			t.Fatal(err)
		}
		for _, o := range []string{"a", "b"} {
			testkit.WaitFor(t, b.ctx, "the contents to be deleted", func() bool {
				p, err := objects.Get(b.ctx, o)
				return errors.Is(err, client.ErrNotFound) || p.GetMetadata().GetDeletionTimestamp() != nil || p.GetMetadata().GetProtection() != nil
			})
			if _, err := objects.RemoveFinalizer(b.ctx, o, "example.com/x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove("free", func(client.ResourceClient) {})
	testkit.WaitFor(t, b.ctx, "the namespace to be removed", func() bool {
		_, err := namespaces.Get(b.ctx, "free")
		return errors.Is(err, client.ErrNotFound)
	})
	remove("kept", func(objects client.ResourceClient) {
		if _, err := objects.Protect(b.ctx, []string{"b"}, "production"); err != nil {
			t.Fatal(err)
		}
	})
	testkit.WaitFor(t, b.ctx, "a warning", func() bool {
		warnings, err := b.c.Warnings(b.ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, w := range warnings {
			if w.Reason == lifecycle.WarnProtected {
				if found = true; w.Name != "kept" || !strings.Contains(w.Message, "protected objects: configmaps/b (kept);") {
					t.Fatalf("warned of %+v", w)
				}
			}
		}
		return found
	})
}
