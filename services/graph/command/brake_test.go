package command_test

import (
	"testing"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/command"
)

// B4.5: a release does not let an object through that has changed since its revision.
func TestReleaseChanged(t *testing.T) {
	t.Parallel()
	b := start(t)
	same, changed := b.create("pods", "same"), b.create("pods", "changed")
	owner := b.create("pods", "owner")
	release := &command.ReleaseBrake{Resource: "pods", Revision: b.s.Checkpoint().GetRevision()}
	for _, o := range []*coppicev1.Object{same, changed} {
		release.UIDs = append(release.UIDs, uid.MustParse(o.GetMetadata().GetUid()))
	}
	blocking := true
	changed.Metadata.OwnerReferences = []*coppicev1.OwnerReference{{
		ApiVersion: owner.GetApiVersion(), Kind: owner.GetKind(), Name: "owner", Uid: owner.GetMetadata().GetUid(), BlockOwnerDeletion: &blocking,
	}}
	carryOut[*coppicev1.ObjectsReply](b, b.objects("pods", func(ctx *lifecycle.Context, at lifecycle.Key) (*lifecycle.Outcome, *lifecycle.Error) {
		at.Name = "changed"
		return lifecycle.Update(ctx, at, changed)
	}), nil)
	uids := release.UIDs
	if reply := carryOut[*coppicev1.ReleaseBrakeReply](b, release, nil); reply.GetReleased() != 1 {
		t.Errorf("the release lets %d objects through", reply.GetReleased())
	}
	snap := b.s.Snapshot()
	defer snap.Close()
	if !snap.Released(uids[0]) || snap.Released(uids[1]) {
		t.Errorf("let through: %t, and what has changed: %t", snap.Released(uids[0]), snap.Released(uids[1]))
	}
}
