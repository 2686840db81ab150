package command

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/writer"
)

// batch is a command on many objects that are independent of each other. If the commit is
// full, it continues in the next one. It has no command id, because its repetition is
// harmless.
type batch struct {
	left    []uid.UID
	fetched int // number of objects of left that were read ahead
	ahead   int // number of objects to read ahead next
}

// readAhead is the maximum number of nodes that are read at once, with the nodes and counters of
// their owners, and firstAhead the number of the first. Wide objects are fewer.
const (
	readAhead  = 4096
	firstAhead = 256
)

// fetch reads objects ahead.
func (b *batch) fetch(d *writer.OpenCommit) {
	if b.ahead == 0 {
		b.ahead = firstAhead
	}
	ahead := b.left[:min(b.ahead, len(b.left))]
	d.Tx.Prefetch(ahead)
	b.fetched = lifecycle.Within(d.Tx, ahead)
	d.Tx.PrefetchOwners(ahead[:b.fetched])
	if b.fetched == len(ahead) {
		b.ahead = min(readAhead, 4*b.ahead)
	} else {
		b.ahead = 2 * b.fetched
	}
}

// each calls decide for the objects in order, until their events do not fit into the
// commit. It skips objects that do not exist.
func (b *batch) each(d *writer.OpenCommit, decide func(*lifecycle.Node) []lifecycle.Event, decided func(u uid.UID, acted bool)) (finished bool) {
	return b.eachNode(d, func(n *lifecycle.Node) bool {
		events := decide(n)
		if d.Tx.TakeUnreadable() != nil {
			events = nil // B8.1
		}
		_, ok := d.Add(events, 0)
		if ok {
			decided(n.UID, len(events) > 0)
		}
		return ok
	})
}

// eachNode calls act for the objects in order, until it returns false because the commit is full. It
// skips objects that do not exist.
func (b *batch) eachNode(d *writer.OpenCommit, act func(*lifecycle.Node) (fits bool)) (finished bool) {
	for len(b.left) > 0 {
		if d.Crowded() {
			b.fetched = 0 // the next commit reads again
			return false
		}
		if b.fetched == 0 {
			b.fetch(d)
		}
		if n := d.Tx.Node(b.left[0]); n != nil && !act(n) {
			b.fetched = 0 // the next commit reads again
			return false
		}
		b.left = b.left[1:]
		b.fetched--
	}
	return true
}

// ReplyInLog implements writer.Work: the command has no id, so that no reply is stored.
func (*batch) ReplyInLog() bool { return true }

// Propose is a processor's proposal.
type Propose struct {
	batch
	strip []uid.UID
	phase int
	reply coppicev1.ProposeReply
}

var _ writer.Work = (*Propose)(nil)

// NewPropose checks the request.
func NewPropose(r *coppicev1.ProposeRequest) (*Propose, *lifecycle.Error) {
	collect, err := uid.Unpack(nil, r.GetCollect())
	if err != nil {
		return nil, lifecycle.ErrBadRequest("collect: %v", err)
	}
	strip, err := uid.Unpack(nil, r.GetStrip())
	if err != nil {
		return nil, lifecycle.ErrBadRequest("strip: %v", err)
	}
	return &Propose{batch: batch{left: collect}, strip: strip}, nil
}

// Do implements writer.Work.
func (p *Propose) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	if p.phase == 0 {
		if !p.each(d, func(n *lifecycle.Node) []lifecycle.Event { return lifecycle.Collect(d.Ctx, n) }, func(u uid.UID, acted bool) {
			switch n := d.Tx.Node(u); {
			case acted:
				p.reply.Collected++
			case n.Terminating(): // it was collected before
			case lifecycle.Braked(d.Tx, n) || ownerBraked(d.Tx, n):
				p.reply.Braked++ // it stays pending until the brake is released
			default:
				p.reply.Refused = append(p.reply.Refused, u...)
			}
		}) {
			return false, nil
		}
		p.phase, p.left = 1, p.strip
	}
	return p.each(d, func(n *lifecycle.Node) []lifecycle.Event { return lifecycle.Strip(d.Ctx, n) }, func(u uid.UID, acted bool) {
		switch {
		case acted:
			p.reply.Stripped++
		case !d.Tx.Node(u).Terminating():
			p.reply.Refused = append(p.reply.Refused, u...)
		}
	}), nil
}

// ownerBraked reports whether the brake of an owner of n is tripped. If it was proposed to
// collect n after that owner, n is evaluated again when the owner is removed.
func ownerBraked(v lifecycle.View, n *lifecycle.Node) bool {
	return slices.ContainsFunc(n.Owners, func(r lifecycle.OwnerReference) bool {
		owner := v.Node(r.UID)
		return owner != nil && lifecycle.Braked(v, owner)
	})
}

// Reply implements writer.Work.
func (p *Propose) Reply(d *writer.OpenCommit) proto.Message {
	p.reply.Revision = d.Revision()
	return &p.reply
}

// NewReply implements writer.Work.
func (*Propose) NewReply() proto.Message { return &coppicev1.ProposeReply{} }

// grouped is a batch in which each object has an owner.
type grouped struct {
	batch
	owners []uid.UID // of each in left
}

func newGrouped(groups []*coppicev1.DependentsOf) (b grouped, refusal *lifecycle.Error) {
	for i, g := range groups {
		owner, rest, err := uid.CutBytes(g.GetOwner())
		if err != nil || len(rest) > 0 {
			return b, lifecycle.ErrBadRequest("groups[%d].owner: %v", i, uid.ErrMalformed)
		}
		if b.left, err = uid.Unpack(b.left, g.GetDependents()); err != nil {
			return b, lifecycle.ErrBadRequest("groups[%d].dependents: %v", i, err)
		}
		for len(b.owners) < len(b.left) {
			b.owners = append(b.owners, owner)
		}
	}
	return b, nil
}

// eachOwned is each, with the owner of each object. It skips objects whose owner does not
// exist.
func (b *grouped) eachOwned(d *writer.OpenCommit, decide func(owner, n *lifecycle.Node) []lifecycle.Event, acted func()) (finished bool) {
	return b.each(d, func(n *lifecycle.Node) []lifecycle.Event {
		owner := d.Tx.Node(b.owners[len(b.owners)-len(b.left)])
		if owner == nil {
			return nil
		}
		return decide(owner, n)
	}, func(_ uid.UID, did bool) {
		if did {
			acted()
		}
	})
}

// Orphan is the orphan finalizer's request to remove the references of dependents to their
// owners.
type Orphan struct {
	grouped
	reply coppicev1.OrphanReply
}

var _ writer.Work = (*Orphan)(nil)

// NewOrphan checks the request.
func NewOrphan(r *coppicev1.OrphanRequest) (*Orphan, *lifecycle.Error) {
	b, err := newGrouped(r.GetGroups())
	if err != nil {
		return nil, err
	}
	return &Orphan{grouped: b}, nil
}

// Do implements writer.Work.
func (o *Orphan) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	return o.eachOwned(d, func(owner, n *lifecycle.Node) []lifecycle.Event {
		return lifecycle.OrphanFrom(d.Ctx, owner, n)
	}, func() { o.reply.Orphaned++ }), nil
}

// Reply implements writer.Work.
func (o *Orphan) Reply(d *writer.OpenCommit) proto.Message {
	o.reply.Revision = d.Revision()
	return &o.reply
}

// NewReply implements writer.Work.
func (*Orphan) NewReply() proto.Message { return &coppicev1.OrphanReply{} }

// Kept has, for each owner whose dependents were examined, the dependents that are kept by
// unknown owners alone: see lifecycle.Finish.
type Kept map[uid.UID][]uid.UID

// Finish is the request to remove a built-in finalizer that has done its part from objects. It has
// no effect on coppice.dev/protection, which Cover removes.
type Finish struct {
	batch
	finalizer string
	kept      Kept
	reply     coppicev1.FinishReply
}

var _ writer.Work = (*Finish)(nil)

// NewFinish checks the request. kept may be nil.
func NewFinish(r *coppicev1.FinishRequest, kept Kept) (*Finish, *lifecycle.Error) {
	if !lifecycle.IsBuiltinFinalizer(r.GetFinalizer()) {
		return nil, lifecycle.ErrBadRequest("finalizer: %q is not built in; external finalizers are removed by the verb removefinalizer", r.GetFinalizer())
	}
	left, err := uid.Unpack(nil, r.GetUids())
	if err != nil {
		return nil, lifecycle.ErrBadRequest("uids: %v", err)
	}
	return &Finish{batch: batch{left: left}, finalizer: r.GetFinalizer(), kept: kept}, nil
}

// Do implements writer.Work.
func (f *Finish) Do(d *writer.OpenCommit) (bool, *lifecycle.Error) {
	return f.each(d, func(n *lifecycle.Node) []lifecycle.Event {
		// The commit examines at most lifecycle.MaxExamined dependents. Further owners are
		// refused, and the propagator examines them again.
		kept := f.kept[n.UID]
		if len(kept) > 0 {
			if !d.Examine(len(kept)) {
				return nil
			}
			d.Tx.Prefetch(kept)
		}
		return lifecycle.Finish(d.Ctx, n, f.finalizer, kept)
	}, func(u uid.UID, acted bool) {
		switch {
		case acted:
			f.reply.Finished++
		case d.Tx.Node(u).HasFinalizer(f.finalizer):
			f.reply.Refused = append(f.reply.Refused, u...)
		}
	}), nil
}

// Reply implements writer.Work.
func (f *Finish) Reply(d *writer.OpenCommit) proto.Message {
	f.reply.Revision = d.Revision()
	return &f.reply
}

// NewReply implements writer.Work.
func (*Finish) NewReply() proto.Message { return &coppicev1.FinishReply{} }
