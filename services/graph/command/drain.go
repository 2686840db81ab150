package command

import (
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// Drain is the contents finalizer's request to delete the contents of namespaces or kinds
// that are being deleted.
type Drain struct {
	grouped
	reply coppicev1.DrainReply
}

var _ writer.Work = (*Drain)(nil)

// NewDrain checks the request.
func NewDrain(r *coppicev1.DrainRequest) (*Drain, *lifecycle.Error) {
	b, err := newGrouped(r.GetGroups())
	if err != nil {
		return nil, err
	}
	return &Drain{grouped: b}, nil
}

// Do implements writer.Work.
func (e *Drain) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	var of *lifecycle.Node // whose pods
	var pods lifecycle.Time
	return e.eachOwned(d, func(container, n *lifecycle.Node) []lifecycle.Event {
		if of == nil || of.UID != container.UID {
			// One read for each group suffices: no Pod is created within a commit, and an object
			// that waits for a Pod which is removed here is published again.
			of, pods = container, lifecycle.PodsUntil(d.Tx, container)
		}
		return lifecycle.DrainAfter(d.Ctx, container, n, pods)
	}, func() { e.reply.Drained++ }), nil
}

// Reply implements writer.Work.
func (e *Drain) Reply(d *writer.OpenCommit) proto.Message {
	e.reply.Revision = d.Revision()
	return &e.reply
}

// NewReply implements writer.Work.
func (*Drain) NewReply() proto.Message { return &coppicev1.DrainReply{} }
