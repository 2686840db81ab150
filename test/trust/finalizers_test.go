package trust_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
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
			return c.Update(r.Ctx, o, client.ReplyInto(reply))
		},
		"patch": func(c client.ResourceClient, o *client.Object, reply *client.Reply) (*client.Object, error) {
			return c.Patch(r.Ctx, o.GetMetadata().GetName(), []byte(`{"metadata":{"finalizers":null}}`), client.ReplyInto(reply))
		},
		"apply": func(c client.ResourceClient, o *client.Object, reply *client.Reply) (*client.Object, error) {
			o.Metadata.Finalizers = []string{"example.com/new"}
			return c.Apply(r.Ctx, o, client.ReplyInto(reply))
		},
	}
	for actor, keeps := range map[string][]string{
		bus.RoleApplication: {own, other}, controller.Name: {other}, bus.RoleOperator: nil,
	} {
		c := client.New(r.conn(actor), client.WithActor(actor)).Resource(secrets, "shop")
		for verb, write := range writes {
			name := fmt.Sprintf("%s-%s", actor, verb)
			o, err := c.Apply(r.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: []string{own, other}}})
			must.Succeed(t, err)
			was := o.GetMetadata().GetResourceVersion()
			var reply client.Reply
			if o, err = write(c, o, &reply); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			stored, err := c.Get(r.Ctx, name)
			must.Succeed(t, err)
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

// The controller of docs/controllers.md adds and removes its finalizer with the role of
// nats-config --controller. With the role of an application it cannot remove it.
func TestDocumentedController(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true, Roles: added()})
	for actor, removes := range map[string]bool{controller.Name: true, bus.RoleApplication: false} {
		c := client.New(r.conn(actor), client.WithActor(actor)).Resource(secrets, "shop")
		if _, err := c.Create(r.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: actor}}); err != nil {
			t.Fatal(err)
		}
		files := map[string]bool{}
		reconcile := func() error {
			o, err := c.Get(r.Ctx, actor)
			if err == nil {
				err = reconcileFiles(r.Ctx, c, o, func(uid string) error { files[uid] = true; return nil }, func(uid string) error { delete(files, uid); return nil })
			}
			return err
		}
		if err := reconcile(); err != nil || len(files) != 1 {
			t.Fatalf("%s: %v, the files are %v, want those of one object", actor, err, files)
		}
		if _, err := c.Delete(r.Ctx, actor); err != nil {
			t.Fatal(err)
		}
		if err := reconcile(); errors.Is(err, client.ErrForbidden) == removes || removes && err != nil {
			t.Errorf("%s: %v; want that it may remove the finalizer: %v", actor, err, removes)
		}
		if _, err := c.Get(r.Ctx, actor); errors.Is(err, client.ErrNotFound) != removes || len(files) != 0 {
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
		_, err := objects.RemoveFinalizer(ctx, m.GetName(), finalizer, client.IfUID(m.GetUid()))
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

// A write that names a resourceVersion does not remove a finalizer from an object that another writer has changed
// since. Without one it does, as the last writer. The other write arrives just before the removal.
func TestRemovalMeetsAnotherWrite(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	const held = "example.com/held"
	others := r.conn(bus.RoleApplication)
	for _, versioned := range []bool{true, false} {
		name := fmt.Sprint("versioned-", versioned)
		before := &beforeRemoval{server: r.Services.Server(), do: func() error {
			// not by package client: the connection that waits in Write holds a lock of its own
			m := nats.NewMsg(bus.API{Realm: bus.DefaultRealm, Actor: bus.RoleApplication, Verb: bus.VerbPatch, Plural: secrets.Plural, Namespace: "shop"}.Subject())
			m.Header.Set("Content-Type", bus.ContentJSON)
			m.Header.Set(bus.HeaderRequest, bus.VerbPatch)
			m.Data = fmt.Appendf(nil, `{"protocol": 1, "patches": [{"name": %q, "patch": {"metadata":{"labels":{"relies":"on-it"}}}}]}`, name)
			reply, err := others.RequestMsgWithContext(r.Ctx, m)
			if err == nil && reply.Header.Get(bus.HeaderReason) != "" {
				err = fmt.Errorf("%v %s", reply.Header, reply.Data)
			}
			return err
		}}
		nc, err := r.connect(bus.RoleOperator, nats.InProcessServer(before))
		must.Succeed(t, err)
		t.Cleanup(nc.Close)
		c := client.New(nc, client.WithActor(bus.RoleOperator)).Resource(secrets, "shop")
		o, err := c.Create(r.Ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: []string{held}}})
		must.Succeed(t, err)
		if o.Metadata.Finalizers = nil; !versioned {
			o.Metadata.ResourceVersion = 0
		}
		_, err = c.Update(r.Ctx, o)
		if errors.Is(err, client.ErrConflict) != versioned || !versioned && err != nil || before.failed != nil {
			t.Errorf("%s: the update: %v; the other write: %v", name, err, before.failed)
		}
		stored, err := c.Get(r.Ctx, name)
		must.Succeed(t, err)
		if m := stored.GetMetadata(); slices.Contains(m.GetFinalizers(), held) != versioned || m.GetLabels()["relies"] == "" {
			t.Errorf("%s: stored is %v", name, m)
		}
	}
}

// beforeRemoval connects to a server, and does something before the first request of the verb removefinalizer is sent.
type beforeRemoval struct {
	server nats.InProcessConnProvider
	do     func() error
	once   sync.Once
	failed error
}

func (b *beforeRemoval) InProcessConn() (net.Conn, error) {
	c, err := b.server.InProcessConn()
	return &removalConn{Conn: c, before: b}, err
}

type removalConn struct {
	net.Conn
	before *beforeRemoval
}

func (c *removalConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("."+bus.VerbRemoveFinalizer+".")) {
		c.before.once.Do(func() { c.before.failed = c.before.do() })
	}
	return c.Conn.Write(p)
}

// In a batch that writes an object twice, the last write decides which finalizers the object has.
func TestFinalizersOfRepeatedWrites(t *testing.T) {
	t.Parallel()
	r := startWith(t, allinone.Config{Auth: true})
	c := client.New(r.conn(bus.RoleOperator), client.WithActor(bus.RoleOperator)).Resource(secrets, "shop")
	write := func(finalizers string) *coppicev1.Object {
		return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "twice", Finalizers: strings.Fields(finalizers)}}
	}
	if _, err := c.Create(r.Ctx, write("x.com/a x.com/b")); err != nil {
		t.Fatal(err)
	}
	for _, batch := range [][2]string{{"", "x.com/a"}, {"x.com/a", ""}, {"", "x.com/b x.com/a"}} {
		results, err := c.UpdateBatch(r.Ctx, []*client.Object{write(batch[0]), write(batch[1])})
		if err != nil || results[0].Err != nil || results[1].Err != nil {
			t.Fatalf("%q: %v, %v", batch, err, results)
		}
		stored, err := c.Get(r.Ctx, "twice")
		must.Succeed(t, err)
		if got := strings.Join(stored.GetMetadata().GetFinalizers(), " "); got != batch[1] {
			t.Errorf("%q: the object has %q", batch, got)
		}
	}
}
