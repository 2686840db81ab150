package command

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/cycles"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Unblock is the propagator's proposal to break a cycle of objects that wait for each
// other.
type Unblock struct {
	Cycle []uid.UID
	reply coppicev1.UnblockReply
}

var _ writer.Work = (*Unblock)(nil)

// Do implements writer.Work.
func (u *Unblock) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	events := cycles.Unblock(d.Tx, u.Cycle)
	if _, ok := d.Add(events, 0); !ok {
		return false, nil
	}
	u.reply.Unblocked = uint32(len(events))
	return true, nil
}

// Reply implements writer.Work.
func (u *Unblock) Reply(d *writer.OpenCommit) proto.Message {
	u.reply.Revision = d.Revision()
	return &u.reply
}

// ReplyInLog implements writer.Work: the command has no id, so that no reply is stored.
func (*Unblock) ReplyInLog() bool { return true }

// NewReply implements writer.Work.
func (*Unblock) NewReply() proto.Message { return &coppicev1.UnblockReply{} }

// CollectCycle is the scanner's proposal to collect an unreachable cycle: all of it in one
// commit, or nothing.
type CollectCycle struct {
	Members []uid.UID
	reply   coppicev1.CyclesReply
}

var _ writer.Work = (*CollectCycle)(nil)

// Do implements writer.Work.
func (c *CollectCycle) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	d.Tx.Prefetch(c.Members)
	events := cycles.Collect(d.Ctx, c.Members)
	if _, ok := d.Add(events, 0); !ok {
		if d.Empty() { // it fits into no commit
			return true, &lifecycle.Error{Reason: api.ErrRequestEntityTooLarge, Message: fmt.Sprintf(
				"the deletion of an unreachable cycle of %d objects is larger than a commit, which has at most %d bytes; delete one of them", len(events), d.Limit())}
		}
		return false, nil
	}
	c.reply.Collected = uint32(len(events))
	return true, nil
}

// Reply implements writer.Work.
func (c *CollectCycle) Reply(d *writer.OpenCommit) proto.Message {
	c.reply.Revision = d.Revision()
	return &c.reply
}

// ReplyInLog implements writer.Work: the command has no id, so that no reply is stored.
func (*CollectCycle) ReplyInLog() bool { return true }

// NewReply implements writer.Work.
func (*CollectCycle) NewReply() proto.Message { return &coppicev1.CyclesReply{} }
