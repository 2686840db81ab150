package allinone_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// A warning names the protected objects for which the deletion of a namespace waits. There is none for a
// namespace that waits for a finalizer of an object in it.
func TestWarningOfProtectedContents(t *testing.T) {
	t.Parallel()
	b := startBraked(t, allinone.Config{}, 100)
	namespaces := b.Resource(client.Resource{Plural: "namespaces"}, "")
	remove := func(name string, keep func(client.ResourceClient)) {
		t.Helper()
		objects := b.Resource(configMaps, name)
		for _, o := range []*coppicev1.Object{named("a"), named("b")} {
			o.Metadata.Finalizers = []string{"example.com/x"}
			if _, err := objects.Create(b.Ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := namespaces.Create(b.Ctx, named(name)); err != nil {
			t.Fatal(err)
		}
		keep(objects)
		if _, err := namespaces.Delete(b.Ctx, name); err != nil {
			t.Fatal(err)
		}
		for _, o := range []string{"a", "b"} {
			b.WaitFor("the contents to be deleted", func() bool {
				p, err := objects.Get(b.Ctx, o)
				return errors.Is(err, client.ErrNotFound) || p.GetMetadata().GetDeletionTimestamp() != nil || p.GetMetadata().GetProtection() != nil
			})
			if _, err := objects.RemoveFinalizer(b.Ctx, o, "example.com/x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove("free", func(client.ResourceClient) {})
	b.WaitFor("the namespace to be removed", func() bool {
		_, err := namespaces.Get(b.Ctx, "free")
		return errors.Is(err, client.ErrNotFound)
	})
	remove("kept", func(objects client.ResourceClient) {
		if _, err := objects.Protect(b.Ctx, []string{"b"}, "production"); err != nil {
			t.Fatal(err)
		}
	})
	b.WaitFor("a warning", func() bool {
		warnings, err := b.Warnings(b.Ctx, "")
		must.Succeed(t, err)
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
