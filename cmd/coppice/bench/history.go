package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-gc/coppice/client"
)

// History measures reads of the past, and how long its states take to be built.
type History struct{ Objects int }

// additionShare is the share of the objects that each of the two additions has.
const additionShare = 100

// pastGets is the number of reads of a state that is built.
const pastGets = 500

// Run creates objects, and then twice one more for every 100. It reads an object at the revision
// before the two additions: the first read waits until the state is built from the log, and Seconds
// is its duration. P50 and P99 are those of further reads of this state. Details has the durations
// of two more reads: one at the revision between the additions, whose state is built from the first
// state, and one at the present revision.
func (b History) Run(ctx context.Context, d *Deployment) (*Result, error) {
	p, err := d.Fill(ctx, b.Objects)
	if err != nil {
		return nil, err
	}
	revisions := []uint64{d.Client.Revision()}
	more := max(b.Objects/additionShare, 1)
	for range 2 {
		if err := d.Populate(ctx, p, more); err != nil {
			return nil, err
		}
		revisions = append(revisions, d.Client.Revision())
	}
	name := p.sample.names[0]
	r := &Result{Name: "history", Objects: b.Objects}
	m, err := d.Measure(ctx)
	if err != nil {
		return nil, err
	}
	past, err := b.read(ctx, d, p, revisions[0], name)
	if err != nil {
		return nil, err
	}
	if err := m.Stop(ctx, r); err != nil {
		return nil, err
	}
	if err := b.check(ctx, past, p, b.Objects); err != nil {
		return nil, err
	}
	took := make([]time.Duration, 0, pastGets)
	for range pastGets {
		start := time.Now()
		if _, err := past.Resource(Pods, p.Namespace).Get(ctx, name); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	r.Latencies("a get of a state that is built", took)
	start := time.Now()
	if past, err = b.read(ctx, d, p, revisions[1], name); err != nil {
		return nil, err
	}
	r.Detail("from_another_state_seconds", time.Since(start).Seconds())
	if err := b.check(ctx, past, p, b.Objects+more); err != nil {
		return nil, err
	}
	start = time.Now()
	if _, err = b.read(ctx, d, p, revisions[2], name); err != nil {
		return nil, err
	}
	r.Detail("present_seconds", time.Since(start).Seconds())
	return r, nil
}

// read reads an object at a revision.
func (History) read(ctx context.Context, d *Deployment, p Place, revision uint64, name string) (*client.Client, error) {
	past, err := d.Client.At(ctx, client.Moment{Revision: revision})
	if err != nil {
		return nil, err
	}
	_, err = past.Resource(Pods, p.Namespace).Get(ctx, name)
	return past, err
}

// check counts the objects of a state, without the owner.
func (History) check(ctx context.Context, past *client.Client, p Place, want int) error {
	n := 0
	for _, err := range past.Resource(Pods, p.Namespace).List(ctx) {
		if err != nil {
			return err
		}
		n++
	}
	if n != want {
		return fmt.Errorf("wrong outcome: %d objects were listed at revision %d, want %d", n, past.Past().Revision, want)
	}
	return nil
}
