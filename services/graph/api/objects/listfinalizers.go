package objects

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Limits of a page of finalizers.
const (
	maxFinalizerObjects = 100_000   // that are read
	maxFinalizerBytes   = 256 << 10 // of names that are counted
)

// ListFinalizers replies with the external finalizers that objects have.
func (s *Replica) ListFinalizers(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.ListFinalizersRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	sees := seesOf(q)
	if sees != nil && r.GetContinue() != "" {
		token, err := s.c.Grants.open(r.GetContinue())
		if err != nil {
			return err
		}
		r.Continue = token
	}
	page, err := newFinalizerPage(&r)
	if err != nil {
		return err
	}
	s.AtLeast(s.Pages, q, 0, func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		page.sees = sees
		reply := page.read(snap)
		if sees == nil || reply.GetContinue() == "" {
			return reply, nil
		}
		var err *lifecycle.Error
		reply.Continue, err = s.c.Grants.seal(reply.GetContinue()) // it names an object
		return reply, err
	})
	return nil
}

// finalizerPage counts the finalizers of some objects, kind by kind in the order of their
// resources.
type finalizerPage struct {
	resource string // the first kind
	after    state.NameCursor
	limit    int
	bytes    int // of the names in byName
	byName   map[string]*coppicev1.FinalizerInUse
	sees     func(*lifecycle.Kind, *lifecycle.Node) bool // nil for all objects
}

func newFinalizerPage(r *coppicev1.ListFinalizersRequest) (p finalizerPage, err *lifecycle.Error) {
	p = finalizerPage{limit: maxFinalizerObjects, byName: map[string]*coppicev1.FinalizerInUse{}}
	if n := int(r.GetLimit()); n > 0 {
		p.limit = min(n, maxFinalizerObjects)
	}
	var token string
	p.resource, token, _ = strings.Cut(r.GetContinue(), ":")
	p.after, err = serve.DecodeToken(token)
	return p, err
}

func (p *finalizerPage) read(snap *state.Snapshot) *coppicev1.ListFinalizersReply {
	reply := &coppicev1.ListFinalizersReply{Revision: snap.Revision(), Partial: p.sees != nil}
	kinds := slices.Clone(snap.Kinds().All())
	slices.SortFunc(kinds, func(a, b *lifecycle.Kind) int { return cmp.Compare(a.Resource(), b.Resource()) })
	for _, k := range kinds {
		if k.Resource() < p.resource {
			continue
		}
		if k.Resource() > p.resource {
			p.after = state.NameCursor{}
		}
		snap.Nodes(k, "", p.after, func(n *lifecycle.Node) bool {
			if p.limit == 0 || p.bytes >= maxFinalizerBytes {
				if reply.Continue = k.Resource() + ":"; p.after != (state.NameCursor{}) { // and else before its first object
					reply.Continue += serve.EncodeToken(p.after)
				}
				return false
			}
			p.limit--
			p.after = state.NameCursor{Namespace: n.Namespace, Name: n.Name}
			if p.sees == nil || p.sees(k, n) {
				p.count(n)
			}
			return true
		})
		if reply.Continue != "" {
			break
		}
	}
	for _, f := range p.byName {
		reply.Finalizers = append(reply.Finalizers, f)
	}
	slices.SortFunc(reply.Finalizers, func(a, b *coppicev1.FinalizerInUse) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return reply
}

func (p *finalizerPage) count(n *lifecycle.Node) {
	for _, name := range n.Finalizers {
		if lifecycle.IsBuiltinFinalizer(name) {
			continue
		}
		f := p.byName[name]
		if f == nil {
			f = &coppicev1.FinalizerInUse{Name: name}
			p.byName[name] = f
			p.bytes += len(name)
		}
		f.Objects++
		if n.Terminating() {
			f.Terminating++
			if since := int64(n.Marked()); f.GetOldest() == 0 || since < f.GetOldest() {
				f.Oldest = since
			}
		}
	}
}
