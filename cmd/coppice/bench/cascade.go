package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/poll"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Cascade measures the deletion of an object with many dependents.
type Cascade struct {
	// Objects is the approximate number of objects below the root.
	Objects int
	// Shape is the shape of the owner references: one of Shapes.
	Shape string
	// Policy is Background, Foreground or Orphan.
	Policy string
	// Safe gives the realm a brake that is never reached, and protects the objects that
	// survive, instead of giving them a second owner. It requires the shape wide, the policy
	// Background, and a realm that only the benchmark uses.
	Safe bool
}

// Run creates the objects, waits until the services are at rest, deletes the
// root, and measures the time until a fresh list shows only the survivors and
// all work is acknowledged. It checks the remaining objects, and that each
// removal is in the log with its cause.
func (b Cascade) Run(ctx context.Context, d *Deployment) (*Result, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	f := newFamily(b.Shape, b.Objects)
	f.safe = b.Safe
	r := &Result{Name: fmt.Sprintf("cascade %s %s", b.Shape, b.Policy), Objects: f.n}
	if b.Safe {
		r.Name += " with a brake and protected objects"
		if err := brake(ctx, d); err != nil {
			return nil, err
		}
	}
	run := &cascade{d: d, f: f, policy: b.Policy, namespace: "bench-" + RandomName()}
	var err error
	if run.root, err = CreateOwner(ctx, d.Client, run.namespace); err != nil {
		return nil, err
	}
	if run.keeper, err = CreateOwner(ctx, d.Client, run.namespace); err != nil {
		return nil, err
	}
	start := time.Now()
	if err := f.make(ctx, d, run.namespace, run.root, run.keeper); err != nil {
		return nil, err
	}
	if b.Safe {
		if err := run.protect(ctx); err != nil {
			return nil, err
		}
	}
	r.Detail("seconds_to_make_them", time.Since(start).Seconds())
	if err := d.settle(ctx); err != nil {
		return nil, err
	}
	answering, err := run.answer(ctx)
	if err != nil {
		return nil, err
	}
	err = run.measure(ctx, r)
	return r, errors.Join(err, answering())
}

const orphan = "Orphan"

// Check returns an error if the fields do not describe a cascade.
func (b Cascade) Check() error {
	switch {
	case !slices.Contains(Shapes, b.Shape):
		return fmt.Errorf("shape %q: choose one of %s", b.Shape, strings.Join(Shapes, ", "))
	case b.Policy == orphan && b.Shape != "wide":
		return fmt.Errorf("shape %s: policy orphan needs all objects to have the same owner; choose shape wide", b.Shape)
	case b.Safe && (b.Shape != "wide" || b.Policy != "Background"):
		return errors.New("with protected objects the shape is wide and the policy background: a foreground deletion would wait for them")
	case b.Objects < 1:
		return fmt.Errorf("%d objects: at least 1 is needed", b.Objects)
	}
	return nil
}

// cascade is one run. Its objects are in a namespace of their own, so that the
// objects of earlier runs do not count.
type cascade struct {
	d            *Deployment
	f            *family
	policy       string
	namespace    string
	root, keeper *coppicev1.Object
}

// answer runs the external finalizer until stop is called.
func (c *cascade) answer(ctx context.Context) (stop func() error, err error) {
	answering, cancel := context.WithCancel(ctx)
	answered := make(chan error, 1)
	go func() {
		answered <- c.d.Client.RunFinalizer(answering, finalizer, func(context.Context, *client.Call) error { return nil }, client.Concurrency(64))
	}()
	stop = func() error {
		cancel()
		return <-answered
	}
	err = poll.Until(ctx, func() (bool, error) {
		reply, err := c.d.Client.Operations().Consumers(ctx, client.ForFinalizers{finalizer})
		return err == nil && reply.GetConsumers()[0].GetExists(), err
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func (c *cascade) measure(ctx context.Context, r *Result) error {
	m, err := c.d.Measure(ctx)
	if err != nil {
		return err
	}
	deployments := c.d.Client.Resource(Deployments, c.namespace)
	if _, err := deployments.Delete(ctx, c.root.GetMetadata().GetName(), client.PropagationPolicy(c.policy)); err != nil {
		return err
	}
	// The time ends before the list that confirms the end, because a list takes
	// long. When all published work is done, the pending work of the last
	// objects may not be published yet: then the list shows objects that have
	// still to go, and the run goes on.
	var until time.Time
	for {
		if err := c.await(ctx); err != nil {
			return err
		}
		if err := m.Stop(ctx, r); err != nil {
			return err
		}
		err := c.check(ctx)
		if err == nil {
			break
		}
		if until.IsZero() {
			until = time.Now().Add(settleTimeout)
		}
		if ctx.Err() != nil || time.Now().After(until) {
			return err
		}
	}
	return c.history(ctx, r, m)
}

// settleTimeout bounds how long the list may still show a wrong outcome after
// the cascade looked complete.
const settleTimeout = 30 * time.Second

// await waits until the root and the objects to collect are gone and the work
// streams are empty.
func (c *cascade) await(ctx context.Context) error {
	js, err := jetstream.New(c.d.Client.Conn())
	if err != nil {
		return err
	}
	var streams []jetstream.Stream
	for _, name := range []string{bus.WorkStream(c.d.Client.Realm()), bus.FinalizeStream(c.d.Client.Realm())} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		streams = append(streams, stream)
	}
	idle := func() (bool, error) {
		for _, stream := range streams {
			if info, err := stream.Info(ctx); err != nil || info.State.Msgs > 0 {
				return false, err
			}
		}
		return true, nil
	}
	return poll.Until(ctx, func() (bool, error) {
		// The cheap check first: a list reads all remaining objects.
		if idle, err := idle(); err != nil || !idle {
			return false, err
		}
		_, err := c.d.Client.Resource(Deployments, c.namespace).Get(ctx, c.root.GetMetadata().GetName())
		if !errors.Is(err, client.ErrNotFound) {
			return false, err
		}
		if c.policy != orphan {
			page, err := c.d.Client.Resource(Pods, c.namespace).ListPage(ctx, client.LabelSelector(candidate+"="+Collected), client.Limit(1))
			if err != nil || len(page.Objects) > 0 || page.Continue != "" {
				return false, err
			}
		}
		return idle()
	})
}

// check lists the remaining objects: the expected number, none terminating,
// each with exactly the expected references.
func (c *cascade) check(ctx context.Context) error {
	left := 0
	for o, err := range c.d.Client.Resource(Pods, c.namespace).List(ctx) {
		if err != nil {
			return err
		}
		left++
		m := o.GetMetadata()
		owners := m.GetOwnerReferences()
		ok := len(owners) == 0
		switch {
		case m.GetLabels()[candidate] == Kept && c.f.safe:
			ok = len(owners) == 1 && owners[0].GetUid() == c.root.GetMetadata().GetUid() && m.GetProtection() != nil
		case m.GetLabels()[candidate] == Kept:
			ok = len(owners) == 1 && owners[0].GetUid() == c.keeper.GetMetadata().GetUid()
		}
		if !ok || m.GetDeletionTimestamp() != nil {
			return fmt.Errorf("wrong outcome: pod %s is left with %v", m.GetName(), m)
		}
	}
	want := c.f.survivors()
	if c.policy == orphan {
		want = c.f.n
	}
	if left != want {
		return fmt.Errorf("wrong outcome: %d pods are left, want %d", left, want)
	}
	return nil
}

// history checks in the log that each removed object has an event of its own,
// with its cause. It reports after what time the objects were removed.
func (c *cascade) history(ctx context.Context, r *Result, m *Meter) error {
	log := c.d.Client.Log()
	last, err := log.Last(ctx)
	if err != nil {
		return err
	}
	want := c.f.n - c.f.survivors()
	after := make([]time.Duration, 0, want)
	sequence := m.firstSequence()
	for commit, err := range log.Read(ctx, client.FromSequence(max(sequence, 1)), client.Follow(true)) {
		if err != nil {
			return err
		}
		for _, e := range client.Events(commit.Commit, func(string, string) string { return "" }) {
			if e.Namespace == c.namespace && e.Type == "ObjectDeleted" && e.Name != c.root.GetMetadata().GetName() {
				if e.Cause == 0 && e.Verb != bus.VerbRemoveFinalizer {
					return fmt.Errorf("wrong outcome: pod %s was removed without a cause", e.Name)
				}
				after = append(after, e.Time.Sub(m.start))
			}
		}
		if sequence++; sequence > last {
			break
		}
	}
	if c.policy == orphan {
		want = 0
	}
	if len(after) != want {
		return fmt.Errorf("wrong outcome: the log has %d removals, want %d", len(after), want)
	}
	r.Latencies("until removed", after)
	return nil
}
