// These tests run the examples, each as the process that it is.
package examples_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/scanner"
)

var (
	pods   = client.Resource{Plural: "pods"}
	claims = client.Resource{Plural: "persistentvolumeclaims"}
)

// world is everything, running, and an example alongside it.
type world struct {
	t   *testing.T
	ctx context.Context
	*client.Client
}

// run builds an example, and runs it until the test has ended.
func run(t *testing.T, example string) *world {
	t.Helper()
	w := &world{t: t, ctx: testkit.Context(t)}
	binary := filepath.Join(t.TempDir(), example)
	if out, err := exec.CommandContext(w.ctx, "go", "build", "-o", binary, "./"+example).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, err := allinone.Start(w.ctx, allinone.Config{
		Dir: t.TempDir(), Port: -1, Scanner: func(s *scanner.Config) { s.PolicyInterval = 100 * time.Millisecond },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Await(w.ctx); err != nil {
		t.Fatal(err)
	}
	nc, err := s.Conn(bus.LocalUser)
	if err != nil {
		t.Fatal(err)
	}
	w.Client = client.New(nc, client.WithActor("ana"))
	c := exec.CommandContext(context.WithoutCancel(w.ctx), binary) // it is interrupted before the test has ended
	c.Env = append(os.Environ(), "NATS_URL="+s.Server().URL())
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v", example, err)
		}
	})
	return w
}

func (w *world) create(of client.Resource, o *coppicev1.Object) {
	w.t.Helper()
	if _, err := w.Resource(of, "shop").Create(w.ctx, o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(of client.Resource, name string) {
	w.t.Helper()
	if _, err := w.Resource(of, "shop").Delete(w.ctx, name); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(of client.Resource, name string) *coppicev1.Object {
	w.t.Helper()
	o, err := w.Resource(of, "shop").Get(w.ctx, name)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return o
}

func (w *world) gone(of client.Resource, name string) {
	w.t.Helper()
	testkit.WaitFor(w.t, w.ctx, "the end of "+name, func() bool { return w.get(of, name) == nil })
}

func named(name string, finalizers ...string) *coppicev1.Object {
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Finalizers: finalizers}}
}

func TestFinalizer(t *testing.T) {
	t.Parallel()
	w := run(t, "finalizer")
	w.create(pods, named("web", "example.com/bucket"))
	w.delete(pods, "web")
	w.gone(pods, "web")
}

func TestAgent(t *testing.T) {
	t.Parallel()
	w := run(t, "agent")
	o := named("web")
	o.Spec = []byte(`{"nodeName":"node-1"}`)
	w.create(pods, o)
	w.delete(pods, "web")
	w.gone(pods, "web")
}

// A claim that a Pod uses stays until the Pod is gone.
func TestInUse(t *testing.T) {
	t.Parallel()
	w := run(t, "inuse")
	w.create(claims, named("data"))
	w.create(claims, named("unused"))
	user := named("user")
	user.Spec = []byte(`{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]}`)
	w.create(pods, user)
	for _, name := range []string{"data", "unused"} {
		testkit.WaitFor(t, w.ctx, "the finalizer of "+name, func() bool { return len(w.get(claims, name).GetMetadata().GetFinalizers()) == 1 })
	}
	w.delete(claims, "data")
	w.delete(claims, "unused")
	w.gone(claims, "unused")
	if o := w.get(claims, "data"); o.GetMetadata().GetDeletionTimestamp() == nil {
		t.Errorf("the claim in use is %v", o)
	}
	w.delete(pods, "user")
	w.gone(claims, "data")
}

// The keeper keeps what is in use, and has everything else deleted.
func TestKeeper(t *testing.T) {
	t.Parallel()
	w := run(t, "keeper")
	objects := w.Resource(client.Resource{Plural: "configmaps"}, "shop")
	for name, annotations := range map[string]map[string]string{"used": {"example.com/in-use-by": "ana"}, "free": nil} {
		if _, err := objects.Create(w.ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Annotations: annotations}}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.Resource(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "").Create(w.ctx, &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "previews"},
		Spec:     []byte(`{"kind":"ConfigMap","condition":"true","notice":"1s","onSilence":"keep","call":"example.com/keeper"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, w.ctx, "what is not in use to be removed", func() bool {
		_, err := objects.Get(w.ctx, "free")
		return errors.Is(err, client.ErrNotFound)
	})
	testkit.WaitFor(t, w.ctx, "the veto", func() bool {
		list, err := w.Operations().ExpiryPolicies(w.ctx)
		return err == nil && len(list) == 1 && list[0].GetVetoed() == 1
	})
}
