// These tests run the examples, each as the process that it is.
package examples_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	"github.com/coppice-gc/coppice/internal/testkit/stack"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/scanner"
)

var (
	pods       = client.Resource{Plural: "pods"}
	claims     = client.Resource{Plural: "persistentvolumeclaims"}
	configMaps = client.Resource{Plural: "configmaps"}
)

// run runs all services, and an example as a process next to them, until the test has ended.
func run(t *testing.T, example string) *stack.Stack {
	t.Helper()
	w := stack.Start(t, allinone.Config{
		Port: -1, Scanner: func(s *scanner.Config) { s.PolicyInterval = 100 * time.Millisecond },
	}, client.WithActor("ana"))
	binary := filepath.Join(t.TempDir(), example)
	if out, err := exec.CommandContext(w.Ctx, "go", "build", "-o", binary, "./"+example).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.CommandContext(context.WithoutCancel(w.Ctx), binary) // it is interrupted before the test has ended
	c.Env = append(os.Environ(), "NATS_URL="+w.Services.Server().URL())
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	must.Succeed(t, c.Start())
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

func TestFinalizer(t *testing.T) {
	t.Parallel()
	w := run(t, "finalizer")
	w.Create(pods, "shop", stack.Finalized("web", "example.com/bucket"))
	w.Delete(pods, "shop", "web")
	w.Gone(pods, "shop", "web")
}

func TestAgent(t *testing.T) {
	t.Parallel()
	w := run(t, "agent")
	o := stack.Named("web")
	o.Spec = []byte(`{"nodeName":"node-1"}`)
	w.Create(pods, "shop", o)
	w.Delete(pods, "shop", "web")
	w.Gone(pods, "shop", "web")
}

// A claim that a Pod uses stays until the Pod is gone.
func TestInUse(t *testing.T) {
	t.Parallel()
	w := run(t, "inuse")
	w.Create(claims, "shop", stack.Named("data"))
	w.Create(claims, "shop", stack.Named("unused"))
	user := stack.Named("user")
	user.Spec = []byte(`{"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"data"}}]}`)
	w.Create(pods, "shop", user)
	for _, name := range []string{"data", "unused"} {
		w.WaitFor("the finalizer of "+name, func() bool { return len(w.Get(claims, "shop", name).GetMetadata().GetFinalizers()) == 1 })
	}
	w.Delete(claims, "shop", "data")
	w.Delete(claims, "shop", "unused")
	w.Gone(claims, "shop", "unused")
	if o := w.Get(claims, "shop", "data"); o.GetMetadata().GetDeletionTimestamp() == nil {
		t.Errorf("the claim in use is %v", o)
	}
	w.Delete(pods, "shop", "user")
	w.Gone(claims, "shop", "data")
}

// The keeper keeps what is in use, and has everything else deleted.
func TestKeeper(t *testing.T) {
	t.Parallel()
	w := run(t, "keeper")
	for name, annotations := range map[string]map[string]string{"used": {"example.com/in-use-by": "ana"}, "free": nil} {
		w.Create(configMaps, "shop", &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: name, Annotations: annotations}})
	}
	w.Create(client.Resource{Group: "coppice.dev", Plural: "expirypolicies"}, "", &coppicev1.Object{
		Metadata: &coppicev1.ObjectMeta{Name: "previews"},
		Spec:     []byte(`{"kind":"ConfigMap","condition":"true","notice":"1s","onSilence":"keep","call":"example.com/keeper"}`),
	})
	w.Gone(configMaps, "shop", "free")
	w.WaitFor("the veto", func() bool {
		list, err := w.Operations().ExpiryPolicies(w.Ctx)
		return err == nil && len(list) == 1 && list[0].GetVetoed() == 1
	})
}
