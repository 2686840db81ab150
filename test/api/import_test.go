package api_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/processor"
	"github.com/coppice-gc/coppice/services/scanner"
)

// When an import session is closed, the objects that it kept are evaluated, without the
// scanner (X11).
func TestSessionClosed(t *testing.T) {
	t.Parallel()
	var evaluated atomic.Int64
	r := startWith(t, allinone.Config{
		Processor: func(c *processor.Config) { c.Before = func(context.Context) { evaluated.Add(1) } },
		Scanner:   func(c *scanner.Config) { c.Interval, c.RepublishInterval = time.Hour, time.Hour },
	})
	js := r.JetStream(bus.LocalUser)
	work, err := js.Stream(r.Ctx, bus.WorkStream(bus.DefaultRealm))
	must.Succeed(t, err)
	web := r.Create(deployments, "default", named("web"))
	r.Delete(deployments, "default", "web")
	pod := named("web-1", web)
	pod.Metadata.Uid = uuid.NewString()
	session := uuid.NewString()
	imports := r.Resource(pods, "default")
	if _, err := imports.ImportBatch(r.Ctx, session, []*coppicev1.Object{pod}); err != nil {
		t.Fatal(err)
	}
	r.WaitFor("the processor to have evaluated the dependent", func() bool {
		info, err := work.Info(r.Ctx)
		return err == nil && info.State.Msgs == 0 && evaluated.Load() > 0
	})
	r.Get(pods, "default", "web-1")
	if _, err := imports.ImportBatch(r.Ctx, session, nil, client.CloseSession(true)); err != nil {
		t.Fatal(err)
	}
	r.Gone(pods, "default", "web-1")
}

// An object that is imported while it is being deleted also orphans or deletes dependents
// that are imported after it. This begins when the session is closed or has expired,
// without the scanner, and also after a restart (R2).
func TestImportOfDeleted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *realm, session string){
		"closed": func(r *realm, session string) {
			if _, err := r.Resource(pods, "default").ImportBatch(r.Ctx, session, nil, client.CloseSession(true)); err != nil {
				r.TB.Fatal(err)
			}
		},
		"expired": func(r *realm, _ string) {
			options := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"importIdle":"1s"}`)}
			r.Create(client.Resource{Group: "coppice.dev", Plural: "realms"}, "", options)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := allinone.Config{
				Dir:     t.TempDir(),
				Scanner: func(c *scanner.Config) { c.Interval, c.RepublishInterval = time.Hour, time.Hour },
			}
			r := startWith(t, c)
			session := uuid.NewString()
			deleted := func(name, finalizer string) *coppicev1.Object {
				o := named(name)
				o.Metadata.DeletionTimestamp, o.Metadata.Finalizers = timestamppb.Now(), []string{finalizer}
				return r.imported(deployments, session, o)
			}
			orphaning, waiting := deleted("orphaning", "orphan"), deleted("waiting", "foregroundDeletion")
			r.imported(pods, session, named("orphan-1", orphaning))
			r.Stop()
			r = startWith(t, c)

			// Requests outside of the session continue meanwhile.
			r.imported(pods, session, named("taken", waiting))
			other := r.Create(deployments, "default", named("other"))
			r.Create(pods, "default", named("other-1", other))
			r.delete(deployments, "default", "other", "Foreground")
			r.Gone(deployments, "default", "other")
			for _, name := range []string{"orphaning", "waiting"} {
				r.Get(deployments, "default", name)
			}
			for _, name := range []string{"orphan-1", "taken"} {
				if o := r.Get(pods, "default", name); len(o.GetMetadata().GetOwnerReferences()) != 1 {
					t.Errorf("in the middle of the import %s is %v", name, o)
				}
			}
			r.imported(pods, session, named("orphan-2", orphaning))

			end(r, session)
			for _, name := range []string{"orphaning", "waiting"} {
				r.Gone(deployments, "default", name)
			}
			r.Gone(pods, "default", "taken")
			for _, name := range []string{"orphan-1", "orphan-2"} {
				if o := r.Get(pods, "default", name); len(o.GetMetadata().GetOwnerReferences()) != 0 {
					t.Errorf("after the import %s is %v", name, o)
				}
			}
		})
	}
}

// imported imports an object in a session and leaves the session open.
func (r *realm) imported(resource client.Resource, session string, o *coppicev1.Object) *coppicev1.Object {
	r.TB.Helper()
	o.Metadata.Uid = uuid.NewString()
	if _, err := r.Resource(resource, "default").ImportBatch(r.Ctx, session, []*coppicev1.Object{o}); err != nil {
		r.TB.Fatal(err)
	}
	return r.Get(resource, "default", o.GetMetadata().GetName())
}
