package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Evict is the contents finalizer's request to delete what is in namespaces, or
// of kinds, that are being deleted.
type Evict struct {
	grouped
	reply coppicev1.EvictReply
}

var _ writer.Work = (*Evict)(nil)

// NewEvict reads the request.
func NewEvict(r *coppicev1.EvictRequest) (*Evict, *lifecycle.Error) {
	b, err := newGrouped(r.GetGroups())
	if err != nil {
		return nil, err
	}
	return &Evict{grouped: b}, nil
}

// Do implements writer.Work.
func (e *Evict) Do(d *writer.Decision) (bool, *lifecycle.Error) {
	return e.eachOwned(d, func(container, n *lifecycle.Node) []lifecycle.Event {
		return lifecycle.Evict(d.Ctx, container, n)
	}, func() { e.reply.Evicted++ }), nil
}

// Reply implements writer.Work.
func (e *Evict) Reply(d *writer.Decision) proto.Message {
	e.reply.Revision = d.Revision()
	return &e.reply
}

// NewReply implements writer.Work.
func (*Evict) NewReply() proto.Message { return &coppicev1.EvictReply{} }
