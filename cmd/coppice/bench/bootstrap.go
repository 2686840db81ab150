package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/secret"
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
func (b Bootstrap) Run(ctx context.Context, d *Deployment) (*Result, error) {
	if !d.local() {
		return nil, errElsewhere
	}
	names, p, err := b.create(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	live, stale := filepath.Join(d.c.Dir, "graph", bus.DefaultRealm), filepath.Join(d.c.Dir, "stale", bus.DefaultRealm)
	if err := os.CopyFS(stale, os.DirFS(live)); err != nil {
		return nil, err
	}
	if !b.Created {
		if err := b.again(ctx, d, func(d *Deployment) error { return b.update(ctx, d, p, names) }); err != nil {
			return nil, err
		}
	}
	r := &Result{Name: "bootstrap"}
	start := time.Now()
	a, err := b.archive(ctx, d, live, r)
	if err != nil {
		return nil, err
	}
	r.Detail("snapshot_seconds", time.Since(start).Seconds())
	if err := b.again(ctx, d, func(d *Deployment) error {
		p, err := d.NewPlace(ctx)
		if err != nil {
			return err
		}
		return d.Populate(ctx, p, max(b.Objects/tailShare, 1))
	}); err != nil {
		return nil, err
	}
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(d.c.Dir, "nats"), Roles: bus.Roles(bus.DefaultRealm)})
	if err != nil {
		return nil, err
	}
	nc, err := dial.Service(ctx, server.URL(), "coppice-bench", slog.New(slog.DiscardHandler), server.Options(bus.RoleGraph)...)
	if err == nil {
		err = b.measure(ctx, d, nc, a, r)
		nc.Close()
	}
	return r, errors.Join(err, server.Shutdown())
}

// create creates the objects, and returns their names.
func (b Bootstrap) create(ctx context.Context, d *Deployment) (names []string, p Place, err error) {
	names = make([]string, b.Objects)
	for i := range names {
		names[i] = RandomName()
	}
	if p, err = d.NewPlace(ctx); err != nil {
		return nil, p, err
	}
	return names, p, b.each(ctx, d, "creating objects", p, names, "no", client.ResourceClient.CreateBatch)
}

func (b Bootstrap) update(ctx context.Context, d *Deployment, p Place, names []string) error {
	p.Objects = d.Client.Resource(Pods, p.Namespace)
	return b.each(ctx, d, "updating objects", p, names, "yes", client.ResourceClient.UpdateBatch)
}

// each sends the objects with these names, in batches.
func (Bootstrap) each(
	ctx context.Context, d *Deployment, what string, p Place, names []string, updated string,
	send func(client.ResourceClient, context.Context, []*client.Object, ...client.WriteOption) ([]client.Result, error),
) error {
	return d.InBatches(ctx, what, len(names), func(ctx context.Context, from, to int) error {
		list := make([]*client.Object, 0, to-from)
		for _, name := range names[from:to] {
			o := p.Dependent()
			o.Metadata.Name, o.Metadata.Labels["updated"] = name, updated
			list = append(list, o)
		}
		return FirstError(send(p.Objects, ctx, list))
	})
}

// again starts the deployment again on its data, and stops it after do.
func (Bootstrap) again(ctx context.Context, d *Deployment, do func(*Deployment) error) error {
	c := d.c
	c.Measuring = nil
	next, err := Deploy(ctx, c)
	if err != nil {
		return err
	}
	return errors.Join(do(next), next.Close())
}

// archive writes a snapshot of the state in a directory to an archive.
func (Bootstrap) archive(ctx context.Context, d *Deployment, dir string, r *Result) (a *archivestate.Archive, err error) {
	store, err := stores.Opener{}.Create(ctx, archive.Location{Scheme: "file", Dir: filepath.Join(d.c.Dir, "bench-archive")})
	if err != nil {
		return nil, err
	}
	s, err := state.Open(dir, state.Config{})
	if err != nil {
		return nil, err
	}
	snap := s.Snapshot()
	info, err := archivestate.PutSnapshot(ctx, store, snap, "", Actor, time.Now())
	if err := errors.Join(err, snap.Close(), s.Close()); err != nil {
		return nil, err
	}
	r.Detail("snapshot_bytes", float64(info.Size))
	return &archivestate.Archive{Store: store, Realm: [16]byte(info.Checkpoint.GetRealmId()), Log: d.c.Log}, nil
}

func (b Bootstrap) measure(ctx context.Context, d *Deployment, nc *nats.Conn, a *archivestate.Archive, r *Result) error {
	d.Client = client.New(nc)
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	secrets, err := secret.Load(filepath.Join(d.c.Dir, secret.FileName))
	if err != nil {
		return err
	}
	log, err := eventlog.OpenExisting(ctx, js, bus.DefaultRealm, eventlog.NewKeys(secrets, bus.DefaultRealm))
	if err != nil {
		return err
	}
	replayed, started, stale := filepath.Join(d.c.Dir, "replayed"), filepath.Join(d.c.Dir, "started"), filepath.Join(d.c.Dir, "stale")
	begun := time.Now()
	done, err := replay.Rebuild(ctx, nc, bus.DefaultRealm, replayed, secrets)
	if err != nil {
		return err
	}
	whole := time.Since(begun).Seconds()
	r.Objects = int(done.Events)
	m, err := d.Measure(ctx)
	if err != nil {
		return err
	}
	if err := b.begin(ctx, log, a, started); err != nil {
		return err
	}
	if err := m.Stop(ctx, r); err != nil {
		return err
	}
	begun = time.Now()
	if err := b.begin(ctx, log, a, stale); err != nil {
		return err
	}
	r.Detail("stale_seconds", time.Since(begun).Seconds())
	r.Detail("replay_seconds", whole)
	r.Detail("replay_to_bootstrap", whole/r.Seconds)
	return b.same(replayed, started, stale)
}

// begin starts a replica from the archive, or from the first commit if the archive has no snapshot yet, up to the end of
// the log.
func (Bootstrap) begin(ctx context.Context, log *eventlog.Log, a *archivestate.Archive, dir string) error {
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

// same checks that states have the same content.
func (Bootstrap) same(dirs ...string) error {
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
