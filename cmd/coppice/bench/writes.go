package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Create measures callers of one client that create objects, each one batch at a
// time. With Unbatched the client does not coalesce the calls of concurrent
// callers.
type Create struct {
	Objects, Callers, Batch int
	Unbatched               bool
}

// Run creates the objects and measures the calls.
func (b Create) Run(ctx context.Context, d *Deployment) (*Result, error) {
	if b.Unbatched {
		d.Client = client.New(d.Client.Conn(), client.WithRealm(d.Client.Realm()), client.WithActor(d.Client.Actor()), client.WithoutBatching())
	}
	return commands{"create", b.Objects, b.Callers, b.Batch}.run(ctx, d, func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error {
		if len(list) == 1 {
			_, err := objects.Create(ctx, list[0])
			return err
		}
		return FirstError(objects.CreateBatch(ctx, list))
	})
}

// Update measures callers that update objects, each one batch at a time.
type Update struct{ Objects, Callers, Batch int }

// Run creates the objects, and measures one update of each.
func (b Update) Run(ctx context.Context, d *Deployment) (*Result, error) {
	return commands{"update", b.Objects, b.Callers, b.Batch}.run(ctx, d, func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error {
		for _, o := range list {
			o.Metadata.Labels["updated"] = "yes"
		}
		return FirstError(objects.UpdateBatch(ctx, list))
	}, step{call: func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error {
		return FirstError(objects.CreateBatch(ctx, list))
	}})
}

// Apply measures callers that apply manifests, each one batch at a time.
type Apply struct{ Objects, Callers, Batch int }

// Run applies manifests that create the objects, the same manifests, and changed ones. It measures the last of these,
// and has the rates of the others in the details.
func (b Apply) Run(ctx context.Context, d *Deployment) (*Result, error) {
	return commands{"apply of changed manifests", b.Objects, b.Callers, b.Batch}.run(ctx, d, func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error {
		for _, o := range list {
			o.Spec = []byte(strings.Replace(spec, "service:1.27.3", "service:1.27.4", 1))
		}
		return apply(ctx, objects, list, false)
	}, step{"created", func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error {
		return apply(ctx, objects, list, true)
	}}, step{"unchanged", func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error {
		return apply(ctx, objects, list, false)
	}})
}

// apply applies a batch, which must create all of its objects, or none.
func apply(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object, creates bool) error {
	results, err := objects.ApplyBatch(ctx, list)
	if err := FirstError(results, err); err != nil {
		return err
	}
	if i := slices.IndexFunc(results, func(r client.Result) bool { return r.Created != creates }); i >= 0 {
		return fmt.Errorf("wrong outcome: apply of %s: created is %t", list[i].GetMetadata().GetName(), results[i].Created)
	}
	return nil
}

// commands is a number of callers. Each sends a batch of objects in a call, one
// call after the other.
type commands struct {
	name                    string
	objects, callers, batch int
}

type call func(ctx context.Context, objects client.ResourceClient, list []*coppicev1.Object) error

// step is a call with all objects before those that are measured. Its rate is a detail of the result if it has a name.
type step struct {
	name string
	call call
}

// run measures calls, after steps with the same objects.
func (b commands) run(ctx context.Context, d *Deployment, measured call, before ...step) (*Result, error) {
	r := &Result{Name: fmt.Sprintf("%s, %d callers, batches of %d", b.name, b.callers, b.batch), Objects: b.objects}
	p, err := d.NewPlace(ctx)
	if err != nil {
		return nil, err
	}
	names := make([]string, b.objects)
	for i := range names {
		names[i] = RandomName()
	}
	do := func(c call) func(context.Context, []string) error {
		return func(ctx context.Context, names []string) error {
			list := make([]*coppicev1.Object, len(names))
			for i := range list {
				list[i] = p.Dependent()
				list[i].Metadata.Name = names[i]
			}
			return c(ctx, p.Objects, list)
		}
	}
	for _, step := range before {
		begun := time.Now()
		if _, err := b.each(ctx, d, cmp.Or(step.name, "preparing"), names, do(step.call)); err != nil {
			return nil, err
		}
		if step.name != "" {
			r.Detail(step.name+"_objects_per_second", float64(b.objects)/time.Since(begun).Seconds())
		}
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	took, err := b.each(ctx, d, r.Name, names, do(measured))
	if err != nil {
		return nil, err
	}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Latencies("a call", took)
	if err := d.detailSync(r, int(r.BytesLogged/max(1, r.Commits))); err != nil {
		return nil, err
	}
	if b.batch == 1 && d.local() {
		// Compare with the cost of requests that do nothing.
		echo, err := d.echo(ctx, b.callers, int(r.BytesLogged)/b.objects)
		if err != nil {
			return nil, err
		}
		r.Detail("bare_nats_requests_per_second", echo)
	}
	return r, d.Count(ctx, p.Namespace, b.objects)
}

// each calls do with every batch of names, from all callers at once, and returns
// how long each call took.
func (b commands) each(ctx context.Context, d *Deployment, what string, names []string, do func(context.Context, []string) error) ([]time.Duration, error) {
	var (
		mu   sync.Mutex
		took = make([]time.Duration, 0, len(names)/b.batch+1)
		next = make(chan []string)
	)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(next)
		for names := range slices.Chunk(names, b.batch) {
			select {
			case next <- names:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range b.callers {
		g.Go(func() error {
			for names := range next {
				start := time.Now()
				if err := do(ctx, names); err != nil {
					return err
				}
				mu.Lock()
				took = append(took, time.Since(start))
				d.c.Progress(what, len(took)*b.batch, b.objects)
				mu.Unlock()
			}
			return nil
		})
	}
	return took, g.Wait()
}

// Count checks how many objects a list shows.
func (d *Deployment) Count(ctx context.Context, namespace string, want int) error {
	n := 0
	for _, err := range d.Client.Resource(Pods, namespace).List(ctx) {
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
