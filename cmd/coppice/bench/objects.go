package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The size of batches and the number of callers for objects whose creation is
// not measured.
const (
	batch   = 500
	callers = 4
)

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	pods        = client.Resource{Plural: "pods"}
)

func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// The label that says whether the cascade collects an object, and its values.
const (
	candidate = "want"
	collected = "collected"
	kept      = "kept"
)

// spec gives an object about 400 bytes.
const spec = `{"containers":[{"image":"registry.example.com/team/service:1.27.3","name":"main","ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":"500m"}}}],"schedulerName":"batch"}`

// createOwner creates an object to own others.
func createOwner(ctx context.Context, c *client.Client, namespace string) (*coppicev1.Object, error) {
	r, err := c.Resource(deployments, namespace).Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: randomName()}})
	return r, err
}

// place is a namespace with an object that owns all others in it.
type place struct {
	namespace string
	owner     *coppicev1.Object
	objects   client.ResourceClient
	sample    *sample
}

// sample is the names of some objects of a place: one of each batch.
type sample struct {
	mu    sync.Mutex
	names []string
}

func (s *sample) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
}

// check gets the objects of the sample.
func (d *Deployment) check(ctx context.Context, p place) error {
	names := p.sample.names
	return d.inBatches(ctx, "checking", len(names), func(ctx context.Context, from, to int) error {
		for _, name := range names[from:to] {
			if _, err := p.objects.Get(ctx, name); err != nil {
				return fmt.Errorf("wrong outcome: %w", err)
			}
		}
		return nil
	})
}

func (d *Deployment) place(ctx context.Context) (p place, err error) {
	p.namespace = "bench-" + randomName()
	p.sample = &sample{}
	p.objects = d.Client.Resource(pods, p.namespace)
	p.owner, err = createOwner(ctx, d.Client, p.namespace)
	return p, err
}

// dependent returns an object that the owner owns.
func (p place) dependent() *coppicev1.Object {
	return dependent(kept, client.NewOwnerReference(p.owner, client.WithController(true), client.WithBlockOwnerDeletion(true)))
}

// dependent returns an object with two labels and these owners.
func dependent(what string, owners ...*coppicev1.OwnerReference) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: "v1", Kind: "Pod",
		Metadata: &coppicev1.ObjectMeta{
			Name:            randomName(),
			Labels:          map[string]string{"app": "bench", candidate: what},
			OwnerReferences: owners,
		},
		Spec: []byte(spec),
	}
}

// firstError returns the error of a batch, or of the first object in it that failed.
func firstError(results []client.Result, err error) error {
	for _, r := range results {
		err = errors.Join(err, r.Err)
		if err != nil {
			return err
		}
	}
	return err
}

// inBatches calls do for n objects in batches, several at once, and reports progress.
func (d *Deployment) inBatches(ctx context.Context, what string, n int, do func(ctx context.Context, from, to int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	var done atomic.Int64
	for from := 0; from < n; from += batch {
		to := min(from+batch, n)
		g.Go(func() error {
			err := do(ctx, from, to)
			d.progress(what, int(done.Add(int64(to-from))), n)
			return err
		})
	}
	return g.Wait()
}

// populate creates n objects in a place.
func (d *Deployment) populate(ctx context.Context, p place, n int) error {
	return d.inBatches(ctx, "creating objects", n, func(ctx context.Context, from, to int) error {
		list := make([]*coppicev1.Object, 0, to-from)
		for range to - from {
			list = append(list, p.dependent())
		}
		p.sample.add(list[0].Metadata.Name)
		return firstError(p.objects.CreateBatch(ctx, list))
	})
}
