package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Create is callers who make objects, a batch at a time each.
type Create struct{ Objects, Callers, Batch int }

// Run makes the objects.
func (b Create) Run(ctx context.Context, d *Deployment) (*Result, error) {
	return commands{"create", b.Objects, b.Callers, b.Batch}.run(ctx, d, func(ctx context.Context, objects *client.Objects, list []*coppicev1.Object) error {
		return firstError(objects.CreateAll(ctx, list, client.WriteOptions{}))
	}, nil)
}

// Update is callers who update objects, a batch at a time each.
type Update struct{ Objects, Callers, Batch int }

// Run makes the objects, and updates each of them once.
func (b Update) Run(ctx context.Context, d *Deployment) (*Result, error) {
	return commands{"update", b.Objects, b.Callers, b.Batch}.run(ctx, d, func(ctx context.Context, objects *client.Objects, list []*coppicev1.Object) error {
		for _, o := range list {
			o.Metadata.Labels["updated"] = "yes"
		}
		return firstError(objects.UpdateAll(ctx, list, client.WriteOptions{}))
	}, func(ctx context.Context, objects *client.Objects, list []*coppicev1.Object) error {
		return firstError(objects.CreateAll(ctx, list, client.WriteOptions{}))
	})
}

// commands are callers who each call with a batch of objects, one call after
// the other.
type commands struct {
	name                    string
	objects, callers, batch int
}

type call func(ctx context.Context, objects *client.Objects, list []*coppicev1.Object) error

// run measures calls. What prepare does with the same objects is not measured.
func (b commands) run(ctx context.Context, d *Deployment, measured, prepare call) (*Result, error) {
	if b.callers < 1 || b.batch < 1 {
		return nil, fmt.Errorf("%d callers with batches of %d: at least one of each is needed", b.callers, b.batch)
	}
	r := &Result{Name: fmt.Sprintf("%s, %d callers, batches of %d", b.name, b.callers, b.batch), Objects: b.objects}
	namespace := "bench-" + randomName()
	owner, err := createOwner(ctx, d.Client, namespace)
	if err != nil {
		return nil, err
	}
	objects := d.Client.Objects(pods, namespace)
	calls := make([][]*coppicev1.Object, 0, b.objects/b.batch+1)
	for made := 0; made < b.objects; made += b.batch {
		list := make([]*coppicev1.Object, min(b.batch, b.objects-made))
		for i := range list {
			list[i] = dependent(kept, client.OwnerReferenceOf(owner, true, true))
		}
		calls = append(calls, list)
	}
	if prepare != nil {
		if _, err := b.each(ctx, d, "preparing", objects, calls, prepare); err != nil {
			return nil, err
		}
	}
	m, err := d.start(ctx)
	if err != nil {
		return nil, err
	}
	took, err := b.each(ctx, d, r.Name, objects, calls, measured)
	if err != nil {
		return nil, err
	}
	if err := m.stop(ctx, r); err != nil {
		return nil, err
	}
	r.latencies("a call", took)
	if err := d.detailSync(r, int(r.BytesLogged/max(1, r.Commits))); err != nil {
		return nil, err
	}
	return r, d.count(ctx, namespace, "", b.objects)
}

// each calls with all batches, so many at once, and returns how long each took.
func (b commands) each(ctx context.Context, d *Deployment, what string, objects *client.Objects, calls [][]*coppicev1.Object, do call) ([]time.Duration, error) {
	var (
		mu   sync.Mutex
		took = make([]time.Duration, 0, len(calls))
		next = make(chan []*coppicev1.Object)
	)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(next)
		for i, list := range calls {
			select {
			case next <- list:
			case <-ctx.Done():
				return ctx.Err()
			}
			if i%64 == 0 {
				d.progress(what, i, len(calls))
			}
		}
		return nil
	})
	for range b.callers {
		g.Go(func() error {
			for list := range next {
				start := time.Now()
				if err := do(ctx, objects, list); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
			return nil
		})
	}
	return took, g.Wait()
}

// count checks how many objects a list shows.
func (d *Deployment) count(ctx context.Context, namespace, selector string, want int) error {
	n := 0
	for _, err := range d.Client.Objects(pods, namespace).List(ctx, client.ListOptions{LabelSelector: selector}) {
		if err != nil {
			return err
		}
		n++
	}
	if n != want {
		return fmt.Errorf("wrong outcome: a list shows %d objects, want %d", n, want)
	}
	return nil
}
