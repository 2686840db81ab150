package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Expire is the scanner's request to delete objects that have expired.
type Expire struct {
	batch
	decide func(*lifecycle.Context, *lifecycle.Node) ([]lifecycle.Event, lifecycle.Expiry)
	reply  coppicev1.ExpireReply
}

var _ writer.Work = (*Expire)(nil)

// NewExpire checks the request.
func NewExpire(r *coppicev1.ExpireRequest) (*Expire, *lifecycle.Error) {
	seen, when := lifecycle.Time(r.GetNow()), make(map[uid.UID]lifecycle.Time, len(r.GetObjects()))
	e := &Expire{decide: func(ctx *lifecycle.Context, n *lifecycle.Node) ([]lifecycle.Event, lifecycle.Expiry) {
		return lifecycle.Expire(ctx, n, when[n.UID], seen)
	}}
	for i, o := range r.GetObjects() {
		u, rest, err := uid.CutBytes(o.GetUid())
		if err != nil || len(rest) > 0 {
			return nil, lifecycle.ErrBadRequest("objects[%d].uid: %v", i, uid.ErrMalformed)
		}
		e.left, when[u] = append(e.left, u), lifecycle.Time(o.GetAt())
	}
	return e, nil
}

// Do implements writer.Work.
func (e *Expire) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	var decision lifecycle.Expiry
	return e.each(d, func(n *lifecycle.Node) (events []lifecycle.Event) {
		events, decision = e.decide(d.Ctx, n)
		return events
	}, func(uid.UID, bool) {
		switch decision {
		case lifecycle.Expired:
			e.reply.Expired++
		case lifecycle.NotDue:
			e.reply.NotDue++
		case lifecycle.ExpiryProtected:
			e.reply.Protected++
		case lifecycle.ExpiryBraked:
			e.reply.Braked++
		}
	}), nil
}

// Reply implements writer.Work.
func (e *Expire) Reply(d *writer.OpenCommit) proto.Message {
	e.reply.Revision = d.Revision()
	return &e.reply
}

// NewReply implements writer.Work.
func (*Expire) NewReply() proto.Message { return &coppicev1.ExpireReply{} }
