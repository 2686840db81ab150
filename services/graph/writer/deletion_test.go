package writer_test

import (
	"errors"
	"testing"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/testkit"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

func finalize(name, finalizer string) *writer.Request {
	return &writer.Request{Work: &command.Objects{
		Resource: "configmaps", Namespace: "a", Count: 1,
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			o := configMap(name)
			o.Metadata.Finalizers = []string{finalizer}
			return lifecycle.Update(ctx, at, o)
		},
	}}
}

func deletionOf(name, uid string) *writer.Request {
	return &writer.Request{Work: &command.Objects{
		Resource: "configmaps", Namespace: "a", Count: 1,
		Decide: func(ctx *lifecycle.Context, at lifecycle.Key, _ int) (*lifecycle.Outcome, *lifecycle.Error) {
			at.Name = name
			return lifecycle.Delete(ctx, at, "", &coppicev1.DeleteOptions{Preconditions: &coppicev1.Preconditions{Uid: uid}})
		},
	}}
}

// A deletion is decided on the object as the commands before it have changed it, also if
// these are not stored yet.
func TestDeletionSeesItsCommit(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	uid := b.do(create("blocked", "again")).objects(t)[1].GetObject().GetMetadata().GetUid()
	release := b.log.holdUp()
	for len(b.log.arrived) > 0 {
		<-b.log.arrived
	}
	b.submit(create("first"))
	testkit.Receive(t, b.ctx, "the first append", b.log.arrived)
	added, blocked := b.submit(finalize("blocked", "example.com/x")), b.submit(deletionOf("blocked", ""))
	gone, again := b.submit(deletionOf("again", uid)), b.submit(create("again"))
	stale := b.submit(deletionOf("again", uid))
	release()
	testkit.Receive(t, b.ctx, "the finalizer", added).objects(t)
	// C082: the finalizer blocks the removal.
	if r := testkit.Receive(t, b.ctx, "its deletion", blocked).objects(t)[0]; r.GetCode() != 202 || len(r.GetObject().GetMetadata().GetFinalizers()) != 1 {
		t.Errorf("the deletion of an object with a finalizer: %v", r)
	}
	if r := testkit.Receive(t, b.ctx, "the other deletion", gone).objects(t)[0]; r.GetCode() != 200 {
		t.Errorf("the deletion of what nothing holds: %v", r)
	}
	testkit.Receive(t, b.ctx, "the creation", again).objects(t)
	// C083: an object with another uid has the name by now.
	if a := testkit.Receive(t, b.ctx, "the stale deletion", stale); !errors.Is(a.err, api.ErrConflict) {
		t.Errorf("a deletion with the uid of the object before: %v, %v", a.reply, a.err)
	}
	if there := b.there(); len(there) != 3 {
		t.Errorf("there are %v", there)
	}
}
