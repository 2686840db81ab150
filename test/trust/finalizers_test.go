package trust_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// An update, a patch or an apply removes an external finalizer if its actor has the permission for
// the verb removefinalizer and its name. Otherwise the object keeps it, and the reply has a warning.
func TestFinalizersOfOthers(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true, Roles: added()})
	const own, other = controllerFinalizer, "example.com/other"
	writes := map[string]func(client.ResourceClient, *client.Object, *client.Reply) (*client.Object, error){
		"update": func(c client.ResourceClient, o *client.Object, reply *client.Reply) (*client.Object, error) {
			o.Metadata.Finalizers = nil
			return c.Update(r.ctx, o, client.ReplyInto(reply))
		},
		"patch": func(c client.ResourceClient, o *client.Object, reply *client.Reply) (*client.Object, error) {
			return c.Patch(r.ctx, o.GetMetadata().GetName(), []byte(`{"metadata":{"finalizers":null}}`), client.ReplyInto(reply))
		},
		"apply": func(c client.ResourceClient, o *client.Object, reply *client.Reply) (*client.Object, error) {
			o.Metadata.Finalizers = []string{"example.com/new"}
			return c.Apply(r.ctx, o, client.ReplyInto(reply))
		},
	}
	for actor, keeps := range map[string][]string{
		bus.RoleApplication: {own, other}, controller.Name: {other}, bus.RoleOperator: nil,
	} {
		c := client.New(r.conn(actor), client.WithActor(actor)).Resource(secrets, "shop")
		for verb, write := range writes {
			name := fmt.Sprintf("%s-%s", actor, verb)
			o, err := c.Create(r.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: []string{own, other}}})
			if err != nil {
				t.Fatal(err)
			}
			was := o.GetMetadata().GetResourceVersion()
			var reply client.Reply
			if o, err = write(c, o, &reply); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			stored, err := c.Get(r.ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			is := slices.DeleteFunc(slices.Clone(stored.GetMetadata().GetFinalizers()), func(f string) bool { return f == "example.com/new" })
			if !slices.Equal(is, keeps) {
				t.Errorf("%s: the object has the finalizers %q, want %q", name, is, keeps)
			}
			if verb != "apply" && len(keeps) == 2 && stored.GetMetadata().GetResourceVersion() != was {
				t.Errorf("%s: the object has changed", name)
			}
			if !slices.Equal(o.GetMetadata().GetFinalizers(), stored.GetMetadata().GetFinalizers()) || o.GetMetadata().GetResourceVersion() != stored.GetMetadata().GetResourceVersion() {
				t.Errorf("%s: the reply has %v, stored is %v", name, o.GetMetadata(), stored.GetMetadata())
			}
			warned := strings.Join(reply.Warnings, "\n")
			for _, f := range []string{own, other} {
				if strings.Contains(warned, f) != slices.Contains(keeps, f) || len(keeps) > 0 && !strings.Contains(warned, bus.VerbRemoveFinalizer) {
					t.Errorf("%s: the warnings are %q, want those of %q", name, warned, keeps)
				}
			}
		}
	}
}

// The controller of docs/controllers.md adds and removes its finalizer by updates, with the role of
// nats-config --controller. With the role of an application it cannot remove it.
func TestDocumentedController(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true, Roles: added()})
	for actor, removes := range map[string]bool{controller.Name: true, bus.RoleApplication: false} {
		c := client.New(r.conn(actor), client.WithActor(actor)).Resource(secrets, "shop")
		if _, err := c.Create(r.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: actor}}); err != nil {
			t.Fatal(err)
		}
		files := map[string]bool{}
		reconcile := func() {
			o, err := c.Get(r.ctx, actor)
			if err == nil {
				err = reconcileFiles(r.ctx, c, o, func(uid string) error { files[uid] = true; return nil }, func(uid string) error { delete(files, uid); return nil })
			}
			if err != nil {
				t.Fatalf("%s: %v", actor, err)
			}
		}
		reconcile()
		if len(files) != 1 {
			t.Fatalf("%s: the files are %v, want those of one object", actor, files)
		}
		if _, err := c.Delete(r.ctx, actor); err != nil {
			t.Fatal(err)
		}
		reconcile()
		if _, err := c.Get(r.ctx, actor); errors.Is(err, client.ErrNotFound) != removes || len(files) != 0 {
			t.Errorf("%s: the object: %v; want it removed: %v; the files are %v", actor, err, removes, files)
		}
	}
}

// reconcileFiles is the function of docs/controllers.md, with the finalizer of the tests.
func reconcileFiles(ctx context.Context, objects client.ResourceClient, site *client.Object, createFiles, deleteFiles func(uid string) error) error {
	const finalizer = controllerFinalizer
	m := site.GetMetadata()
	switch has := slices.Contains(m.GetFinalizers(), finalizer); {
	case m.GetDeletionTimestamp() != nil && has:
		if err := deleteFiles(m.GetUid()); err != nil {
			return err
		}
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return f == finalizer })
		_, err := objects.Update(ctx, site)
		return err
	case m.GetDeletionTimestamp() != nil:
		return nil
	case !has:
		m.Finalizers = append(m.Finalizers, finalizer)
		if _, err := objects.Update(ctx, site); err != nil {
			return err
		}
	}
	return createFiles(m.GetUid())
}
