package api_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/rpc"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Lists with selectors of 7 MiB are refused before anything is read, and the error names
// the limit. 64 of them once took 3.2 GB, ran past their deadline and kept the process from
// stopping.
func TestLargeSelectors(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.Create(pods, "shop", named("a"))
	selector := strings.TrimSuffix(strings.Repeat("key!=value,", 7<<20/11), ",")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for i := range 16 {
		objects := r.Resource(pods, "shop")
		wg.Go(func() {
			var err error
			switch i % 4 {
			case 0:
				_, err = objects.ListPage(r.Ctx, client.LabelSelector(selector))
			case 1:
				_, err = objects.DeleteCollection(r.Ctx, selector)
			default:
				for _, fail := range objects.Watch(r.Ctx, client.LabelSelector(selector)) {
					err = fail
				}
			}
			if !errors.Is(err, client.ErrRequestEntityTooLarge) || !strings.Contains(err.Error(), "at most 65536") {
				t.Errorf("a selector of %d bytes: %v", len(selector), err)
			}
		})
	}
	wg.Wait()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<30 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	r.Get(pods, "shop", "a")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.Stop()
	}()
	testkit.Receive(t, testkit.Context(t), "the process to stop", stopped)
}

// A get may repeat a name: the reply is refused as too large before it is in memory.
func TestLargeGet(t *testing.T) {
	t.Parallel()
	r := start(t)
	o := named("large")
	o.Spec = fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", 1<<20))
	r.Create(pods, "shop", o)
	names := make([]string, 10000)
	for i := range names {
		names[i] = "large"
	}
	subject := bus.API{Realm: bus.DefaultRealm, Actor: "ana", Verb: bus.VerbGet, Plural: "pods", Namespace: "shop"}.Subject()
	call := func(names []string, reply *coppicev1.ObjectsReply) error {
		ctx, cancel := context.WithTimeout(r.Ctx, testkit.Timeout)
		defer cancel()
		return rpc.Call(ctx, r.Conn(), subject, nil, &coppicev1.GetRequest{Names: names}, reply)
	}
	var reply coppicev1.ObjectsReply
	err := call(names, &reply)
	if !errors.Is(err, client.ErrRequestEntityTooLarge) {
		t.Errorf("10,000 times 1 MiB: %v, %d results", err, len(reply.GetResults()))
	}
	if err := call(names[:3], &reply); err != nil || len(reply.GetResults()) != 3 {
		t.Errorf("three times 1 MiB: %v, %d results", err, len(reply.GetResults()))
	}
}

// Objects with many owner references are spread over commits, and those that nothing keeps are collected in as
// many: other commands do not wait for all of them.
func TestWideObjectsAreSpread(t *testing.T) {
	t.Parallel()
	const objects, references, most = 20, 1000, 6000
	r := start(t)
	var list []*coppicev1.Object
	for i := range objects {
		o := named(fmt.Sprintf("wide-%02d", i))
		for k := range references {
			o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
				ApiVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("absent-", k), Uid: uuid.NewString(),
			})
		}
		list = append(list, o)
	}
	results, err := r.Resource(pods, "shop").CreateBatch(r.Ctx, list)
	must.Succeed(t, err)
	for _, result := range results {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	r.WaitFor("the objects to be collected", func() bool {
		page, err := r.Resource(pods, "shop").ListPage(r.Ctx)
		return err == nil && len(page.Objects) == 0
	})
	created, deleted := 0, 0
	for c, err := range r.Log().Read(r.Ctx, client.FromSequence(1)) {
		must.Succeed(t, err)
		width := 0
		for _, e := range client.Events(c.Commit, func(_, kind string) string { return kind }) {
			if e.Namespace != "shop" || !strings.HasPrefix(e.Name, "wide-") {
				continue
			}
			width += references
			if e.Type == "ObjectCreated" {
				created++
			} else {
				deleted++
			}
		}
		if width > most {
			t.Errorf("commit %d has %d references", c.Sequence, width)
		}
	}
	if created != objects || deleted != objects {
		t.Errorf("the log has %d creations and %d deletions, want %d", created, deleted, objects)
	}
}

// The reply to a batch may have no room for the finalizers that an object keeps. Then its result is an error, and
// not a success without a warning.
func TestFinalizersThatAReplyHasNoRoomFor(t *testing.T) {
	t.Parallel()
	r := start(t)
	const objects, finalizers = 200, 100
	list := make([]*coppicev1.Object, objects)
	for i := range list {
		list[i] = named(fmt.Sprint("kept-", i))
		for k := range finalizers {
			list[i].Metadata.Finalizers = append(list[i].Metadata.Finalizers, fmt.Sprintf("%sexample.com/%063d", strings.Repeat("xxxxxxx.", 30), k))
		}
	}
	of := r.Resource(pods, "shop")
	if _, err := of.CreateBatch(r.Ctx, list); err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		o.Metadata.Finalizers = nil
	}
	for batches := 0; len(list) > 0; batches++ {
		results, err := of.UpdateBatch(r.Ctx, list)
		must.Succeed(t, err)
		var kept []*coppicev1.Object
		for i, result := range results {
			left := len(r.Get(pods, "shop", list[i].GetMetadata().GetName()).GetMetadata().GetFinalizers())
			if errors.Is(result.Err, client.ErrRequestEntityTooLarge) != (left > 0) {
				t.Fatalf("%s has %d finalizers; the error is %v", list[i].GetMetadata().GetName(), left, result.Err)
			}
			if left > 0 {
				kept = append(kept, list[i])
			}
		}
		if len(kept) == len(list) || batches == 0 && len(kept) == 0 {
			t.Fatalf("%d of %d objects keep finalizers, want some", len(kept), len(list))
		}
		list = kept
	}
}
