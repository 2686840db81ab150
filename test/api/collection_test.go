package api_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// many creates Pods in a namespace, and returns their names in order.
func (r *realm) many(namespace string, count int) []string {
	r.TB.Helper()
	var names []string
	var objects []*coppicev1.Object
	for i := range count {
		names = append(names, fmt.Sprintf("pod-%04d", i))
		objects = append(objects, named(names[i]))
	}
	results, err := r.Resource(pods, namespace).CreateBatch(r.Ctx, objects)
	if err != nil || len(results) != count {
		r.TB.Fatalf("%d of %d created: %v", len(results), count, err)
	}
	return names
}

type collectionReply struct {
	Results  []struct{ Code int }
	Continue string
}

func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	r := start(t)
	names := r.many("pages", 10)
	// A6.3, C073: the reply to a limited request says where the next page begins.
	page := decode[collectionReply](t, r.request("deletecollection", "_.pods.pages", `{"all":true,"limit":4}`).Data)
	if len(page.Results) != 4 || page.Continue == "" || !slices.Equal(r.names(pods, "pages"), names[4:]) {
		t.Fatalf("the first page is %+v, left are %v", page, r.names(pods, "pages"))
	}
	rest := decode[collectionReply](t, r.request("deletecollection", "_.pods.pages", fmt.Sprintf(`{"all":true,"continue":%q}`, page.Continue)).Data)
	if len(rest.Results) != 6 || rest.Continue != "" || len(r.names(pods, "pages")) != 0 {
		t.Errorf("the rest is %+v, left are %v", rest, r.names(pods, "pages"))
	}

	names = r.many("one", 3)
	second := r.Get(pods, "one", names[1]).GetMetadata().GetUid()
	// A6.6: a uid precondition applies to each object.
	of := decode[collectionReply](t, r.request("deletecollection", "_.pods.one", fmt.Sprintf(`{"all":true,"options":{"preconditions":{"uid":%q}}}`, second)).Data)
	if got := fmt.Sprint(of.Results); got != "[{409} {200} {409}]" || len(r.names(pods, "one")) != 2 {
		t.Errorf("the results are %s, left are %v", got, r.names(pods, "one"))
	}

	names = r.many("watched", 3)
	events, ready := r.watched(r.Resource(pods, "watched"), client.WatchOptions{})
	testkit.Receive(t, r.Ctx, "the first state", ready)
	r.expect(events, "ADDED "+names[0], "ADDED "+names[1], "ADDED "+names[2])
	if _, err := r.Resource(pods, "watched").DeleteEverything(r.Ctx); err != nil {
		t.Fatal(err)
	}
	// C078: watchers receive the removal of each object.
	r.expect(events, "DELETED "+names[0], "DELETED "+names[1], "DELETED "+names[2])
}

// C075: several clients that delete a collection at once all succeed, and nothing is left.
func TestCollectionsAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.many("shop", 1200)
	fails := make([]error, 4)
	var group sync.WaitGroup
	for i := range fails {
		group.Go(func() {
			results, err := r.Resource(pods, "shop").DeleteEverything(r.Ctx)
			for _, result := range results {
				err = errors.Join(err, result.Err)
			}
			fails[i] = err
		})
	}
	group.Wait()
	if err := errors.Join(fails...); err != nil {
		t.Error(err)
	}
	if left := r.names(pods, "shop"); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}
