package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/bench"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/archive/stores"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/wholelog"
)

// Retention checks that a realm which is written at full speed stays on a disk of known size, and stays correct.
type Retention struct {
	// Time is how long objects are created, updated and deleted.
	Time time.Duration
	// Objects is the maximum number of objects that exist at a time.
	Objects int
	// Log and Archive are the settings logRetention and archiveRetention, in bytes.
	Log, Archive int64
	// URL is that of the archive, which must be empty; a directory of the run if it is "".
	URL string
}

// mostDisk is by how much all directories together, and the archive, may exceed the two settings.
const mostDisk = 2.5

// writers is the number of callers that write at the same time. Each has a generation of objects, and one that
// is being deleted.
const writers = 4

// Run writes for the time, while it measures the disk. Then it verifies the state, reads the history from the oldest
// commit that the archive has, and starts an empty replica from the archive, which must have the same content.
func (b Retention) Run(ctx context.Context, c bench.Config) (*bench.Result, error) {
	r := &bench.Result{Name: "retention", Sync: true, Processes: 1, Version: c.Version}
	run := &retained{Retention: b, c: c, dir: filepath.Join(c.Dir, "retention"), r: r}
	if err := run.live(ctx); err != nil {
		return nil, err
	}
	return r, withLog(ctx, run.dir, func(log *storedLog) error { return run.replica(ctx, log) })
}

// retained is one run.
type retained struct {
	Retention
	c        bench.Config
	dir      string
	store    archive.Store
	r        *bench.Result
	objects  atomic.Int64 // that were created, updated or deleted
	deepest  int64        // the most bytes on the disk
	original *bench.Deployment
}

// open returns the archive. An object store is reached over nc.
func (b *retained) open(nc *nats.Conn) (archive.Store, error) {
	location := archive.Location{Scheme: "file", Dir: filepath.Join(b.dir, "archive")}
	if b.URL != "" {
		var err error
		if location, err = archive.ParseLocation(b.URL); err != nil {
			return nil, err
		}
	}
	o := stores.Opener{Replicas: 1, JetStream: func(context.Context) (jetstream.JetStream, error) { return jetstream.New(nc) }}
	return o.Lazy(location), nil
}

// live writes, and checks what can be checked while the services run.
func (b *retained) live(ctx context.Context) (err error) {
	var opened error
	b.original, err = bench.Start(ctx, allinone.Config{Dir: b.dir, Version: b.c.Version, Log: b.c.Log, Graph: func(g *graph.Config) {
		b.store, opened = b.open(g.Conn)
		g.Archive = b.store
	}}, b.c)
	if err != nil {
		return errors.Join(err, opened)
	}
	defer func() { err = errors.Join(err, opened, b.original.Close()) }()
	settings := &client.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &client.ObjectMeta{Name: lifecycle.SettingsName},
		Spec: fmt.Appendf(nil, `{"logRetention":"%dMiB","archiveRetention":"%dMiB"}`, b.Log>>20, b.Archive>>20),
	}
	if _, err := b.original.Client.Resource(client.Resource{Group: "coppice.dev", Plural: "realms"}, "").Create(ctx, settings); err != nil {
		return err
	}
	m, err := b.original.Measure(ctx)
	if err != nil {
		return err
	}
	if err := b.write(ctx); err != nil {
		return err
	}
	b.r.Objects = int(b.objects.Load())
	if err := m.Stop(ctx, b.r); err != nil {
		return err
	}
	b.r.Detail("most_bytes_on_disk", float64(b.deepest))
	b.r.Detail("disk_to_settings", float64(b.deepest)/float64(b.Log+b.Archive))
	if most := mostDisk * float64(b.Log+b.Archive); float64(b.deepest) > most {
		return fmt.Errorf("wrong outcome: all directories had %d bytes together, more than %.0f: %.1f times the two settings", b.deepest, most, mostDisk)
	}
	v, err := b.original.Client.Operations().Verify(ctx)
	if err != nil {
		return err
	}
	if v.Difference != "" {
		return fmt.Errorf("wrong outcome: the state differs from the log: %s", v.Difference)
	}
	return b.past(ctx)
}

// write creates, updates and deletes objects until the time is over, and measures the disk meanwhile.
func (b *retained) write(ctx context.Context) error {
	until := time.Now().Add(b.Time)
	working, stop := context.WithCancel(ctx)
	defer stop()
	var measured error
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for working.Err() == nil && measured == nil {
			measured = b.measure(working)
			b.c.Progress("writing", int(b.Time-time.Until(until)), int(b.Time))
			_ = poll.Sleep(working, time.Second) // the loop looks at working
		}
	})
	g, group := errgroup.WithContext(ctx)
	for range writers {
		g.Go(func() error { return b.generations(group, until) })
	}
	err := g.Wait()
	stop()
	measuring.Wait()
	return errors.Join(err, measured)
}

// generations creates one generation of objects after the other, updates half of each, and deletes the one before by
// its owner.
func (b *retained) generations(ctx context.Context, until time.Time) error {
	size := max(b.Objects/(2*writers), bench.BatchSize)
	var before *bench.Place
	for time.Now().Before(until) {
		p, err := b.original.NewPlace(ctx)
		if err != nil {
			return err
		}
		list := make([]*client.Object, 0, bench.BatchSize)
		for made := 0; made < size; made += bench.BatchSize {
			list = list[:0]
			for range bench.BatchSize {
				list = append(list, p.Dependent())
			}
			if err := bench.FirstError(p.Objects.CreateBatch(ctx, list)); err != nil {
				return err
			}
			for _, o := range list {
				o.Metadata.Labels["updated"] = "yes"
			}
			if err := bench.FirstError(p.Objects.UpdateBatch(ctx, list[:bench.BatchSize/2])); err != nil {
				return err
			}
		}
		b.objects.Add(int64(size + size/2))
		if before != nil {
			if err := b.gone(ctx, before); err != nil {
				return err
			}
			b.objects.Add(int64(size))
		}
		if _, err := b.original.Client.Resource(bench.Deployments, p.Namespace).Delete(ctx, p.Owner.GetMetadata().GetName()); err != nil {
			return err
		}
		before = &p
	}
	if before == nil {
		return nil
	}
	return b.gone(ctx, before)
}

// gone waits until a generation was collected.
func (b *retained) gone(ctx context.Context, p *bench.Place) error {
	return poll.Until(ctx, func() (bool, error) {
		for _, err := range p.Objects.List(ctx, client.Limit(1)) {
			return false, err
		}
		return true, nil
	})
}

// measure adds up the sizes of all files, and of the entries of an archive elsewhere.
func (b *retained) measure(ctx context.Context) error {
	total := int64(0)
	err := filepath.WalkDir(b.dir, func(_ string, f fs.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			if info, err := f.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, os.ErrNotExist) { // it was deleted meanwhile
			return nil
		}
		return err
	})
	if err == nil && strings.HasPrefix(b.store.String(), "s3:") {
		for e, failed := range b.store.List(ctx, "") {
			if failed != nil {
				break // the store is busy, and is measured again
			}
			total += e.Size
		}
	}
	b.deepest = max(b.deepest, total)
	return err
}

// past checks that the history begins where the archive begins: what an object that was deleted in the oldest commits has
// is complete, and a read of what is older is refused.
func (b *retained) past(ctx context.Context) error {
	log := b.original.Client.Log()
	last, err := log.Last(ctx)
	if err != nil {
		return err
	}
	low, high := uint64(1), last
	for low < high { // the oldest commit that can be read
		middle := low + (high-low)/2
		_, err := log.Commit(ctx, middle)
		switch {
		case err == nil:
			high = middle
		case errors.Is(err, client.ErrExpired):
			low = middle + 1
		default:
			return err
		}
	}
	b.r.Detail("commits_that_can_be_read", float64(last+1-low))
	deleted, err := b.deletedAfter(ctx, low)
	if err != nil || deleted == nil {
		return err
	}
	about := client.LogOptions{Name: deleted.Name, Namespace: deleted.Namespace, FromSequence: low}
	found, err := b.eventsOf(ctx, about)
	if err != nil {
		return err
	}
	if len(found) == 0 || found[len(found)-1].Revision != deleted.Revision {
		return fmt.Errorf("wrong outcome: the history of %s in %s, which was deleted in revision %d, has %d events", deleted.Name, deleted.Namespace, deleted.Revision, len(found))
	}
	if low == 1 {
		return nil
	}
	about.FromSequence = low - 1
	if _, err := b.eventsOf(ctx, about); !errors.Is(err, client.ErrExpired) {
		return fmt.Errorf("wrong outcome: the log begins with the commit at sequence %d, and the history of %s does not say that what precedes it was pruned", low, deleted.Name)
	}
	return nil
}

// eventsOf returns the events of the object that options name.
func (b *retained) eventsOf(ctx context.Context, about client.LogOptions) (found []client.LogEvent, err error) {
	for c, err := range b.original.Client.Log().Read(ctx, about) {
		if err != nil {
			return nil, err
		}
		for _, e := range client.Events(c.Commit, resourceOf) {
			if e.Name == about.Name && e.Namespace == about.Namespace {
				found = append(found, e)
			}
		}
	}
	return found, ctx.Err()
}

// resourceOf returns the resource of a kind that is created here.
func resourceOf(_, kind string) string { return strings.ToLower(kind) + "s" }

// deletedAfter returns the first event from a sequence on that has removed a Pod, nil if there is none.
func (b *retained) deletedAfter(ctx context.Context, sequence uint64) (*client.LogEvent, error) {
	for c, err := range b.original.Client.Log().Read(ctx, client.FromSequence(sequence)) {
		if err != nil {
			return nil, err
		}
		for _, e := range client.Events(c.Commit, resourceOf) {
			if e.Type == "ObjectDeleted" && e.Resource == "pods" {
				return &e, nil
			}
		}
	}
	return nil, ctx.Err()
}

// replica starts an empty replica from the archive and the rest of the log, and compares it with the state.
func (b *retained) replica(ctx context.Context, log *storedLog) error {
	store, err := b.open(log.nc)
	if err != nil {
		return err
	}
	realm, err := wholelog.New(ctx, log.Log, store, [16]byte{}).RealmID(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	a := &archivestate.Archive{Store: store, Realm: realm, Log: b.c.Log}
	if err := startReplica(ctx, log.Log, a, filepath.Join(b.dir, "replica")); err != nil {
		return err
	}
	b.r.Detail("replica_seconds", time.Since(begun).Seconds())
	return sameContent(filepath.Join(b.dir, "graph"), filepath.Join(b.dir, "replica"))
}
