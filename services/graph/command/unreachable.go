package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// CollectCycle is the proposal to collect a cycle that nothing outside of it
// owns: all of it in one commit, or nothing.
type CollectCycle struct {
	Members []uid.UID
	reply   coppicev1.CyclesReply
}

var _ writer.Work = (*CollectCycle)(nil)

// Do implements writer.Work.
func (c *CollectCycle) Do(d *writer.Decision) (finished bool, err *lifecycle.Error) {
	d.Tx.Prefetch(c.Members)
	members := make([]*lifecycle.Node, len(c.Members))
	for i, u := range c.Members {
		if members[i] = d.Tx.Node(u); members[i] == nil {
			return true, nil
		}
	}
	events := lifecycle.CollectUnreachable(d.Ctx, members)
	if _, ok := d.Apply(events, 0); !ok {
		return false, nil
	}
	c.reply.Collected = uint32(len(events))
	return true, nil
}

// Reply implements writer.Work.
func (c *CollectCycle) Reply(d *writer.Decision) proto.Message {
	c.reply.Revision = d.Revision()
	return &c.reply
}

// Told implements writer.Work: there is no id to repeat it by.
func (*CollectCycle) Told() bool { return true }

// NewReply implements writer.Work.
func (*CollectCycle) NewReply() proto.Message { return &coppicev1.CyclesReply{} }
