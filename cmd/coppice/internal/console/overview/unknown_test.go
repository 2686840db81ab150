package overview_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/overview"
	"github.com/coppice-gc/coppice/internal/testkit/must"
)

// importOrphan imports a config map whose owner, of a kind, does not exist.
func (r *realm) importOrphan(t *testing.T, n int, apiVersion, kind string) {
	t.Helper()
	uid := func(i int) string { return fmt.Sprintf("01890000-0000-7000-8000-%012d", 10*n+i) }
	o := &client.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &client.ObjectMeta{Name: fmt.Sprint("kept-", n), Namespace: "shop", Uid: uid(1),
		OwnerReferences: []*client.OwnerReference{{ApiVersion: apiVersion, Kind: kind, Name: "w", Uid: uid(2)}}}}
	results, err := r.Resource(client.Resource{Plural: "configmaps"}, "shop").ImportBatch(t.Context(), uid(3), []*client.Object{o})
	must.Succeed(t, err)
	must.Succeed(t, results[0].Err)
}

// An object whose owners were never seen is shown with the time until which it is kept, if there is one.
func TestUnknownOwner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ apiVersion, kind, says string }{
		{"example.com/v1", "Widget", "while the kind of an owner is not registered"}, {"v1", "Secret", "is kept until 2"},
	} {
		r := newRealm(t)
		r.importOrphan(t, 1, c.apiVersion, c.kind)
		r.reload(t)
		s := only(t, r.builder().Overview(t.Context(), nil))
		check(t, s, overview.UnknownOwner, "", 1, "coppice explain configmaps/kept-1 -n shop", "1 object names only owners that were never seen", "and is then deleted", c.says)
		if strings.Contains(s.Says, "Nothing is deleted") {
			t.Errorf("%q", s.Says)
		}
		if r.reads["resolve"] != 1 {
			t.Errorf("%d requests for the classes of owners, want 1", r.reads["resolve"])
		}
	}
}

// Objects whose owners the user may not see, or whose owners were removed, are not shown as objects with unknown owners. If
// there are others in a partial mirror, the group has only those that the graph service names.
func TestUnknownOwnerOfPartialMirror(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	owner := r.Create(t, "secrets", "owner", nil)
	dependent := r.Create(t, "configmaps", "kept", nil, owner)
	see := func() {
		r.mirror = mirror.New(r.now)
		r.mirror.SetPartial(true)
		for o, err := range r.Resource(client.Resource{Plural: "configmaps"}, "").List(t.Context()) {
			must.Succeed(t, err)
			r.mirror.Apply(mirror.Change{Op: mirror.Put, Resource: "configmaps", Object: o})
		}
		r.mirror.Apply(mirror.Change{Op: mirror.Synced})
	}
	see()
	if o := r.builder().Overview(t.Context(), nil); len(o.Stuck) != 0 || r.mirror.UnknownOwners(0).Total != 1 {
		t.Errorf("stuck: %+v", o.Stuck)
	}
	if state := r.mirror.State(dependent.GetMetadata().GetUid()); state != mirror.Present {
		t.Errorf("the object with an owner that is not visible is %s", state)
	}
	r.importOrphan(t, 1, "example.com/v1", "Widget")
	see()
	check(t, only(t, r.builder().Overview(t.Context(), nil)), overview.UnknownOwner, "", 1, "coppice explain configmaps/kept-1 -n shop", "At least 1 object names")
	r.errs["resolve"] = &client.Error{Reason: client.ErrServiceUnavailable, Message: "no graph service"}
	if o := r.builder().Overview(t.Context(), nil); len(o.Stuck) != 0 || len(o.Missing) != 1 || o.Missing[0].Part != "unknown owners" {
		t.Errorf("stuck: %+v, missing: %+v", o.Stuck, o.Missing)
	}
}

// If the pending work could not be read, unknown owners are those that the graph service names; if these could not be read,
// they are those of the mirror only if the pending work has some.
func TestUnknownOwnerUnread(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	owner := r.Create(t, "secrets", "owner", nil)
	r.Create(t, "configmaps", "kept", nil, owner)
	r.reload(t)
	r.mirror.Apply(mirror.Change{Op: mirror.Restart})
	for o, err := range r.Resource(client.Resource{Plural: "configmaps"}, "").List(t.Context()) {
		must.Succeed(t, err)
		r.mirror.Apply(mirror.Change{Op: mirror.Put, Resource: "configmaps", Object: o})
	}
	r.mirror.Apply(mirror.Change{Op: mirror.Synced})
	broken := &client.Error{Reason: client.ErrServiceUnavailable, Message: "no graph service"}
	r.errs["status"] = broken
	if o := r.builder().Overview(t.Context(), nil); len(o.Stuck) != 0 {
		t.Errorf("stuck: %+v", o.Stuck)
	}
	r.errs["resolve"] = broken
	if o := r.builder().Overview(t.Context(), nil); len(o.Stuck) != 0 || len(o.Missing) != 2 {
		t.Errorf("stuck: %+v, missing: %+v", o.Stuck, o.Missing)
	}
	delete(r.errs, "status")
	r.importOrphan(t, 1, "example.com/v1", "Widget")
	r.reload(t)
	if o := r.builder().Overview(t.Context(), nil); len(o.Stuck) != 1 || o.Stuck[0].Blocker != overview.UnknownOwner {
		t.Errorf("stuck: %+v", o.Stuck)
	}
}

// What was read before is shown for 10 minutes if it cannot be read again, and not if the user may not read it any more.
func TestKnownBefore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		want  string
	}{
		"for some time": {&client.Error{Reason: client.ErrServiceUnavailable, Message: "no graph service"}, 9 * time.Minute, "None"},
		"too old":       {&client.Error{Reason: client.ErrServiceUnavailable, Message: "no graph service"}, 11 * time.Minute, "Unseen"},
		"refused":       {&client.Error{Reason: client.ErrForbidden, Message: "no rule allows it"}, time.Minute, "Unseen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRealm(t)
			r.Create(t, "configmaps", "a", []string{bucket})
			r.Delete(t, "configmaps", "a")
			r.reload(t)
			b := r.builder()
			only(t, b.Overview(t.Context(), nil))
			r.errs["consumers"] = c.err
			r.advance(c.after)
			o := b.Overview(t.Context(), nil)
			if o.Finalizers[0].Consumer != c.want || len(o.Missing) != 1 {
				t.Errorf("consumer %s, missing %+v; want %s", o.Finalizers[0].Consumer, o.Missing, c.want)
			}
			if shown := len(o.Stuck) == 1; shown != (name != "refused") { // it has waited for 11 minutes, or its consumer is known
				t.Errorf("stuck: %+v", o.Stuck)
			}
		})
	}
}
