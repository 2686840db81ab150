package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// List measures a client that lists objects page by page.
type List struct{ Objects int }

// Run creates the objects, and measures a list.
func (b List) Run(ctx context.Context, d *Deployment) (*Result, error) {
	r := &Result{Name: "list", Objects: b.Objects}
	p, err := d.Fill(ctx, b.Objects)
	if err != nil {
		return nil, err
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	listed, next := 0, ""
	for {
		start := time.Now()
		page, err := p.Objects.ListPage(ctx, client.Limit(BatchSize), client.Continue(next))
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		listed += len(page.Objects)
		if next = page.Continue; next == "" {
			break
		}
	}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Latencies(fmt.Sprintf("a page of %d", BatchSize), took)
	if listed != b.Objects {
		return nil, fmt.Errorf("wrong outcome: %d objects were listed, want %d", listed, b.Objects)
	}
	return r, nil
}

// Fill creates n objects in a namespace of their own.
func (d *Deployment) Fill(ctx context.Context, n int) (Place, error) {
	p, err := d.NewPlace(ctx)
	if err != nil {
		return p, err
	}
	return p, d.Populate(ctx, p, n)
}

// Watch measures watchers that receive the events of objects while they are created.
type Watch struct{ Objects, Watchers int }

// Run creates the objects, and measures the time until each watcher has received
// the event of each object.
func (b Watch) Run(ctx context.Context, d *Deployment) (*Result, error) {
	if b.Watchers < 1 {
		return nil, fmt.Errorf("%d watchers: at least 1 is needed", b.Watchers)
	}
	r := &Result{Name: fmt.Sprintf("watch, %d watchers", b.Watchers), Objects: b.Objects}
	p, err := d.NewPlace(ctx)
	if err != nil {
		return nil, err
	}
	w := &watchers{delays: make([][]time.Duration, b.Watchers), want: b.Objects}
	g, running := errgroup.WithContext(ctx)
	for i := range w.delays {
		g.Go(func() error { return w.watch(running, p.Objects, i) })
	}
	// The measurement begins when each watcher has received an event.
	err = poll.Until(running, func() (bool, error) {
		_, err := p.Objects.Create(ctx, p.Dependent())
		return int(w.watching.Load()) == b.Watchers, err
	})
	if err != nil {
		return nil, cmp.Or(g.Wait(), err)
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	g.Go(func() error {
		return d.InBatches(running, "creating objects", b.Objects, func(ctx context.Context, from, to int) error {
			list := make([]*coppicev1.Object, to-from)
			for i := range list {
				list[i] = p.Dependent()
				w.sent.Store(list[i].GetMetadata().GetName(), time.Now())
			}
			return FirstError(p.Objects.CreateBatch(ctx, list))
		})
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Latencies("from the command to the watcher", slices.Concat(w.delays...))
	return r, nil
}

// watchers receive the events of created objects.
type watchers struct {
	watching atomic.Int32      // watchers that have received an event
	want     int               // objects whose event each watcher has to receive
	sent     sync.Map          // when each object was sent, by name
	delays   [][]time.Duration // from sending to the event, by watcher
}

// watch runs the i-th watcher until it has received all events.
func (w *watchers) watch(ctx context.Context, objects client.ResourceClient, i int) error {
	watching := false
	for e, err := range objects.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case e.Type != client.Added:
			continue
		}
		if !watching {
			watching = true
			w.watching.Add(1)
		}
		at, ok := w.sent.Load(e.Object.GetMetadata().GetName())
		if !ok {
			continue
		}
		if w.delays[i] = append(w.delays[i], time.Since(at.(time.Time))); len(w.delays[i]) == w.want {
			return nil
		}
	}
	return ctx.Err()
}
