package api_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
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
	r, stop := startWith(t, allinone.Config{
		Dir:       t.TempDir(),
		Processor: func(c *processor.Config) { c.Before = func(context.Context) { evaluated.Add(1) } },
		Scanner:   func(c *scanner.Config) { c.Interval, c.RepublishInterval = time.Hour, time.Hour },
	})
	t.Cleanup(stop)
	js, err := jetstream.New(r.nc)
	if err != nil {
		t.Fatal(err)
	}
	work, err := js.Stream(r.ctx, bus.WorkStream(bus.DefaultRealm))
	if err != nil {
		t.Fatal(err)
	}
	web := r.create(deployments, "default", named("web"))
	if _, err := r.Resource(deployments, "default").Delete(r.ctx, "web"); err != nil {
		t.Fatal(err)
	}
	pod := named("web-1", web)
	pod.Metadata.Uid = uuid.NewString()
	session := uuid.NewString()
	imports := r.Resource(pods, "default")
	if _, err := imports.ImportBatch(r.ctx, session, []*coppicev1.Object{pod}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, r.ctx, "the processor to have evaluated the dependent", func() bool {
		info, err := work.Info(r.ctx)
		return err == nil && info.State.Msgs == 0 && evaluated.Load() > 0
	})
	r.get(pods, "default", "web-1")
	if _, err := imports.ImportBatch(r.ctx, session, nil, client.CloseSession(true)); err != nil {
		t.Fatal(err)
	}
	r.gone(pods, "default", "web-1")
}

// An object that is imported while it is being deleted also orphans or deletes dependents
// that are imported after it. This begins when the session is closed or has expired,
// without the scanner, and also after a restart (R2).
func TestImportOfDeleted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *realm, session string){
		"closed": func(r *realm, session string) {
			if _, err := r.Resource(pods, "default").ImportBatch(r.ctx, session, nil, client.CloseSession(true)); err != nil {
				r.t.Fatal(err)
			}
		},
		"expired": func(r *realm, _ string) {
			options := &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"importIdle":"1s"}`)}
			if _, err := r.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Create(r.ctx, options); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := allinone.Config{
				Dir:     t.TempDir(),
				Scanner: func(c *scanner.Config) { c.Interval, c.RepublishInterval = time.Hour, time.Hour },
			}
			r, stop := startWith(t, c)
			defer func() { stop() }()
			session := uuid.NewString()
			deleted := func(name, finalizer string) *coppicev1.Object {
				o := named(name)
				o.Metadata.DeletionTimestamp, o.Metadata.Finalizers = timestamppb.Now(), []string{finalizer}
				return r.imported(deployments, session, o)
			}
			orphaning, waiting := deleted("orphaning", "orphan"), deleted("waiting", "foregroundDeletion")
			r.imported(pods, session, named("orphan-1", orphaning))
			stop()
			r, stop = startWith(t, c)

			// Requests outside of the session continue meanwhile.
			r.imported(pods, session, named("taken", waiting))
			other := r.create(deployments, "default", named("other"))
			r.create(pods, "default", named("other-1", other))
			r.delete(deployments, "default", "other", "Foreground")
			r.gone(deployments, "default", "other")
			for _, name := range []string{"orphaning", "waiting"} {
				r.get(deployments, "default", name)
			}
			for _, name := range []string{"orphan-1", "taken"} {
				if o := r.get(pods, "default", name); len(o.GetMetadata().GetOwnerReferences()) != 1 {
					t.Errorf("in the middle of the import %s is %v", name, o)
				}
			}
			r.imported(pods, session, named("orphan-2", orphaning))

			end(r, session)
			for _, name := range []string{"orphaning", "waiting"} {
				r.gone(deployments, "default", name)
			}
			r.gone(pods, "default", "taken")
			for _, name := range []string{"orphan-1", "orphan-2"} {
				if o := r.get(pods, "default", name); len(o.GetMetadata().GetOwnerReferences()) != 0 {
					t.Errorf("after the import %s is %v", name, o)
				}
			}
		})
	}
}

// imported imports an object in a session and leaves the session open.
func (r *realm) imported(resource client.Resource, session string, o *coppicev1.Object) *coppicev1.Object {
	r.t.Helper()
	o.Metadata.Uid = uuid.NewString()
	if _, err := r.Resource(resource, "default").ImportBatch(r.ctx, session, []*coppicev1.Object{o}); err != nil {
		r.t.Fatal(err)
	}
	return r.get(resource, "default", o.GetMetadata().GetName())
}
