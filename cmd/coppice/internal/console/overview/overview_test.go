package overview_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/overview"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/lookup/lookuptest"
	"github.com/coppice-gc/coppice/internal/testkit"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const bucket = "example.com/bucket"

// realm is a realm in memory with what the one of lookuptest leaves out, and a mirror of it.
type realm struct {
	*lookuptest.Fake
	mirror *mirror.Mirror

	mu      sync.Mutex
	ahead   time.Duration
	paused  bool
	parked  *client.ParkedPage
	storage *client.Storage
	// errs are the errors of reads, by what is read; reads counts them. A read that is named in hang does not end by itself.
	errs  map[string]error
	hang  string
	reads map[string]int
}

func newRealm(t *testing.T) *realm {
	t.Helper()
	fake, _, _ := lookuptest.New(t)
	r := &realm{Fake: fake, errs: map[string]error{}, reads: map[string]int{}, parked: &client.ParkedPage{}, storage: &client.Storage{LogBytes: 5, Archived: true}}
	r.mirror = mirror.New(r.now)
	return r
}

func (r *realm) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.ahead)
}

func (r *realm) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
}

// asked counts a read, and returns its error.
func (r *realm) asked(ctx context.Context, what string) error {
	r.mu.Lock()
	r.reads[what]++
	err, hang := r.errs[what], r.hang == what
	r.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (r *realm) Status(ctx context.Context, opts ...client.CallOption) (*client.Status, error) {
	if err := r.asked(ctx, "status"); err != nil {
		return nil, err
	}
	s, err := r.Fake.Status(ctx, opts...)
	if s != nil {
		s.Paused = r.paused
	}
	return s, err
}

func (r *realm) Warnings(ctx context.Context, uid string, opts ...client.WarningsOption) ([]client.Warning, error) {
	if err := r.asked(ctx, "warnings"); err != nil {
		return nil, err
	}
	return r.Fake.Warnings(ctx, uid, opts...)
}

func (r *realm) Resource(of client.Resource, namespace string) client.ResourceClient {
	return objects{r.Client.Resource(of, namespace), r}
}

type objects struct {
	client.ResourceClient
	r *realm
}

func (o objects) ResolveUIDs(ctx context.Context, uids []string, opts ...client.GraphOption) (*client.Graph, error) {
	if err := o.r.asked(ctx, "resolve"); err != nil {
		return nil, err
	}
	return o.ResourceClient.ResolveUIDs(ctx, uids, opts...)
}

func (r *realm) Operations() client.OperationsClient {
	return operations{r.Client.Operations(), r}
}

type operations struct {
	client.OperationsClient
	r *realm
}

func (o operations) Consumers(ctx context.Context, opts ...client.ConsumersOption) (*client.Consumers, error) {
	if err := o.r.asked(ctx, "consumers"); err != nil {
		return nil, err
	}
	return o.r.Fake.Operations().Consumers(ctx, opts...)
}

func (o operations) Brakes(ctx context.Context, opts ...client.CallOption) ([]*client.BrakeStatus, error) {
	if err := o.r.asked(ctx, "brakes"); err != nil {
		return nil, err
	}
	return o.OperationsClient.Brakes(ctx, opts...)
}

func (o operations) ListParked(ctx context.Context, _ ...client.ParkedOption) (*client.ParkedPage, error) {
	return o.r.parked, o.r.asked(ctx, "parked")
}

func (o operations) Storage(ctx context.Context, _ ...client.CallOption) (*client.Storage, error) {
	return o.r.storage, o.r.asked(ctx, "storage")
}

// reload has the mirror read all objects.
func (r *realm) reload(t *testing.T) {
	t.Helper()
	changes := []mirror.Change{{Op: mirror.Restart}}
	kinds, err := r.Kinds(t.Context())
	must.Succeed(t, err)
	for _, k := range kinds.All() {
		for o, err := range r.Resource(client.ResourceOf(k), "").List(t.Context()) {
			must.Succeed(t, err)
			changes = append(changes, mirror.Change{Op: mirror.Put, Resource: client.ResourceOf(k).String(), Object: o, Revision: o.GetMetadata().GetResourceVersion()})
		}
	}
	r.mirror.Apply(append(changes, mirror.Change{Op: mirror.Synced})...)
}

func (r *realm) builder() *overview.Builder {
	return overview.New(overview.Config{Client: r, Mirror: r.mirror, Now: r.now, Timeout: testkit.Timeout})
}

// only returns the one group of an overview.
func only(t *testing.T, o *view.Overview) view.Stuck {
	t.Helper()
	if len(o.Stuck) != 1 || len(o.Missing) != 0 {
		t.Fatalf("stuck: %+v, missing: %+v", o.Stuck, o.Missing)
	}
	return o.Stuck[0]
}

func check(t *testing.T, s view.Stuck, blocker, subject string, n uint64, command string, says ...string) {
	t.Helper()
	if s.Blocker != blocker || s.Subject != subject || s.Objects != n || s.Cure.Command != command {
		t.Errorf("stuck: %+v, want %s %q, %d objects, %q", s, blocker, subject, n, command)
	}
	for _, text := range says {
		if !strings.Contains(s.Says+s.Cure.Says, text) {
			t.Errorf("%q and %q do not say %q", s.Says, s.Cure.Says, text)
		}
	}
}

// An object that waits for a finalizer is stuck if the program of the finalizer does not work, or if it works for long.
func TestFinalizer(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	r.Create(t, "configmaps", "a", []string{bucket})
	r.Create(t, "configmaps", "other", []string{"example.com/unused"})
	r.Delete(t, "configmaps", "a")
	r.reload(t)
	remove := `coppice finalizer remove configmaps/a ` + bucket + ` --reason "its program no longer exists" -n shop`
	for _, c := range []struct {
		consumer *client.ConsumerState
		state    string
		after    time.Duration
		command  string
		says     []string
	}{
		{nil, "None", 0, remove, []string{"1 object waits for the finalizer " + bucket, "no program asks for its calls", "Start the program"}},
		{&client.ConsumerState{Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_SILENT, Process: "cleaner-1"}, "Silent", 0, remove, []string{"silent", "the program cleaner-1 still runs"}},
		{&client.ConsumerState{Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_RETRYING, LastError: "access denied"}, "Failing", 0, remove, []string{"access denied", "See the log of the program that answers"}},
		{&client.ConsumerState{Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING, Pulling: 1}, "Busy", 0, "", nil},
		{&client.ConsumerState{Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_WORKING, Pulling: 1}, "Busy", 11 * time.Minute, "coppice explain configmaps/a -n shop", []string{"more than 10 minutes"}},
	} {
		r.Consumers[bucket] = c.consumer
		r.advance(c.after)
		o := r.builder().Overview(t.Context(), nil)
		if c.command == "" {
			if len(o.Stuck) != 0 {
				t.Errorf("%s: %+v", c.state, o.Stuck)
			}
		} else {
			s := only(t, o)
			check(t, s, overview.Finalizer, bucket, 1, c.command, c.says...)
			if len(s.Examples) != 1 || s.Examples[0].Name != "a" || s.Examples[0].WaitsFor != "finalizer "+bucket || s.Oldest == nil {
				t.Errorf("%s: %+v", c.state, s)
			}
		}
		if f := o.Finalizers; len(f) != 2 || f[0].Name != bucket || f[0].Consumer != c.state || f[0].Terminating != 1 || f[1].Objects != 1 || f[1].Terminating != 0 || f[1].Consumer != "None" {
			t.Errorf("%s: %+v", c.state, f)
		}
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	_, err := r.Resource(client.Resource{Plural: "pods"}, "shop").Create(t.Context(), &client.Object{Metadata: &client.ObjectMeta{Name: "ends"}, Spec: []byte(`{"nodeName": "n1"}`)})
	must.Succeed(t, err)
	r.Delete(t, "pods", "ends")
	r.reload(t)
	check(t, only(t, r.builder().Overview(t.Context(), nil)), overview.Agent, "pods", 1, "coppice delete pods/ends --force -n shop", "waits for the agent of pods")
	r.Consumers["pods"] = &client.ConsumerState{Status: coppicev1.ConsumerStatus_CONSUMER_STATUS_IDLE, Pulling: 1}
	if o := r.builder().Overview(t.Context(), nil); len(o.Stuck) != 0 {
		t.Errorf("stuck: %+v", o.Stuck)
	}
}

func TestProtected(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	owner := r.Create(t, "configmaps", "owner", nil)
	r.Create(t, "secrets", "kept", nil, owner)
	_, err := r.Resource(client.Resource{Plural: "secrets"}, "shop").Protect(t.Context(), []string{"kept"}, "production")
	must.Succeed(t, err)
	r.Delete(t, "configmaps", "owner", client.Foreground)
	r.reload(t)
	o := r.builder().Overview(t.Context(), nil)
	check(t, only(t, o), overview.Protected, "", 1, `coppice unprotect secrets/kept --reason "it may be deleted" --dry-run=server -n shop`, "1 object is protected")
	if o.DeletionsTotal != 1 || o.Deletions[0].Root.Name != "owner" || o.Deletions[0].Blocked != 1 || len(o.Longest) != 1 || o.Longest[0].WaitsFor != "1 protected dependent" {
		t.Errorf("deletions: %+v, longest: %+v", o.Deletions, o.Longest)
	}
}

// A tripped brake is shown with the objects that it keeps.
func TestBrake(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	kinds := r.Resource(client.KindsResource, "")
	_, err := kinds.Create(t.Context(), &client.Object{ApiVersion: "coppice.dev/v1", Kind: "Kind", Metadata: &client.ObjectMeta{Name: "widgets.example.com"},
		Spec: []byte(`{"group": "example.com", "versions": [{"name": "v1"}], "kind": "Widget", "plural": "widgets", "scope": "Namespaced", "brake": {"objects": 1, "window": "1h"}}`)})
	must.Succeed(t, err)
	owner := r.Create(t, "configmaps", "owner", nil)
	for _, name := range []string{"a", "b", "c"} {
		r.Create(t, "widgets.example.com", name, nil, owner)
	}
	r.reload(t)
	r.Delete(t, "configmaps", "owner")
	r.mirror.Apply(mirror.Change{Op: mirror.Remove, Resource: "configmaps", Object: owner})
	r.reload(t)
	o := r.builder().Overview(t.Context(), nil)
	check(t, only(t, o), overview.Brake, "widgets.example.com", 2, "coppice brake release widgets.example.com --dry-run", "has deleted 1 of them")
	if o.Garbage != 2 || o.Stuck[0].Oldest == nil || len(o.Stuck[0].Examples) != 2 {
		t.Errorf("overview: %+v", o)
	}
}

// Groups of what is not about the mirror's objects: parked work, a pause, and what warnings name. The oldest comes first.
func TestOthers(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	a, b, c := r.Create(t, "configmaps", "a", nil), r.Create(t, "configmaps", "b", nil), r.Create(t, "configmaps", "c", nil)
	solved, unsure, old := r.Create(t, "configmaps", "solved", nil), r.Create(t, "configmaps", "unsure", nil), r.Create(t, "configmaps", "old", nil)
	r.reload(t)
	// The realm in memory refuses references to other namespaces and cycles.
	own := func(o *client.Object, owner *client.Object) {
		o = proto.CloneOf(o)
		o.Metadata.ResourceVersion++
		o.Metadata.OwnerReferences = []*client.OwnerReference{client.NewOwnerReference(owner)}
		r.mirror.Apply(mirror.Change{Op: mirror.Put, Resource: "configmaps", Object: o, Revision: r.mirror.Revision()})
	}
	other := &client.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &client.ObjectMeta{Name: "x", Namespace: "other", Uid: "01890000-0000-7000-8000-00000000000e", ResourceVersion: 1}}
	hidden := &client.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &client.ObjectMeta{Name: "y", Namespace: "other", Uid: "01890000-0000-7000-8000-00000000000d"}}
	r.mirror.Apply(mirror.Change{Op: mirror.Put, Resource: "configmaps", Object: other})
	own(a, other)
	own(c, other)
	own(b, b)
	own(unsure, hidden)
	own(old, hidden)
	r.paused = true
	at := func(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).UTC().Add(d) }
	r.parked = &client.ParkedPage{Parked: []*coppicev1.ParkedWork{
		{Id: 1, Work: &coppicev1.Parked{Error: "later", Time: at(3 * time.Second).UnixMicro()}},
		{Id: 2, Work: &coppicev1.Parked{Error: "first", Time: at(2 * time.Second).UnixMicro()}},
	}}
	warn := func(o *client.Object, reason string, d time.Duration) {
		m := o.GetMetadata()
		r.Warned = append(r.Warned, client.Warning{Resource: "configmaps", Namespace: "shop", Name: m.GetName(), UID: m.GetUid(), Reason: reason, Message: "says", Time: at(d)})
	}
	warn(a, "OwnerRefInvalidNamespace", 5*time.Second)
	warn(a, "OwnerRefInvalidNamespace", 4*time.Second) // the same, earlier
	warn(c, "OwnerRefInvalidNamespace", 6*time.Second)
	warn(solved, "OwnerRefInvalidNamespace", 0)
	warn(solved, "UnreachableCycle", 0)
	warn(old, "OwnerRefInvalidNamespace", 0)
	warn(unsure, "OwnerRefInvalidNamespace", r.now().Sub(at(0))-10*time.Minute)
	warn(b, "UnreachableCycle", time.Second)
	warn(&client.Object{Metadata: &client.ObjectMeta{Name: "gone", Uid: "01890000-0000-7000-8000-00000000000f"}}, "UnreachableCycle", 0)
	r.Warned = append(r.Warned, client.Warning{Resource: "realms.coppice.dev", Name: "default", Reason: "DiskFilling", Message: "full", Time: at(time.Hour)})
	o := r.builder().Overview(t.Context(), []view.Service{{Name: "graph"}})
	var order []string
	for _, s := range o.Stuck {
		order = append(order, s.Blocker)
	}
	if !slices.Equal(order, []string{overview.Cycle, overview.Parked, overview.OtherNamespace, overview.Paused}) {
		t.Fatalf("stuck: %+v", o.Stuck)
	}
	check(t, o.Stuck[0], overview.Cycle, "", 1, "coppice explain configmaps/b -n shop", "own each other")
	check(t, o.Stuck[1], overview.Parked, "", 0, "coppice parked", "2 pieces of work are parked", "first")
	check(t, o.Stuck[2], overview.OtherNamespace, "", 3, "coppice explain configmaps/a -n shop", "3 objects have")
	check(t, o.Stuck[3], overview.Paused, "", 0, "coppice realm resume default", "nothing is deleted")
	if !o.Stuck[2].Oldest.Equal(at(5*time.Second)) || !o.Stuck[1].Oldest.Equal(at(2*time.Second)) || !o.Paused {
		t.Errorf("stuck: %+v", o.Stuck)
	}
	if o.WarningsTotal != 8 || slices.ContainsFunc(o.Warnings, func(w view.Warning) bool { return w.Name == "gone" }) || o.Warnings[1].Name != "" || o.Warnings[1].Reason != "DiskFilling" || o.Warnings[0].Name != "unsure" {
		t.Errorf("warnings: %+v", o.Warnings)
	}
	if o.Storage.LogBytes != 5 || !o.Storage.Archived || len(o.Services) != 1 || o.Objects != r.mirror.Objects() || o.Loading || o.Revision != r.mirror.Revision() {
		t.Errorf("overview: %+v", o)
	}
}

// A part that is refused, or has no reply in time, is missing, and the others are there.
func TestMissing(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	r.Create(t, "configmaps", "a", []string{bucket})
	r.Delete(t, "configmaps", "a")
	r.reload(t)
	for _, what := range []string{"status", "warnings", "brakes", "parked"} {
		r.errs[what] = &client.Error{Reason: client.ErrForbidden, Message: "ana may not do it"}
	}
	r.hang = "storage"
	b := overview.New(overview.Config{Client: r, Mirror: r.mirror, Now: r.now, Timeout: time.Millisecond})
	o := b.Overview(t.Context(), nil)
	missing := map[string]string{}
	for _, m := range o.Missing {
		missing[m.Part] = m.Why
	}
	if missing["storage"] != "no reply within 1ms" || !strings.Contains(missing["warnings"], "ana may not do it") || missing["pending work"] == "" || missing["brakes"] == "" || missing["parked work"] == "" {
		t.Errorf("missing: %v", missing)
	}
	if o.Terminating != 1 || len(o.Finalizers) != 1 || o.Storage != nil {
		t.Errorf("overview: %+v", o)
	}
	r.hang = ""
	r.errs["consumers"] = errors.New("broken")
	o = r.builder().Overview(t.Context(), nil)
	if len(o.Stuck) != 0 || o.Finalizers[0].Consumer != "Unseen" {
		t.Errorf("overview: %+v", o)
	}
	r.advance(11 * time.Minute)
	check(t, r.builder().Overview(t.Context(), nil).Stuck[0], overview.Finalizer, bucket, 1, "coppice explain configmaps/a -n shop", "could not be read")
}

// However many tabs look, slow parts are read every 5 s at most, and pending work every 2 s.
func TestShared(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	r.reload(t)
	fixed := time.Now()
	r.mirror = mirror.New(func() time.Time { return fixed })
	var mu sync.Mutex
	clock := fixed
	b := overview.New(overview.Config{Client: r, Mirror: r.mirror, Timeout: testkit.Timeout, Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return clock
	}})
	for _, step := range []struct {
		advance      time.Duration
		status, slow int
	}{{0, 1, 1}, {1900 * time.Millisecond, 1, 1}, {200 * time.Millisecond, 2, 1}, {3 * time.Second, 3, 2}} {
		mu.Lock()
		clock = clock.Add(step.advance)
		mu.Unlock()
		var tabs sync.WaitGroup
		for range 20 {
			tabs.Go(func() { b.Overview(t.Context(), nil) })
		}
		tabs.Wait()
		for what, n := range r.reads {
			want := step.slow
			switch what {
			case "status":
				want = step.status
			case "consumers":
				want = 0 // there are none to ask for
			}
			if n != want {
				t.Errorf("%v later: %s was read %d times, want %d", step.advance, what, n, want)
			}
		}
	}
}
