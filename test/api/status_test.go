package api_test

import (
	"testing"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/testkit/must"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The verb status returns the pending work, and each reply has its revision.
func TestStatus(t *testing.T) {
	t.Parallel()
	r := start(t)
	all := r.Resource(pods, "shop")
	var created client.Reply
	_, err := all.Create(r.Ctx, &coppicev1.Object{
		ApiVersion: "v1", Kind: "Pod",
		Metadata: &coppicev1.ObjectMeta{Name: "a", Namespace: "shop", Finalizers: []string{"example.com/hold"}},
	}, client.ReplyInto(&created))
	must.Succeed(t, err)
	if created.Revision == 0 || r.Revision() != created.Revision {
		t.Errorf("the creation names revision %d, the client has seen %d", created.Revision, r.Revision())
	}
	deleted, err := all.Delete(r.Ctx, "a")
	must.Succeed(t, err)
	if deleted.Revision <= created.Revision {
		t.Errorf("the deletion names revision %d after %d", deleted.Revision, created.Revision)
	}
	status, err := r.Status(r.Ctx)
	must.Succeed(t, err)
	if status.GetIdle() || status.GetRevision() < deleted.Revision || len(status.GetPending()) != 1 || status.GetPending()[0].GetType() != "finalize" {
		t.Errorf("an object waits for its finalizer: %v", status)
	}
	if _, err := all.RemoveFinalizer(r.Ctx, "a", "example.com/hold"); err != nil {
		t.Fatal(err)
	}
	r.WaitFor("the realm to be idle", func() bool {
		status, err := r.Status(r.Ctx)
		return err == nil && status.GetIdle()
	})
	if _, err := all.Get(r.Ctx, "a"); err == nil {
		t.Error("the object is still there")
	}
}
