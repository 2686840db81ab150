package api_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/allinone"
)

// warnings are those of a reply. What they say of programs that answer finalizers is about the
// time of the reply, and not about the command.
var warnings = regexp.MustCompile(`,"warnings":\[[^]]*\]`)

// A repeated command gets its first outcome again: immediately, after the object was
// removed, and after a restart.
func TestRepeatedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startWith(t, allinone.Config{Dir: dir})
	id := []string{bus.HeaderCommand, uuid.Must(uuid.NewV7()).String()}
	const body = `{"objects":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","finalizers":["example.com/x"]},"spec":{"a":1}}]}`
	create := func() string {
		return warnings.ReplaceAllString(string(r.request("create", "_.pods.shop", body, id...).Data), "")
	}
	created := create()
	if again := create(); again != created {
		t.Errorf("create again:\n%s\nwant\n%s", again, created)
	}
	if other := r.request("create", "_.pods.shop", body, bus.HeaderCommand, uuid.Must(uuid.NewV7()).String()); other.Header.Get(bus.HeaderReason) != "AlreadyExists" {
		t.Errorf("another create: %s", other.Data)
	}
	drop := []string{bus.HeaderCommand, uuid.Must(uuid.NewV7()).String()}
	deleted := r.request("delete", "_.pods.shop", `{"names":["web"]}`, drop...)
	if got := decode[result](t, deleted.Data); got.Results[0].Code != 202 {
		t.Errorf("delete: %s", deleted.Data)
	}
	r.request("removefinalizer", "_.pods.shop.example.com/x", `{"objects":[{"name":"web"}]}`)
	r.Gone(pods, "shop", "web")
	r.Stop()
	r = startWith(t, allinone.Config{Dir: dir})
	if again := r.request("delete", "_.pods.shop", `{"names":["web"]}`, drop...); string(again.Data) != string(deleted.Data) {
		t.Errorf("delete again, after a restart:\n%s\nwant\n%s", again.Data, deleted.Data)
	}
	if again := create(); again != created {
		t.Errorf("create again, after a restart:\n%s\nwant\n%s", again, created)
	}
	if _, err := r.Resource(pods, "shop").Get(r.Ctx, "web"); err == nil {
		t.Error("the repetition has created the object")
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")
	r.Create(pods, "shop", named("b"))
	batch := func() []*coppicev1.Object { return []*coppicev1.Object{named("a"), named("b"), named("c")} }

	_, err := shop.CreateBatch(r.Ctx, batch(), client.Atomic(true))
	var e *client.Error
	if !asError(err, &e) || e.Reason != client.ErrAlreadyExists || e.Index != 1 {
		t.Fatalf("atomic: %v", err)
	}
	if _, err := shop.Get(r.Ctx, "a"); err == nil {
		t.Error("a part of an atomic batch that was refused is there")
	}
	results, err := shop.CreateBatch(r.Ctx, batch(), client.DryRun(true))
	if err != nil || !results[0].Created || results[1].Err == nil || !results[2].Created {
		t.Fatalf("dry run: %+v, %v", results, err)
	}
	if _, err := shop.Get(r.Ctx, "c"); err == nil {
		t.Error("a dry run has created an object")
	}
	results, err = shop.CreateBatch(r.Ctx, batch())
	if err != nil || !results[0].Created || !asError(results[1].Err, &e) || e.Reason != client.ErrAlreadyExists || !results[2].Created {
		t.Fatalf("batch: %+v, %v", results, err)
	}
	if got := results[2].Object.GetMetadata(); got.GetUid() != r.Get(pods, "shop", "c").GetMetadata().GetUid() {
		t.Errorf("the result has uid %s", got.GetUid())
	}
}

// A batch that is larger than a commit is decided in several commits.
func TestBatchOfManyCommits(t *testing.T) {
	t.Parallel()
	r := start(t)
	big := strings.Repeat("x", 1<<19)
	var objects []*coppicev1.Object
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		o := named(name)
		o.Spec = []byte(`"` + big + `"`)
		objects = append(objects, o)
	}
	for range 2 { // twice 7 MiB: the second request gets a commit of its own
		results, err := r.Resource(pods, "shop").CreateBatch(r.Ctx, objects)
		must.Succeed(t, err)
		for _, res := range results {
			if res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		for _, o := range objects {
			o.Metadata.Name += "2"
		}
	}
	found := 0
	for o, err := range r.Resource(pods, "shop").List(r.Ctx) {
		must.Succeed(t, err)
		if len(o.GetSpec()) != len(big)+2 {
			t.Errorf("%s has a spec of %d bytes", o.GetMetadata().GetName(), len(o.GetSpec()))
		}
		found++
	}
	if found != 14 {
		t.Errorf("listed %d objects, want 14", found)
	}
	large := named("large")
	large.Spec = []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	_, err := r.Resource(pods, "shop").Create(r.Ctx, large)
	var e *client.Error
	if !asError(err, &e) || e.Reason != client.ErrRequestEntityTooLarge {
		t.Errorf("an object of 2 MiB: %v", err)
	}
}

// A list whose selector matches few of many objects returns all that match, page by page.
func TestListOfFewAmongMany(t *testing.T) {
	t.Parallel()
	r := start(t)
	const n, each = 1100, 90
	var want []string
	var objects []*coppicev1.Object
	for i := range n {
		o := named(fmt.Sprintf("p%04d", i))
		if i%each == each-1 {
			o.Metadata.Labels = map[string]string{"rare": "yes"}
			want = append(want, o.GetMetadata().GetName())
		}
		objects = append(objects, o)
	}
	for part := range slices.Chunk(objects, 500) {
		if _, err := r.Resource(pods, "shop").CreateBatch(r.Ctx, part); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{0, 1, 4, 100} {
		var found []string
		for o, err := range r.Resource(pods, "shop").List(r.Ctx, client.LabelSelector("rare=yes"), client.Limit(limit)) {
			must.Succeed(t, err)
			found = append(found, o.GetMetadata().GetName())
		}
		if !slices.Equal(found, want) {
			t.Errorf("pages of %d: listed %v, want %v", limit, found, want)
		}
	}
}

func TestListAndDeleteCollection(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, ns := range []string{"one", "two"} {
		var objects []*coppicev1.Object
		for i := range 30 {
			o := named(string(rune('a'+i%26)) + string(rune('a'+i/26)))
			o.Metadata.Labels = map[string]string{"odd": []string{"no", "yes"}[i%2]}
			objects = append(objects, o)
		}
		if _, err := r.Resource(pods, ns).CreateBatch(r.Ctx, objects); err != nil {
			t.Fatal(err)
		}
	}
	count := func(ns string, opts client.ListOptions) int {
		n, last := 0, ""
		for o, err := range r.Resource(pods, ns).List(r.Ctx, opts) {
			must.Succeed(t, err)
			key := o.GetMetadata().GetNamespace() + "/" + o.GetMetadata().GetName()
			if key <= last {
				t.Errorf("%s follows %s", key, last)
			}
			last = key
			n++
		}
		return n
	}
	for _, tc := range []struct {
		ns   string
		opts client.ListOptions
		want int
	}{
		{"one", client.ListOptions{}, 30},
		{"one", client.ListOptions{Limit: 7}, 30},
		{"", client.ListOptions{Limit: 7}, 60},
		{"two", client.ListOptions{LabelSelector: "odd=yes", Limit: 4}, 15},
		{"three", client.ListOptions{}, 0},
	} {
		if got := count(tc.ns, tc.opts); got != tc.want {
			t.Errorf("list of %q with %+v has %d objects, want %d", tc.ns, tc.opts, got, tc.want)
		}
	}
	// A6.1: the listed objects are deleted, and no others.
	results, err := r.Resource(pods, "one").DeleteCollection(r.Ctx, "odd=no")
	if err != nil || len(results) != 15 {
		t.Fatalf("deletecollection: %d results, %v", len(results), err)
	}
	if got := count("", client.ListOptions{}); got != 45 {
		t.Errorf("%d objects are left, want 45", got)
	}
}
