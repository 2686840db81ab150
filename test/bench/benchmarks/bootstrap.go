package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/replay"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Bootstrap measures how long a replica takes to start from a snapshot in an archive and the
// rest of the log, next to a replay of the whole log.
type Bootstrap struct {
	Objects int
	// Created leaves out the update of each object.
	Created bool
}

// tailShare is the share of the objects that are created after the snapshot.
const tailShare = 100

// Run creates objects and updates each once, writes a snapshot of the state, and creates one
// object more for every 100. It then measures three starts of a replica that has nothing else to
// do: an empty one by a replay of the log, an empty one from the snapshot, and one whose state
// ends before the updates, from the snapshot too. Seconds is the second of them, and Objects
// counts the events. All three must have the same content.
func (b Bootstrap) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	c.Archive = lifecycle.Retention{} // all of the log must be in the stream
	names := make([]string, b.Objects)
	for i := range names {
		names[i] = bench.RandomName()
	}
	var p bench.Place
	err := deployed(ctx, c, func(d *bench.Deployment) (err error) {
		if p, err = d.NewPlace(ctx); err != nil {
			return err
		}
		return b.each(ctx, d, "creating objects", p, names, "no", client.ResourceClient.CreateBatch)
	})
	if err != nil {
		return nil, err
	}
	live, stale := filepath.Join(c.Dir, "graph", bus.DefaultRealm), filepath.Join(c.Dir, "stale", bus.DefaultRealm)
	if err := os.CopyFS(stale, os.DirFS(live)); err != nil {
		return nil, err
	}
	if !b.Created {
		if err := deployed(ctx, c, func(d *bench.Deployment) error {
			p.Objects = d.Client.Resource(bench.Pods, p.Namespace)
			return b.each(ctx, d, "updating objects", p, names, "yes", client.ResourceClient.UpdateBatch)
		}); err != nil {
			return nil, err
		}
	}
	r := &bench.Result{Name: "bootstrap"}
	start := time.Now()
	a, err := b.archive(ctx, c, live, r)
	if err != nil {
		return nil, err
	}
	r.Detail("snapshot_seconds", time.Since(start).Seconds())
	if err := deployed(ctx, c, func(d *bench.Deployment) error {
		p, err := d.NewPlace(ctx)
		if err != nil {
			return err
		}
		return d.Populate(ctx, p, max(b.Objects/tailShare, 1))
	}); err != nil {
		return nil, err
	}
	return r, withLog(ctx, c.Dir, func(log *storedLog) error { return b.measure(ctx, c, log, a, r) })
}

// each sends the objects with these names, in batches.
func (Bootstrap) each(
	ctx context.Context, d *bench.Deployment, what string, p bench.Place, names []string, updated string,
	send func(client.ResourceClient, context.Context, []*client.Object, ...client.WriteOption) ([]client.Result, error),
) error {
	return d.InBatches(ctx, what, len(names), func(ctx context.Context, from, to int) error {
		list := make([]*client.Object, 0, to-from)
		for _, name := range names[from:to] {
			o := p.Dependent()
			o.Metadata.Name, o.Metadata.Labels["updated"] = name, updated
			list = append(list, o)
		}
		return bench.FirstError(send(p.Objects, ctx, list))
	})
}

// archive writes a snapshot of the state in a directory to an archive.
func (Bootstrap) archive(ctx context.Context, c bench.Config, dir string, r *bench.Result) (a *archivestate.Archive, err error) {
	store, err := stores.Opener{}.Create(ctx, archive.Location{Scheme: "file", Dir: filepath.Join(c.Dir, "bench-archive")})
	if err != nil {
		return nil, err
	}
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	info, err := archivestate.PutSnapshot(ctx, store, snap, "", bench.Actor, time.Now())
	if err := errors.Join(err, snap.Close(), s.Close()); err != nil {
		return nil, err
	}
	r.Detail("snapshot_bytes", float64(info.Size))
	return &archivestate.Archive{Store: store, Realm: [16]byte(info.Checkpoint.GetRealmId()), Log: c.Log}, nil
}

func (b Bootstrap) measure(ctx context.Context, c bench.Config, log *storedLog, a *archivestate.Archive, r *bench.Result) error {
	replayed, started, stale := filepath.Join(c.Dir, "replayed"), filepath.Join(c.Dir, "started"), filepath.Join(c.Dir, "stale")
	begun := time.Now()
	done, err := replay.Rebuild(ctx, log.nc, bus.DefaultRealm, replayed, log.secrets)
	if err != nil {
		return err
	}
	whole := time.Since(begun).Seconds()
	r.Objects = int(done.Events)
	m, err := bench.Running(client.New(log.nc), c).Measure(ctx)
	if err != nil {
		return err
	}
	if err := startReplica(ctx, log.Log, a, started); err != nil {
		return err
	}
	if err := m.Stop(ctx, r); err != nil {
		return err
	}
	begun = time.Now()
	if err := startReplica(ctx, log.Log, a, stale); err != nil {
		return err
	}
	r.Detail("stale_seconds", time.Since(begun).Seconds())
	r.Detail("replay_seconds", whole)
	r.Detail("replay_to_bootstrap", whole/r.Seconds)
	return sameContent(replayed, started, stale)
}

// startReplica starts a replica from the archive, or from the first commit if the archive has no snapshot yet, up to the end of
// the log.
func startReplica(ctx context.Context, log *eventlog.Log, a *archivestate.Archive, dir string) error {
	last, err := log.LastCommit(ctx)
	if err != nil {
		return err
	}
	end, _, err := log.Last(ctx)
	if err != nil {
		return err
	}
	return replay.ReplaceBy(bus.DefaultRealm, dir, func(dir string) error {
		if _, err := a.Load(ctx, dir, log.Created(), last, state.Config{}); err != nil && !errors.Is(err, archivestate.ErrNoSnapshot) {
			return err
		}
		s, err := state.Open(dir, state.Config{})
		if err != nil {
			return err
		}
		err = replay.NewFolder(s, log.Created(), log.Keys()).FoldTo(ctx, log, end)
		return errors.Join(err, s.Sync(), s.Close())
	})
}

// sameContent checks that states have the same content.
func sameContent(dirs ...string) error {
	var first [32]byte
	for i, dir := range dirs {
		s, err := state.Open(filepath.Join(dir, bus.DefaultRealm), state.Config{})
		if err != nil {
			return err
		}
		snap := s.Snapshot()
		hash, err := snap.ContentHash(nil)
		if err := errors.Join(err, snap.Close(), s.Close()); err != nil {
			return err
		}
		if i == 0 {
			first = hash
		}
		if hash != first {
			return fmt.Errorf("wrong outcome: the state in %s has the content %x, that in %s %x", dir, hash, dirs[0], first)
		}
	}
	return nil
}
