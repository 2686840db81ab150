package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Veto answers the notices of an object's deletion that expiry policies have given.
type Veto struct {
	Resource, Namespace, Name string
	Preconditions             *coppicev1.Preconditions
	Answer                    lifecycle.NoticeAnswer
	reply                     coppicev1.VetoReply
}

var _ writer.Work = (*Veto)(nil)

// Do implements writer.Work.
func (v *Veto) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	kind := d.Ctx.Kinds().Resource(v.Resource)
	if kind == nil {
		return true, lifecycle.ErrUnknownKind(v.Resource)
	}
	at := lifecycle.Key{Kind: kind, Namespace: v.Namespace, Name: v.Name}
	n, err := lifecycle.Find(d.Tx, at)
	if err != nil {
		return true, err
	}
	list, err := lifecycle.Answered(d.Ctx, at, n, d.Tx.Notices(n.UID), v.Answer, v.Preconditions)
	if err != nil {
		return true, err
	}
	if !d.Reserve(vetoReply) {
		return false, nil
	}
	for _, notice := range list {
		if !d.Notice(n.UID, notice) {
			return false, nil // what is recorded already is recorded again by the next commit
		}
	}
	return true, nil
}

// vetoReply is an upper bound of the size of a reply, in bytes.
const vetoReply = 16

// Reply implements writer.Work.
func (v *Veto) Reply(d *writer.OpenCommit) proto.Message {
	v.reply.Revision = d.Revision()
	return &v.reply
}

// ReplyInLog implements writer.Work: no event has the revision.
func (*Veto) ReplyInLog() bool { return false }

// NewReply implements writer.Work.
func (*Veto) NewReply() proto.Message { return &coppicev1.VetoReply{} }
