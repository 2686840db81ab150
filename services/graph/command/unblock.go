package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Unblock is the propagator's proposal to break a circle of objects that wait
// for each other.
type Unblock struct {
	Circle []uid.UID
	reply  coppicev1.UnblockReply
}

var _ writer.Work = (*Unblock)(nil)

// Do implements writer.Work.
func (u *Unblock) Do(d *writer.Decision) (finished bool, err *lifecycle.Error) {
	circle := make([]*lifecycle.Node, len(u.Circle))
	for i, id := range u.Circle {
		if circle[i] = d.Tx.Node(id); circle[i] == nil {
			return true, nil
		}
	}
	events := lifecycle.Unblock(circle)
	if _, ok := d.Apply(events, 0); !ok {
		return false, nil
	}
	u.reply.Unblocked = uint32(len(events))
	return true, nil
}

// Reply implements writer.Work.
func (u *Unblock) Reply(d *writer.Decision) proto.Message {
	u.reply.Revision = d.Revision()
	return &u.reply
}

// Told implements writer.Work: there is no id to repeat it by.
func (*Unblock) Told() bool { return true }

// NewReply implements writer.Work.
func (*Unblock) NewReply() proto.Message { return &coppicev1.UnblockReply{} }
