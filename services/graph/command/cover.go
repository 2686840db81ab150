package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Cover is one step of the walk of a protection policy: the objects whose protection it has to
// change, and how far the walk is then. It has no effect if the walk is not where the step
// begins, so that a step that is repeated is harmless.
type Cover struct {
	batch
	policy   uid.UID
	from, to lifecycle.PolicyStatus
	reply    coppicev1.UnblockReply
}

var _ writer.Work = (*Cover)(nil)

// NewCover returns a step from one position of the walk to another.
func NewCover(policy uid.UID, from, to lifecycle.PolicyStatus, objects []uid.UID) *Cover {
	return &Cover{batch: batch{left: objects}, policy: policy, from: from, to: to}
}

// Do implements writer.Work.
func (c *Cover) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	n, p := d.Tx.Node(c.policy), d.Ctx.Kinds().Policy(c.policy)
	if n == nil || p == nil || n.Generation != c.from.ObservedGeneration {
		return true, nil
	}
	if at := lifecycle.PolicyStatusOf(d.Tx.Body(n)).Of(n); at.Complete || at.After != c.from.After {
		return true, nil
	}
	if !c.each(d, func(n *lifecycle.Node) []lifecycle.Event { return lifecycle.Cover(d.Ctx, p, n) }, func(uid.UID, bool) {}) {
		return false, nil
	}
	events := lifecycle.Walked(d.Ctx, n, c.to)
	if _, ok := d.Add(events, 0); !ok {
		return false, nil
	}
	c.reply.Unblocked = uint32(len(events))
	return true, nil
}

// Reply implements writer.Work.
func (c *Cover) Reply(d *writer.OpenCommit) proto.Message {
	c.reply.Revision = d.Revision()
	return &c.reply
}

// NewReply implements writer.Work.
func (*Cover) NewReply() proto.Message { return &coppicev1.UnblockReply{} }
