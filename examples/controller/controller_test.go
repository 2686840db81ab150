package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/coppicetest"
	"github.com/coppice-gc/coppice/client/fake"
	"github.com/coppice-gc/coppice/client/reconcile"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// inMemory are files in memory, of which the first deletion fails.
type inMemory struct {
	mu       sync.Mutex
	files    map[string]bool
	failures int
}

func (f *inMemory) Create(site string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[site] = true
	return nil
}

func (f *inMemory) Delete(site string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures++; f.failures == 1 {
		return errors.New("the disk is busy")
	}
	delete(f.files, site)
	return nil
}

func (f *inMemory) has(site string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.files[site]
}

func TestController(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		testController(t, fake.New())
	})
	t.Run("realm", func(t *testing.T) {
		t.Parallel()
		testController(t, coppicetest.Start(t))
	})
}

// The controller keeps the pages of a Site, changes their number, and deletes the files
// before the Site is removed. The collector deletes the pages.
func testController(t *testing.T, c client.Interface) {
	t.Helper()
	ctx := testkit.Context(t)
	files := &inMemory{files: map[string]bool{}}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	failed := make(chan error, 100)
	go func() {
		ended <- runReporting(run, c, files, failed)
	}()
	defer func() {
		stop()
		if err := testkit.Receive(t, ctx, "the end of the controller", ended); err != nil {
			t.Error(err)
		}
	}()

	var web *client.Object
	testkit.WaitFor(t, ctx, "the kind Site", func() bool {
		var err error
		web, err = c.Resource(sites, "shop").Create(ctx, &client.Object{Metadata: &client.ObjectMeta{Name: "web"}, Spec: []byte(`{"pages":2}`)})
		return err == nil
	})
	pages := func() string {
		var names []string
		for o, err := range c.Resource(configMaps, "shop").List(ctx) {
			must.Succeed(t, err)
			names = append(names, o.GetMetadata().GetName())
		}
		return strings.Join(names, " ")
	}
	waitForPages := func(want string) {
		t.Helper()
		testkit.WaitFor(t, ctx, fmt.Sprintf("the pages %q", want), func() bool { return pages() == want })
	}
	waitForPages("web-0 web-1")
	if !files.has(web.GetMetadata().GetUid()) {
		t.Error("the Site has no files")
	}
	// A page that a user deletes is created again, because the Site owns it.
	if _, err := c.Resource(configMaps, "shop").Delete(ctx, "web-0"); err != nil {
		t.Fatal(err)
	}
	waitForPages("web-0 web-1")
	for _, want := range []struct {
		spec, pages string
	}{{`{"pages":3}`, "web-0 web-1 web-2"}, {`{"pages":1}`, "web-0"}} {
		if _, err := c.Resource(sites, "shop").Patch(ctx, "web", []byte(`{"spec":`+want.spec+`}`)); err != nil {
			t.Fatal(err)
		}
		waitForPages(want.pages)
	}

	r, err := c.Resource(sites, "shop").Delete(ctx, "web")
	if err != nil || r.State != client.Pending {
		t.Fatalf("delete: %v, %v; want Pending, because of the finalizer", r, err)
	}
	testkit.WaitFor(t, ctx, "the removal of the Site", func() bool {
		_, err := c.Resource(sites, "shop").Get(ctx, "web")
		return errors.Is(err, client.ErrNotFound)
	})
	if files.has(web.GetMetadata().GetUid()) {
		t.Error("the Site is removed, and its files are not deleted")
	}
	waitForPages("")
	if err := testkit.Receive(t, ctx, "the error of the first deletion", failed); !strings.Contains(err.Error(), "busy") {
		t.Errorf("the error is %v", err)
	}
}

// runReporting is run, and sends the errors of reconciliations, but not conflicts.
func runReporting(ctx context.Context, c client.Interface, files files, failed chan<- error) error {
	return run(ctx, c, files, reconcile.OnError(func(_ reconcile.Key, err error) {
		if !errors.Is(err, client.ErrConflict) && !errors.Is(err, client.ErrAlreadyExists) {
			failed <- err
		}
	}))
}
