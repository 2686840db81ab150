package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// ReleaseBrake releases the brake of a kind: it lets the deletions of UIDs through, and then
// ends the trip unless More is set. It skips objects that no longer exist, are being deleted, or
// have changed since Revision: an owner may keep them now. If the uids do not fit into one
// commit, the last of several commits ends the trip.
type ReleaseBrake struct {
	Resource string
	UIDs     []uid.UID
	// More: other deletions are pending, so that the brake stays tripped.
	More bool
	// Revision is the revision at which the deletions were pending.
	Revision uint64
	reply    coppicev1.ReleaseBrakeReply
}

var _ writer.Work = (*ReleaseBrake)(nil)

// The bounds of what is recorded at once. It must fit into a commit, also if the max_payload of the NATS
// server is small and the uids are long.
const (
	maxReleased   = 1000
	releasedBytes = 8 << 10
)

// next returns the number of the next uids to record.
func (r *ReleaseBrake) next() (n int) {
	for size := 0; n < min(len(r.UIDs), maxReleased) && size < releasedBytes; n++ {
		size += len(r.UIDs[n])
	}
	return n
}

// Do implements writer.Work.
func (r *ReleaseBrake) Do(d *writer.OpenCommit) (finished bool, err *lifecycle.Error) {
	kind := d.Ctx.Kinds().Resource(r.Resource)
	if kind == nil {
		return true, lifecycle.ErrUnknownKind(r.Resource)
	}
	for len(r.UIDs) > 0 {
		n := r.next()
		pending := r.pending(d, r.UIDs[:n])
		if len(pending) > 0 && !d.LetThrough(pending) {
			return false, nil
		}
		r.reply.Released += uint64(len(pending))
		r.UIDs = r.UIDs[n:]
	}
	if !d.Reserve(releaseReply) {
		return false, nil
	}
	r.reply.More, r.reply.PendingRevision = r.More, r.Revision
	if b, _ := d.Tx.Brake(kind); b.Tripped != 0 {
		r.reply.Tripped = true
		d.ReleaseBrake(kind, r.More)
	}
	return true, nil
}

// pending returns those of the objects that can still be let through.
func (r *ReleaseBrake) pending(d *writer.OpenCommit, objects []uid.UID) []uid.UID {
	d.Tx.Prefetch(objects)
	list := make([]uid.UID, 0, len(objects))
	for _, u := range objects {
		if n := d.Tx.Node(u); lifecycle.Releasable(n) && n.Revision <= r.Revision {
			list = append(list, u)
		}
	}
	return list
}

// releaseReply is an upper bound of the size of a reply, in bytes.
const releaseReply = 64

// Reply implements writer.Work.
func (r *ReleaseBrake) Reply(d *writer.OpenCommit) proto.Message {
	r.reply.Revision = d.Revision()
	return &r.reply
}

// ReplyInLog implements writer.Work: what was let through in earlier commits is not in the
// events of the last one.
func (*ReleaseBrake) ReplyInLog() bool { return false }

// NewReply implements writer.Work.
func (*ReleaseBrake) NewReply() proto.Message { return &coppicev1.ReleaseBrakeReply{} }
