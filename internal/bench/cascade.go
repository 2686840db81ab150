// Package bench measures Coppice by its ordinary path: objects made and
// deleted through the API, judged by processors, over NATS, on disk.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Result is what a benchmark found.
type Result struct {
	Name             string  `json:"name"`
	Objects          int     `json:"objects"`
	Seconds          float64 `json:"seconds"`
	ObjectsPerSecond float64 `json:"objects_per_second"`
	// CreateSeconds is how long it took to make the objects.
	CreateSeconds float64 `json:"create_seconds"`
}

// Cascade is the deletion of one owner with many dependents.
//
// Dependents have random names, about 400 bytes, two labels and one owner. One
// in a hundred survives by a second owner; one in a thousand is held by an
// external finalizer, which is answered.
type Cascade struct {
	// Objects is how many dependents there are.
	Objects int
	// Policy is Background, Foreground or Orphan.
	Policy string
	// Progress is told how many of the objects have been made.
	Progress func(made int)

	namespace string // of this run: what others have left behind stays theirs
}

const (
	batch     = 500
	callers   = 4
	finalizer = "bench.coppice.dev/answered"
	survives  = 100
	held      = 1000
)

var (
	deployments = client.Resource{Group: "apps", Plural: "deployments"}
	pods        = client.Resource{Plural: "pods"}
)

// Run makes the objects, deletes their owner, and waits until a fresh list
// shows only the survivors and all work is acknowledged. A wrong outcome is an
// error.
func (b Cascade) Run(ctx context.Context, c *client.Client) (Result, error) {
	r := Result{Name: "cascade-wide-" + b.Policy, Objects: b.Objects}
	b.namespace = "bench-" + randomName()
	owners := c.Objects(deployments, b.namespace)
	victim, err := owners.Create(ctx, owner(), client.WriteOptions{})
	if err != nil {
		return r, err
	}
	keeper, err := owners.Create(ctx, owner(), client.WriteOptions{})
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := b.populate(ctx, c, victim.Object, keeper.Object); err != nil {
		return r, err
	}
	r.CreateSeconds = time.Since(start).Seconds()

	answering, stop := context.WithCancel(ctx)
	answered := make(chan error, 1)
	go func() {
		answered <- c.RunFinalizer(answering, finalizer, func(context.Context, *client.Call) error { return nil }, &client.FinalizerOptions{Concurrency: 64})
	}()
	defer stop()
	if err := awaitConsumer(ctx, c); err != nil {
		return r, err
	}

	start = time.Now()
	_, err = owners.Delete(ctx, victim.Object.GetMetadata().GetName(), &client.DeleteOptions{PropagationPolicy: b.Policy})
	if err != nil {
		return r, err
	}
	if err := b.await(ctx, c, victim.Object); err != nil {
		return r, err
	}
	r.Seconds = time.Since(start).Seconds()
	r.ObjectsPerSecond = float64(b.Objects) / r.Seconds
	stop()
	return r, errors.Join(b.check(ctx, c, keeper.Object), <-answered)
}

func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func owner() *coppicev1.Object {
	return &coppicev1.Object{Metadata: &coppicev1.ObjectMeta{Name: randomName()}}
}

// spec brings an object to about 400 bytes.
const spec = `{"containers":[{"image":"registry.example.com/team/service:1.27.3","name":"main","ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"cpu":"500m"}}}],"schedulerName":"batch"}`

func (b Cascade) populate(ctx context.Context, c *client.Client, victim, keeper *coppicev1.Object) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(callers)
	for made := 0; made < b.Objects; made += batch {
		n := min(batch, b.Objects-made)
		g.Go(func() error {
			objects := make([]*coppicev1.Object, n)
			for i := range objects {
				objects[i] = b.dependent(made+i, victim, keeper)
			}
			results, err := c.Objects(pods, b.namespace).CreateAll(ctx, objects, client.WriteOptions{})
			for _, r := range results {
				err = errors.Join(err, r.Err)
			}
			if b.Progress != nil {
				b.Progress(made + n)
			}
			return err
		})
	}
	return g.Wait()
}

func (b Cascade) dependent(i int, victim, keeper *coppicev1.Object) *coppicev1.Object {
	o := &coppicev1.Object{
		ApiVersion: "v1", Kind: "Pod",
		Metadata: &coppicev1.ObjectMeta{
			Name:            randomName(),
			Labels:          map[string]string{"app": "bench", "fate": "collected"},
			OwnerReferences: []*coppicev1.OwnerReference{client.OwnerReferenceOf(victim, true, true)},
		},
		Spec: []byte(spec),
	}
	switch {
	case i%survives == 1:
		o.Metadata.Labels["fate"] = "kept"
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, client.OwnerReferenceOf(keeper, false, true))
	case i%held == 2:
		o.Metadata.Finalizers = []string{finalizer}
	}
	return o
}

// kept is how many dependents survive, each with references to how many owners.
func (b Cascade) kept() int {
	if b.Policy == "Orphan" {
		return b.Objects
	}
	n := 0
	for i := range b.Objects {
		if i%survives == 1 {
			n++
		}
	}
	return n
}

// await waits until the owner and what had to go with it are gone, and nothing
// is left to be done.
func (b Cascade) await(ctx context.Context, c *client.Client, victim *coppicev1.Object) error {
	js, err := jetstream.New(c.Conn())
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, bus.WorkStream(c.Realm()))
	if err != nil {
		return err
	}
	return poll.Until(ctx, func() (bool, error) {
		_, err := c.Objects(deployments, b.namespace).Get(ctx, victim.GetMetadata().GetName())
		if !errors.Is(err, client.NotFound) {
			return false, err
		}
		if b.Policy != "Orphan" {
			page, err := c.Objects(pods, b.namespace).Page(ctx, client.ListOptions{LabelSelector: "fate=collected", Limit: 1}, "")
			if err != nil || len(page.Objects) > 0 {
				return false, err
			}
		}
		info, err := stream.Info(ctx)
		return err == nil && info.State.Msgs == 0, err
	})
}

// awaitConsumer waits until the external finalizer is there.
func awaitConsumer(ctx context.Context, c *client.Client) error {
	js, err := jetstream.New(c.Conn())
	if err != nil {
		return err
	}
	return poll.Until(ctx, func() (bool, error) {
		_, err := js.Consumer(ctx, bus.FinalizeStream(c.Realm()), bus.FinalizerDurable(finalizer))
		return err == nil, nil
	})
}

// check lists what is left: as many as should be, none terminating, each with
// just the references that should be left.
func (b Cascade) check(ctx context.Context, c *client.Client, keeper *coppicev1.Object) error {
	found := 0
	for o, err := range c.Objects(pods, b.namespace).List(ctx, client.ListOptions{}) {
		if err != nil {
			return err
		}
		found++
		m := o.GetMetadata()
		refs := 0
		if m.GetLabels()["fate"] == "kept" {
			refs = 1
		}
		if m.GetDeletionTimestamp() != nil || len(m.GetOwnerReferences()) != refs ||
			refs == 1 && m.GetOwnerReferences()[0].GetUid() != keeper.GetMetadata().GetUid() {
			return fmt.Errorf("wrong outcome: pod %s is left with %v", m.GetName(), m)
		}
	}
	if want := b.kept(); found != want {
		return fmt.Errorf("wrong outcome: %d pods are left, want %d", found, want)
	}
	return nil
}
