package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// References measures how long another client waits while objects with many owner references
// to absent owners are created and collected, or while objects with many finalizers are created and deleted.
type References struct {
	Objects, References int
	// Finalizers gives the objects finalizers in place of owner references.
	Finalizers bool
}

// referencesAtOnce is the number of references, or of finalizers, of a request.
const referencesAtOnce = 20_000

// callsTime is how long the other client is measured after objects with finalizers were deleted.
const callsTime = 5 * time.Second

// Run creates the objects, has them collected or deletes them, and measures one client that creates an object, or
// deletes an owner of one object, after the other.
func (b References) Run(ctx context.Context, c bench.Config) (_ *bench.Result, err error) {
	r := &bench.Result{Name: fmt.Sprintf("references, %d absent owners each", b.References), Objects: b.Objects}
	probe := probeCreate
	if b.Finalizers {
		r.Name, probe = fmt.Sprintf("references, %d finalizers each", b.References), probeCascade
	}
	d, err := bench.Deploy(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := withoutGrace(ctx, d); err != nil {
		return nil, err
	}
	namespace, elsewhere := "bench-"+bench.RandomName(), "bench-"+bench.RandomName()
	for range 20 { // what is new takes longer
		if _, err := probe(ctx, d, elsewhere); err != nil {
			return nil, err
		}
	}
	idle, err := bench.CurrentRSS(d.PIDs())
	if err != nil {
		return nil, err
	}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	var most atomic.Uint64
	probing, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	g.Go(func() error {
		for probing.Err() == nil {
			begun := time.Now()
			waited, err := probe(probing, d, elsewhere)
			if err != nil && probing.Err() != nil {
				took = append(took, time.Since(begun)) // it would have waited longer
			}
			if err != nil {
				return err
			}
			took = append(took, waited)
		}
		return nil
	})
	g.Go(func() error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			rss, err := bench.CurrentRSS(d.PIDs())
			if err != nil {
				return err
			}
			most.Store(max(most.Load(), rss))
			select {
			case <-probing.Done():
				return nil
			case <-tick.C:
			}
		}
	})
	err = b.load(ctx, d, namespace)
	stop()
	if fail := g.Wait(); fail != nil && !errors.Is(fail, context.Canceled) {
		err = errors.Join(err, fail)
	}
	if err != nil {
		return nil, err
	}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	r.Latencies("what another client waits", took)
	r.Detail("longest_wait_ms", bench.Milliseconds(bench.Percentile(took, 100)))
	r.Detail("mib_above_idle", float64(most.Load()-min(idle, most.Load()))/(1<<20))
	return r, nil
}

// load creates the objects, and waits until they are collected, or, while the calls of their finalizers are
// published, for callsTime.
func (b References) load(ctx context.Context, d *bench.Deployment, namespace string) error {
	c := client.New(d.Client.Conn(), client.WithRealm(d.Client.Realm()), client.WithActor("application"))
	objects := c.Resource(client.Resource{Plural: "configmaps"}, namespace)
	each := max(1, referencesAtOnce/b.References)
	g, creating := errgroup.WithContext(ctx)
	g.SetLimit(2)
	for from := 0; from < b.Objects; from += each {
		g.Go(func() error {
			var list []*coppicev1.Object
			for range min(each, b.Objects-from) {
				list = append(list, b.object())
			}
			return bench.FirstError(objects.CreateBatch(creating, list))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if b.Finalizers {
		if _, err := objects.DeleteEverything(ctx); err != nil {
			return err
		}
	}
	begun := time.Now()
	return poll.UntilAt(ctx, 200*time.Millisecond, func() (bool, error) {
		if b.Finalizers { // no program answers the calls
			return time.Since(begun) > callsTime, nil
		}
		s, err := c.Status(ctx)
		return err == nil && s.Idle, err
	})
}

func (b References) object() *coppicev1.Object {
	o := &coppicev1.Object{ApiVersion: "v1", Kind: "ConfigMap", Metadata: &coppicev1.ObjectMeta{Name: bench.RandomName()}}
	for i := range b.References {
		if b.Finalizers {
			o.Metadata.Finalizers = append(o.Metadata.Finalizers, fmt.Sprintf("bench.coppice.dev/f%04d", i))
			continue
		}
		o.Metadata.OwnerReferences = append(o.Metadata.OwnerReferences, &coppicev1.OwnerReference{
			ApiVersion: "v1", Kind: "ConfigMap", Name: fmt.Sprint("absent-", i), Uid: uuid.NewString(),
		})
	}
	return o
}

// withoutGrace has objects collected at once whose owners were never seen.
func withoutGrace(ctx context.Context, d *bench.Deployment) error {
	realms := d.Client.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "")
	_, err := realms.Create(ctx, &coppicev1.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &coppicev1.ObjectMeta{Name: "settings"}, Spec: []byte(`{"ownerGrace":"0s"}`),
	})
	return err
}

// probeCreate creates an object.
func probeCreate(ctx context.Context, d *bench.Deployment, namespace string) (time.Duration, error) {
	start := time.Now()
	_, err := d.Client.Resource(bench.Pods, namespace).Create(ctx, bench.NewObject(bench.Kept))
	return time.Since(start), err
}

// probeCascade deletes an owner of one object, and waits until the object is gone.
func probeCascade(ctx context.Context, d *bench.Deployment, namespace string) (time.Duration, error) {
	owner, err := bench.CreateOwner(ctx, d.Client, namespace)
	if err != nil {
		return 0, err
	}
	objects := d.Client.Resource(bench.Pods, namespace)
	o := bench.NewObject(bench.Collected, client.NewOwnerReference(owner))
	if _, err := objects.Create(ctx, o); err != nil {
		return 0, err
	}
	start := time.Now()
	if _, err := d.Client.Resource(bench.Deployments, namespace).Delete(ctx, owner.GetMetadata().GetName()); err != nil {
		return 0, err
	}
	err = poll.UntilAt(ctx, time.Millisecond, func() (bool, error) {
		_, err := objects.Get(ctx, o.GetMetadata().GetName())
		if errors.Is(err, client.ErrNotFound) {
			return true, nil
		}
		return false, err
	})
	return time.Since(start), err
}
