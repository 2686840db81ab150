package streams

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/access"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/api/serve"
	"github.com/coppice-gc/coppice/services/graph/state"
	"github.com/coppice-gc/coppice/services/graph/watch"
)

// WatchGraph serves a watch of the objects of all kinds that the actor may get, without their contents, or a page of those
// that exist now.
func (s *Server) WatchGraph(q *serve.Request, at bus.API) *lifecycle.Error {
	if err := serve.RealmWide(at); err != nil {
		return err
	}
	var r coppicev1.WatchGraphRequest
	if err := q.Read(&r); err != nil {
		return err
	}
	switch id := s.realmID(); {
	case r.GetPage() && r.GetFromRevision() != 0:
		return lifecycle.ErrBadRequest("watchgraph: page goes without from_revision")
	case r.GetContinue() != "" && !r.GetPage():
		return lifecycle.ErrBadRequest("watchgraph: continue goes with page")
	case len(r.GetRealmId()) > 0 && !bytes.Equal(r.GetRealmId(), id): // the realm was created again
		r.FromRevision, r.MinRevision, r.Continue = 0, 0, ""
	}
	if r.GetPage() {
		return s.graphPage(q, &r)
	}
	return s.admitted(at, func() { s.serveGraph(q, at, &r) })
}

// realmID returns the id of the realm's log; nil until the realm has its first commit.
func (s *Server) realmID() []byte { return s.State.Checkpoint().GetRealmId() }

func (s *Server) serveGraph(q *serve.Request, at bus.API, r *coppicev1.WatchGraphRequest) {
	s.sendWatch(q, at, func(ctx context.Context, send func(proto.Message) error) error {
		return s.c.Graph(ctx, watch.GraphTarget{
			View: func() watch.GraphView { return viewOf(q.RulesNow()) },
			From: r.GetFromRevision(), MinRevision: r.GetMinRevision(),
			Heartbeat: s.c.Heartbeat, MaxBytes: batchBytes(q), RealmID: s.realmID, Send: func(b *coppicev1.GraphBatch) error { return send(b) },
		})
	}, func(why *coppicev1.Status) proto.Message { return &coppicev1.GraphBatch{Error: why} })
}

// viewOf returns what rules let an actor see of the graph.
func viewOf(rules *access.Rules) watch.GraphView {
	v := watch.GraphView{Rules: rules.Digest()}
	if !rules.SeesAll() {
		v.Partial, v.Sees = true, rules.Sees
	}
	return v
}

// maxGraphObjects is the number of objects at which a page of the graph looks at most.
const maxGraphObjects = 1 << 17

// graphPage replies with a page of the objects that exist now.
func (s *Server) graphPage(q *serve.Request, r *coppicev1.WatchGraphRequest) *lifecycle.Error {
	rules := q.RulesNow()
	page := graphPage{view: viewOf(rules), rules: rules, bytes: batchBytes(q)}
	token := r.GetContinue()
	if page.view.Partial && token != "" {
		var err *lifecycle.Error
		if token, err = s.c.Tokens.Open(token); err != nil {
			return err
		}
	}
	var after string
	var err *lifecycle.Error
	page.resource, after, _ = strings.Cut(token, ":")
	if page.after, err = serve.DecodeToken(after); err != nil {
		return err
	}
	s.AtLeast(s.Pages, q, r.GetMinRevision(), func(_ context.Context, snap *state.Snapshot) (proto.Message, *lifecycle.Error) {
		b, next := page.read(snap)
		if page.view.Partial && next != "" {
			var err *lifecycle.Error
			if next, err = s.c.Tokens.Seal(next); err != nil { // it can name an object that the actor may not get
				return nil, err
			}
		}
		b.Continue = next
		return b, nil
	})
	return nil
}

// graphPage is a page of the graph.
type graphPage struct {
	view     watch.GraphView
	rules    *access.Rules
	bytes    int              // the maximum
	resource string           // the first kind
	after    state.NameCursor // in the first kind
}

// read returns the page, and the token of the next one; empty after the last.
func (p *graphPage) read(snap *state.Snapshot) (b *coppicev1.GraphBatch, next string) {
	b = &coppicev1.GraphBatch{Revision: snap.Revision(), Partial: p.view.Partial, Rules: p.view.Rules, RealmId: snap.Checkpoint().GetRealmId()}
	kinds := slices.Clone(snap.Kinds().All())
	slices.SortFunc(kinds, func(a, b *lifecycle.Kind) int { return cmp.Compare(a.Resource(), b.Resource()) })
	size, looks := 0, 0
	for _, k := range kinds {
		resource := k.Resource()
		if resource < p.resource || p.view.Partial && !p.rules.MaySomewhere(bus.VerbGet, resource) {
			continue
		}
		var after state.NameCursor
		if resource == p.resource {
			after = p.after
		}
		full := false
		snap.Nodes(k, "", after, func(n *lifecycle.Node) bool {
			if looks == maxGraphObjects {
				full = true
				return false
			}
			looks++
			if p.view.Sees == nil || p.view.Sees(resource, n.Namespace) {
				o := lifecycle.Object{Node: n, Body: &coppicev1.Body{Labels: snap.LabelsOf(n.UID)}}
				c := watch.GraphObject(resource, o)
				length := proto.Size(c)
				if len(b.Changes) > 0 && size+length > p.bytes {
					full = true
					return false
				}
				b.Changes, size = append(b.Changes, c), size+length
			}
			after = state.NameCursor{Namespace: n.Namespace, Name: n.Name}
			return true
		})
		if full {
			if next = resource + ":"; after != (state.NameCursor{}) { // and else before the first object of the kind
				next += serve.EncodeToken(after)
			}
			return b, next
		}
	}
	return b, ""
}
