package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archiver"
)

// Archive measures what an archive costs the writer: creations and a wide cascade without an archive, and with
// one whose snapshots are written and verified meanwhile, while the log is within its retention.
type Archive struct {
	// Objects are created in each round, and as many are deleted by a cascade.
	Objects int
	// Rounds is how often each of the two is measured.
	Rounds int
}

// loggedBytes is about how many bytes a created object has in the log. A snapshot is due after a third of
// the objects, so that two are verified in each round.
const loggedBytes = 100

// rates are those of one round, in objects per second.
type rates struct{ create, cascade float64 }

// Run creates objects in a realm of its own in each round, and deletes as many by a cascade: without an archive and
// with one, in turn. The rate is the median of the creations in the rounds with an archive.
func (b Archive) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	r := &bench.Result{Name: "create in batches, and a wide cascade, with an archive", Objects: b.Objects, Sync: true, Processes: 1, Version: c.Version}
	var create, cascade [2][]float64
	snapshots := 0
	for round := range b.Rounds {
		for i := range create {
			with := (round + i) % 2 // the first alternates, too
			got, verified, err := b.round(ctx, c, fmt.Sprintf("round-%d-%d", round, with), with == 1)
			if err != nil {
				return nil, err
			}
			create[with], cascade[with] = append(create[with], got.create), append(cascade[with], got.cascade)
			snapshots += verified
		}
		c.Progress("rounds", round+1, b.Rounds)
	}
	r.ObjectsPerSecond = median(create[1])
	r.Seconds = float64(b.Objects) / r.ObjectsPerSecond
	r.Detail("without_objects_per_second", median(create[0]))
	r.Detail("with_to_without", r.ObjectsPerSecond/median(create[0]))
	r.Detail("cascade_objects_per_second", median(cascade[1]))
	r.Detail("cascade_without_objects_per_second", median(cascade[0]))
	r.Detail("cascade_with_to_without", median(cascade[1])/median(cascade[0]))
	r.Detail("verified_snapshots", float64(snapshots))
	return r, nil
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	if n := len(list); n%2 == 0 {
		return (list[n/2-1] + list[n/2]) / 2
	}
	return list[len(list)/2]
}

// round returns the rates, and with an archive the number of snapshots that were verified when
// the cascade was over. Before it returns, it waits until one is verified.
func (b Archive) round(ctx context.Context, c bench.Config, name string, archiving bool) (got rates, snapshots int, err error) {
	dir := filepath.Join(c.Dir, name)
	config := allinone.Config{Dir: dir, Version: c.Version, Log: c.Log}
	var store archive.Store
	if archiving {
		store, err = stores.Opener{}.Create(ctx, archive.Location{Scheme: "file", Dir: filepath.Join(dir, "archive")})
		if err != nil {
			return got, 0, err
		}
		due := max(int64(b.Objects)*loggedBytes/3, 1)
		config.Graph = func(g *graph.Config) {
			g.Archive = store
			g.ArchiveLimits = archiver.Limits{SegmentBytes: max(due/4, 1), SnapshotBytes: due, Interval: 20 * time.Millisecond, Pause: time.Millisecond}
		}
	}
	d, err := bench.Start(ctx, config, c)
	if err != nil {
		return got, 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	p, err := d.NewPlace(ctx)
	if err != nil {
		return got, 0, err
	}
	start := time.Now()
	if err := d.Populate(ctx, p, b.Objects); err != nil {
		return got, 0, err
	}
	got.create = float64(b.Objects) / time.Since(start).Seconds()
	if err := d.Count(ctx, p.Namespace, b.Objects); err != nil {
		return got, 0, err
	}
	cascade, err := bench.Cascade{Objects: b.Objects, Shape: "wide", Policy: "Background"}.Run(ctx, d)
	if err != nil {
		return got, 0, err
	}
	if got.cascade = cascade.ObjectsPerSecond; !archiving {
		return got, 0, nil
	}
	verified := func() (n int, err error) {
		for e, err := range store.List(ctx, "") {
			if err != nil {
				return 0, err
			}
			if name, ok := archive.ParseName(e.Name); ok && name.Kind == archive.Verified {
				n++
			}
		}
		return n, nil
	}
	if snapshots, err = verified(); err != nil {
		return got, 0, err
	}
	err = poll.Until(ctx, func() (bool, error) { // the archive works
		n, err := verified()
		return n > 0, err
	})
	return got, snapshots, err
}
