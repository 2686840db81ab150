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

// BatchSize is the size of batches of objects whose creation is not measured.
const BatchSize = 500

// callers is the number of callers that create such objects.
const callers = 4

// The resources of owners, and of the objects that they own.
var (
	Deployments = client.Resource{Group: "apps", Plural: "deployments"}
	Pods        = client.Resource{Plural: "pods"}
)

// RandomName returns a name that no other object has.
func RandomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// The label that says whether the cascade collects an object, and its values.
const (
	candidate = "want"
	Collected = "collected"
	Kept      = "kept"
)

// spec gives an object about 400 bytes.
const spec = `{"containers":[{"image":"registry.example.com/team/service:1.27.3","name":"main","ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":"500m"}}}],"schedulerName":"batch"}`

// CreateOwner creates an object to own others.
func CreateOwner(ctx context.Context, c *client.Client, namespace string) (*coppicev1.Object, error) {
	r, err := c.Resource(Deployments, namespace).Create(ctx, &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: RandomName()}})
	return r, err
}

// Place is a namespace with an object that owns all others in it.
type Place struct {
	Namespace string
	Owner     *coppicev1.Object
	Objects   client.ResourceClient
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

// CheckSample gets some of the objects that Populate has created in a place: one of each batch.
func (d *Deployment) CheckSample(ctx context.Context, p Place) error {
	names := p.sample.names
	return d.InBatches(ctx, "checking", len(names), func(ctx context.Context, from, to int) error {
		for _, name := range names[from:to] {
			if _, err := p.Objects.Get(ctx, name); err != nil {
				return fmt.Errorf("wrong outcome: %w", err)
			}
		}
		return nil
	})
}

// NewPlace creates the owner of a place.
func (d *Deployment) NewPlace(ctx context.Context) (p Place, err error) {
	p.Namespace = "bench-" + RandomName()
	p.sample = &sample{}
	p.Objects = d.Client.Resource(Pods, p.Namespace)
	p.Owner, err = CreateOwner(ctx, d.Client, p.Namespace)
	return p, err
}

// Dependent returns an object that the owner owns.
func (p Place) Dependent() *coppicev1.Object {
	return NewObject(Kept, client.NewOwnerReference(p.Owner, client.WithController(true), client.WithBlockOwnerDeletion(true)))
}

// NewObject returns an object with two labels and these owners.
func NewObject(what string, owners ...*coppicev1.OwnerReference) *coppicev1.Object {
	return &coppicev1.Object{
		ApiVersion: "v1", Kind: "Pod",
		Metadata: &coppicev1.ObjectMeta{
			Name:            RandomName(),
			Labels:          map[string]string{"app": "bench", candidate: what},
			OwnerReferences: owners,
		},
		Spec: []byte(spec),
	}
}

// FirstError returns the error of a batch, or of the first object in it that failed.
func FirstError(results []client.Result, err error) error {
	for _, r := range results {
		err = errors.Join(err, r.Err)
		if err != nil {
			return err
		}
	}
	return err
}

// InBatches calls do for n objects in batches, several at once, and reports progress.
func (d *Deployment) InBatches(ctx context.Context, what string, n int, do func(ctx context.Context, from, to int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	var done atomic.Int64
	for from := 0; from < n; from += BatchSize {
		to := min(from+BatchSize, n)
		g.Go(func() error {
			err := do(ctx, from, to)
			d.c.Progress(what, int(done.Add(int64(to-from))), n)
			return err
		})
	}
	return g.Wait()
}

// Populate creates n objects in a place.
func (d *Deployment) Populate(ctx context.Context, p Place, n int) error {
	return d.InBatches(ctx, "creating objects", n, func(ctx context.Context, from, to int) error {
		list := make([]*coppicev1.Object, 0, to-from)
		for range to - from {
			list = append(list, p.Dependent())
		}
		p.sample.add(list[0].Metadata.Name)
		return FirstError(p.Objects.CreateBatch(ctx, list))
	})
}
