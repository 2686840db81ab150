package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Resume ends the pause of a realm. It changes nothing if the realm is not paused.
type Resume struct{ reply coppicev1.ResumeReply }

var _ writer.PausedWork = (*Resume)(nil)

// resumeReply is an upper bound of the size of a reply, in bytes.
const resumeReply = 32

// Do implements writer.Work.
func (r *Resume) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	if !d.Tx.Realm().Paused {
		return true, nil
	}
	if !d.Reserve(resumeReply) {
		return false, nil
	}
	d.ChangeRealm(lifecycle.RealmChange{Paused: false})
	r.reply.Resumed = true
	return true, nil
}

// Reply implements writer.Work.
func (r *Resume) Reply(d *writer.OpenCommit) proto.Message {
	r.reply.Revision = d.Revision()
	return &r.reply
}

// ReplyInLog implements writer.Work: whether the realm was paused is not in the event.
func (*Resume) ReplyInLog() bool { return false }

// NewReply implements writer.Work.
func (*Resume) NewReply() proto.Message { return &coppicev1.ResumeReply{} }

// WhilePaused implements writer.PausedWork.
func (*Resume) WhilePaused() {}
