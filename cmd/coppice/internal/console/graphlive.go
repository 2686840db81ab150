package console

import (
	"context"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/chart"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
)

// liveGraph is a graph that a page follows.
type liveGraph struct {
	r    *realm
	m    *graph
	send func([]byte)
	sent sentGraph

	// ask is the last one that could be answered; nil if there was none.
	ask    *view.GraphAsk
	labels []string
}

// followGraph calls send with the messages of a graph, at once and after each change of it, until ctx ends or the user may not
// read the realm any more. asks receives what the page wants to see instead; refuse is called with what is wrong with that,
// and the page goes on with what it has.
func (r *realm) followGraph(ctx context.Context, a view.Ask, asks <-chan view.Ask, send func([]byte), refuse func(error)) error {
	release, err := r.user.takeGraph()
	if err != nil {
		return err
	}
	defer release()
	m, leave := r.mirror()
	defer leave()
	changed := m.Watch()
	defer changed.Close()
	look := time.NewTicker(listAge)
	defer look.Stop()
	g := &liveGraph{r: r, m: m, send: send, sent: sentGraph{id: a.ID}}
	for next := &a; ctx.Err() == nil; {
		if next != nil {
			if err := g.change(next.Graph); err != nil {
				refuse(err)
			}
		}
		var took time.Duration
		if g.ask != nil {
			if took, err = g.draw(ctx); err != nil {
				return err
			}
		}
		if next, err = g.rest(ctx, took, asks, changed.C, look.C); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rest waits until a picture is to be drawn: when the graph has changed, until all objects are read, or when the page asks for
// something else, which it returns. After a picture that took a time, it waits for a multiple of it, and for less if the page asks.
func (g *liveGraph) rest(ctx context.Context, took time.Duration, asks <-chan view.Ask, changed <-chan struct{}, look <-chan time.Time) (*view.Ask, error) {
	wait := max(graphEvery, graphRest*took)
	if g.sent.header.Loading {
		wait = graphLoading
	}
	rested, asked := time.NewTimer(wait), time.NewTimer(max(askEvery, askRest*took))
	defer rested.Stop()
	defer asked.Stop()
	var next <-chan view.Ask   // asks, after the time for them
	var news <-chan struct{}   // changed, after the time for it
	var again <-chan time.Time // look, after that time
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-asked.C:
			next = asks
		case a := <-next:
			return &a, nil
		case <-rested.C:
			if g.sent.header.Loading {
				return nil, nil
			}
			news, again = changed, look
		case <-news:
			return nil, nil
		case <-again: // also for what is not in the mirror, such as why it is not up to date
			return nil, g.current(ctx)
		}
	}
}

// current returns an error if the user may not read the realm any more, or if it was deleted.
func (g *liveGraph) current(ctx context.Context) error {
	if err := g.r.check(ctx); err != nil {
		return err
	}
	if g.r.replaced.Load() {
		return g.r.again()
	}
	return nil
}

// change makes it show something else.
func (g *liveGraph) change(a *view.GraphAsk) error {
	if a == nil {
		a = &view.GraphAsk{}
	}
	labels, err := checkGraphAsk(a)
	if err != nil {
		return err
	}
	if g.ask != nil && (g.ask.Namespace != a.Namespace || g.ask.Labels != a.Labels || g.ask.Root != a.Root) {
		g.sent = sentGraph{id: g.sent.id} // another picture, which the page shows from the beginning
	}
	g.ask, g.labels = a, labels
	return nil
}

// draw sends what has changed. It returns how long it took to find that out.
func (g *liveGraph) draw(ctx context.Context) (took time.Duration, err error) {
	g.m.SetPartial(g.r.partial.Load())
	header := view.GraphFrame{Most: graphMost, Partial: g.r.partial.Load()}
	header.Trouble, _ = g.r.trouble.get()
	if !g.m.Loaded() {
		g.drawEmpty(header)
		return 0, nil
	}
	var message []byte
	found := false
	took, err = g.r.user.all.s.drawers.use(ctx, func(d *drawer) {
		var ask chart.Ask
		if ask, found = chartAsk(g.m.Mirror, g.ask); found {
			message = d.draw(g, &ask, header)
		}
	})
	switch {
	case err != nil:
	case !found:
		header.Outside = []string{g.ask.Root}
		g.drawEmpty(header)
	case message != nil: // the drawer is free meanwhile: a browser may read slowly
		g.send(message)
	}
	return took, err
}

// drawEmpty sends that there is nothing to show, or nothing yet.
func (g *liveGraph) drawEmpty(header view.GraphFrame) {
	p := &chart.Picture{}
	if header.Revision = g.m.Revision(); !g.m.Loaded() {
		header.Loading, p.Objects = true, int(g.m.Objects())
	}
	if message := g.sent.next(p, nil, nil, nil, header); message != nil {
		g.send(message)
	}
}
