package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Matched is the evaluation of an expiry policy on a page of objects.
type Matched struct {
	// PolicyRevision is the revision of the policy at the evaluation.
	PolicyRevision uint64
	Rule           lifecycle.NoticeRule
	// Objects are the objects for which something follows, Found what was found about them.
	Objects []uid.UID
	Found   map[uid.UID]Found
	// At is the time of the evaluation, Seen that of the scanner.
	At, Seen lifecycle.Time
}

// Found is the revision of an object at an evaluation, and whether the policy applies to it.
type Found struct {
	Revision uint64
	Applies  bool
}

// ExpireMatched acts on the evaluation of an expiry policy: it gives notice, withdraws it or deletes,
// unless the object or the policy was changed.
type ExpireMatched struct {
	batch
	m     Matched
	reply coppicev1.ExpireReply
	given []uid.UID
}

var _ writer.Work = (*ExpireMatched)(nil)

// NewExpireMatched returns the command.
func NewExpireMatched(m Matched) *ExpireMatched {
	return &ExpireMatched{batch: batch{left: m.Objects}, m: m}
}

// Given returns the objects for which the policy has given notice, once the command is done.
func (e *ExpireMatched) Given() []uid.UID { return e.given }

// Do implements writer.Work.
func (e *ExpireMatched) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	p := d.Tx.Node(e.m.Rule.Policy)
	if p == nil || p.Revision != e.m.PolicyRevision || p.Terminating() {
		return true, nil
	}
	return e.eachNode(d, func(n *lifecycle.Node) bool {
		found := e.m.Found[n.UID]
		events, notice, decision := lifecycle.ExpireMatching(d.Ctx, n, d.Tx.Notices(n.UID), lifecycle.Match{
			Revision: found.Revision, Applies: found.Applies, At: e.m.At, Seen: e.m.Seen, Rule: e.m.Rule,
		})
		if d.Tx.TakeUnreadable() != nil {
			return true // B8.1
		}
		if notice.Policy != "" && !d.Notice(n.UID, notice) {
			return false
		}
		if _, ok := d.Add(events, 0); !ok {
			return false
		}
		switch decision {
		case lifecycle.Expired:
			e.reply.Expired++
		case lifecycle.NoticeGiven:
			e.given = append(e.given, n.UID)
		}
		return true
	}), nil
}

// Reply implements writer.Work.
func (e *ExpireMatched) Reply(d *writer.OpenCommit) proto.Message {
	e.reply.Revision = d.Revision()
	return &e.reply
}

// NewReply implements writer.Work.
func (*ExpireMatched) NewReply() proto.Message { return &coppicev1.ExpireReply{} }

// WithdrawNotices withdraws notices of objects whose policy does not exist any more, or was changed.
type WithdrawNotices struct {
	batch
	reply coppicev1.ExpireReply
}

var _ writer.Work = (*WithdrawNotices)(nil)

// NewWithdrawNotices returns the command for these objects.
func NewWithdrawNotices(objects []uid.UID) *WithdrawNotices {
	return &WithdrawNotices{batch: batch{left: objects}}
}

// Do implements writer.Work.
func (w *WithdrawNotices) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	return w.eachNode(d, func(n *lifecycle.Node) bool {
		for _, given := range d.Tx.Notices(n.UID) {
			if given.Withdrawn(d.Tx.Node(given.Policy), d.Ctx.Now) && !d.Notice(n.UID, lifecycle.Notice{Policy: given.Policy}) {
				return false
			}
		}
		return true
	}), nil
}

// Reply implements writer.Work.
func (w *WithdrawNotices) Reply(d *writer.OpenCommit) proto.Message {
	w.reply.Revision = d.Revision()
	return &w.reply
}

// NewReply implements writer.Work.
func (*WithdrawNotices) NewReply() proto.Message { return &coppicev1.ExpireReply{} }
