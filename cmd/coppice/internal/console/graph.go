package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/mirror"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// The limits of graphs.
const (
	// graphFit is how many nodes a graph shows by default, and graphMost how many at most.
	graphFit  = 120_000
	graphMost = 150_000
	// graphEvery is the shortest time between two pictures. After a picture that took longer, the next one begins after
	// graphRest times what it took.
	graphEvery = 150 * time.Millisecond
	graphRest  = 3
	// askEvery and askRest are the same when the page asks for something else.
	askEvery = 50 * time.Millisecond
	askRest  = 1
	// graphLoading is how often a page learns how many objects were read, until all were.
	graphLoading = 200 * time.Millisecond
	// drawnAtOnce is how many pictures the console makes at once.
	drawnAtOnce = 2
	// graphOthers is how many lines to other owners a graph has at most.
	graphOthers = 50_000
	// maxGraphs is how many graphs pages follow at once: what was sent of each takes up to 10 MB. maxGraphsOfUser are those of
	// a user.
	maxGraphs       = 64
	maxGraphsOfUser = 16
)

// drawer makes pictures, one at a time. Its memory is used again: as much as the largest graph has needed.
type drawer struct {
	graph   chart.Graph
	chart   chart.Chart
	numbers []uint32
	named   []chart.Named
	at      []int32
}

// drawers are those that are free.
type drawers chan *drawer

func newDrawers() drawers {
	ds := make(drawers, drawnAtOnce)
	for range drawnAtOnce {
		ds <- &drawer{}
	}
	return ds
}

// takeGraph takes a place for a graph, which release gives back.
func (u *user) takeGraph() (release func(), err error) {
	select {
	case u.graphs <- struct{}{}:
	default:
		return nil, &client.Error{Reason: client.ErrTooManyRequests, Message: fmt.Sprintf("your user has %d graphs open already; close some, and load this page again", maxGraphsOfUser)}
	}
	select {
	case u.all.s.graphs <- struct{}{}:
	default:
		<-u.graphs
		return nil, &client.Error{Reason: client.ErrTooManyRequests, Message: fmt.Sprintf("the users of this console have %d graphs open already; load this page again later", maxGraphs)}
	}
	return func() {
		<-u.all.s.graphs
		<-u.graphs
	}, nil
}

// use waits for a drawer, and returns how long draw took with it.
func (ds drawers) use(ctx context.Context, draw func(*drawer)) (took time.Duration, err error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case d := <-ds:
		defer func() { ds <- d }()
		began := time.Now()
		draw(d)
		return time.Since(began), nil
	}
}

// draw returns the message that makes a page show what it has asked for, nil if it shows that already.
func (d *drawer) draw(g *liveGraph, ask *chart.Ask, header view.GraphFrame) []byte {
	g.m.Graph(g.labels, &d.graph)
	p := d.chart.Arrange(&d.graph, ask)
	header.Revision = d.graph.Revision
	if g.ask.Root != "" && g.m.Number(g.ask.Root) == 0 { // what names it as its owner is shown
		header.Outside = append(header.Outside, g.ask.Root)
	}
	outside := map[uint32]bool{}
	for _, number := range p.Outside {
		outside[number] = true
	}
	for _, uid := range g.ask.Show {
		if number := g.m.Number(uid); number == 0 || outside[number] {
			header.Outside = append(header.Outside, uid)
		}
	}
	d.numbers, d.named = slices.Grow(d.numbers[:0], len(p.Nodes)), slices.Grow(d.named[:0], len(p.Nodes))[:len(p.Nodes)]
	for i := range p.Nodes {
		n := uint32(0)
		if k := p.Nodes[i].Key; !k.Group && !k.Rest {
			n = k.Object
		}
		d.numbers = append(d.numbers, n)
	}
	g.m.Named(d.numbers, d.named)
	if more := len(d.graph.Places) - len(d.at); more > 0 {
		d.at = append(d.at, make([]int32, more)...)
	}
	return g.sent.next(p, d.graph.Kinds, d.named, d.at, header)
}

// nextPage replies with the next object in a state.
func (r *realm) nextPage(ctx context.Context, q *http.Request) (any, error) {
	state, known := graphStates[q.FormValue("state")]
	if !known {
		return nil, badRequest("state=%s is not a state of objects that exist", clip(q.FormValue("state")))
	}
	a := view.GraphAsk{Namespace: q.FormValue("namespace"), Labels: q.FormValue("labels"), Root: q.FormValue("root")}
	labels, err := checkGraphAsk(&a)
	if err != nil {
		return nil, err
	}
	m, leave := r.mirror()
	defer leave()
	release, err := r.user.finding.take(ctx) // so that many requests of a user keep no pictures of others waiting
	if err != nil {
		return nil, err
	}
	defer release()
	named := make([]chart.Named, 1)
	_, err = r.user.all.s.drawers.use(ctx, func(d *drawer) {
		ask, found := chartAsk(m.Mirror, &a)
		if !found {
			return
		}
		m.Graph(labels, &d.graph)
		m.Named([]uint32{d.chart.Next(&d.graph, &ask.Scope, state, m.Number(q.FormValue("after")))}, named)
	})
	if err != nil {
		return nil, err
	}
	return view.GraphNext{UID: named[0].UID.String()}, nil
}

var graphStates = map[string]chart.State{
	mirror.Present: chart.Present, mirror.Protected: chart.Protected, mirror.Terminating: chart.Terminating, mirror.UnknownOwner: chart.UnknownOwner, mirror.Garbage: chart.Garbage, mirror.Blocked: chart.Blocked,
}
