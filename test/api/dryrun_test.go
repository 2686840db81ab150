package api_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A dry run has the reply of the real request, and stores nothing.
func TestDryRuns(t *testing.T) {
	t.Parallel()
	r := start(t)
	shop := r.Resource(pods, "shop")
	free := r.Create(pods, "shop", named("free"))
	blocked := named("blocked")
	blocked.Metadata.Finalizers = []string{"example.com/x"}
	blocked = r.Create(pods, "shop", blocked)
	unchanged := func(what string, want *coppicev1.Object) {
		t.Helper()
		if got := r.Get(pods, "shop", want.GetMetadata().GetName()); !proto.Equal(got, want) {
			t.Errorf("%s has made %v of %v", what, got, want)
		}
	}

	// A1.15: a creation.
	var reply client.Reply
	if result, err := shop.Create(r.Ctx, named("never"), client.DryRun(true), client.ReplyInto(&reply)); err != nil || !reply.Created {
		t.Errorf("create: %+v, %+v, %v", result, reply, err)
	}
	if _, err := shop.Get(r.Ctx, "never"); err == nil {
		t.Error("a dry run has created an object")
	}
	if _, err := shop.Create(r.Ctx, named("free"), client.DryRun(true)); err == nil {
		t.Error("a name that is taken was not refused")
	}

	for _, tc := range []struct {
		object *coppicev1.Object
		policy string
		state  client.DeleteState
		marked int64 // the generation that would be stored
	}{
		{free, "Background", client.Removed, 1}, {free, "Foreground", client.Pending, 2},
		{blocked, "Background", client.Pending, 2}, {blocked, "Orphan", client.Pending, 2},
	} {
		// C090, A5.3: a deletion, of objects that are removed at once and of blocked ones.
		what := tc.policy + " of " + tc.object.GetMetadata().GetName()
		result, err := shop.Delete(r.Ctx, tc.object.GetMetadata().GetName(), client.PropagationPolicy(tc.policy), client.DryRun(true))
		if err != nil || result.State != tc.state || result.Object.GetMetadata().GetGeneration() != tc.marked {
			t.Errorf("%s: %+v, %v", what, result, err)
		}
		unchanged(what, tc.object)
	}

	r.delete(pods, "shop", "blocked", "Background")
	marked := r.Get(pods, "shop", "blocked")
	last := proto.Clone(marked).(*coppicev1.Object)
	last.Metadata.Finalizers = nil
	// C085: an update that would remove the object.
	if result, err := shop.Update(r.Ctx, last, client.DryRun(true)); err != nil {
		t.Errorf("update: %+v, %v", result, err)
	}
	unchanged("the update", marked)
}
