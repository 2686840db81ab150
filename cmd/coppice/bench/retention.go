package bench

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
	"github.com/coppice-gc/coppice/cmd/coppice/internal/history"
	"github.com/coppice-gc/coppice/internal/archive"
	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/bus/dial"
	"github.com/coppice-gc/coppice/internal/bus/natsd"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/poll"
	"github.com/coppice-gc/coppice/internal/secret"
	"github.com/coppice-gc/coppice/services/allinone"
	"github.com/coppice-gc/coppice/services/graph"
	"github.com/coppice-gc/coppice/services/graph/archivestate"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
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
	// Open returns the archive, given a connection to the NATS server of the realm, and the directory of the run.
	Open func(nc *nats.Conn, dir string) (archive.Store, error)
}

// mostDisk is by how much all directories together, and the archive, may exceed the two settings.
const mostDisk = 2.5

// writers is the number of callers that write at the same time. Each has a generation of objects, and one that
// is being deleted.
const writers = 4

// Run writes for the time, while it measures the disk. Then it verifies the state, reads the history from the oldest
// commit that the archive has, and starts an empty replica from the archive, which must have the same content.
func (b Retention) Run(ctx context.Context, d *Deployment) (*Result, error) {
	if !d.local() {
		return nil, errElsewhere
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	r := &Result{Name: "retention", Sync: true, Processes: 1, Version: d.c.Version}
	run := &retained{Retention: b, dir: filepath.Join(d.c.Dir, "retention"), r: r}
	if err := run.live(ctx, d); err != nil {
		return nil, err
	}
	return r, run.replica(ctx, d)
}

// retained is one run.
type retained struct {
	Retention
	dir      string
	store    archive.Store
	r        *Result
	objects  atomic.Int64 // that were created, updated or deleted
	deepest  int64        // the most bytes on the disk
	original *Deployment
}

// live writes, and checks what can be checked while the services run.
func (b *retained) live(ctx context.Context, d *Deployment) (err error) {
	var opened error
	config := allinone.Config{Dir: b.dir, Version: d.c.Version, Log: d.c.Log, Graph: func(c *graph.Config) {
		b.store, opened = b.Open(c.Conn, b.dir)
		c.Archive = b.store
	}}
	stack, err := allinone.Start(ctx, config)
	if err != nil {
		return errors.Join(err, opened)
	}
	defer func() { err = errors.Join(err, opened, stack.Stop()) }()
	if err := stack.Await(ctx); err != nil {
		return err
	}
	nc, err := stack.Conn(bus.LocalUser)
	if err != nil {
		return err
	}
	b.original = &Deployment{Client: client.New(nc, client.WithActor(Actor)), c: d.c, Conn: stack.Conn}
	settings := &client.Object{
		ApiVersion: "coppice.dev/v1", Kind: "Realm", Metadata: &client.ObjectMeta{Name: lifecycle.SettingsName},
		Spec: fmt.Appendf(nil, `{"logRetention":"%dMiB","archiveRetention":"%dMiB"}`, b.Log>>20, b.Archive>>20),
	}
	if _, err := b.original.Client.Resource(realms, "").Create(ctx, settings); err != nil {
		return err
	}
	m, err := b.original.Measure(ctx)
	if err != nil {
		return err
	}
	if err := b.write(ctx, d); err != nil {
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
func (b *retained) write(ctx context.Context, d *Deployment) error {
	until := time.Now().Add(b.Time)
	working, stop := context.WithCancel(ctx)
	defer stop()
	var measured error
	var measuring sync.WaitGroup
	measuring.Go(func() {
		for working.Err() == nil && measured == nil {
			measured = b.measure(working)
			d.Progress("writing", int(b.Time-time.Until(until)), int(b.Time))
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
	size := max(b.Objects/(2*writers), BatchSize)
	var before *Place
	for time.Now().Before(until) {
		p, err := b.original.NewPlace(ctx)
		if err != nil {
			return err
		}
		list := make([]*client.Object, 0, BatchSize)
		for made := 0; made < size; made += BatchSize {
			list = list[:0]
			for range BatchSize {
				list = append(list, p.Dependent())
			}
			if err := FirstError(p.Objects.CreateBatch(ctx, list)); err != nil {
				return err
			}
			for _, o := range list {
				o.Metadata.Labels["updated"] = "yes"
			}
			if err := FirstError(p.Objects.UpdateBatch(ctx, list[:BatchSize/2])); err != nil {
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
		if _, err := b.original.Client.Resource(Deployments, p.Namespace).Delete(ctx, p.Owner.GetMetadata().GetName()); err != nil {
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
func (b *retained) gone(ctx context.Context, p *Place) error {
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

// past checks that the history begins where the archive begins: what an object that was deleted in the oldest commits has is
// complete, and what is older is reported as pruned.
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
	h, err := history.Open(ctx, log, func(string, string) string { return "pods" })
	if err != nil {
		return err
	}
	found, complete, err := h.Tail(ctx, 10, history.AllCommits, client.LogOptions{Name: deleted.Name, Namespace: deleted.Namespace}, func(e *client.LogEvent) bool {
		return e.Name == deleted.Name && e.Namespace == deleted.Namespace
	})
	if err != nil {
		return err
	}
	if len(found) == 0 || found[len(found)-1].Revision != deleted.Revision {
		return fmt.Errorf("wrong outcome: the history of %s in %s, which was deleted in revision %d, has %d events", deleted.Name, deleted.Namespace, deleted.Revision, len(found))
	}
	if low > 1 && complete && h.Pruned == nil {
		return fmt.Errorf("wrong outcome: the log begins with the commit at sequence %d, and the history of %s does not say that what precedes it was pruned", low, deleted.Name)
	}
	return nil
}

// deletedAfter returns the first event from a sequence on that has removed a Pod, nil if there is none.
func (b *retained) deletedAfter(ctx context.Context, sequence uint64) (*client.LogEvent, error) {
	for c, err := range b.original.Client.Log().Read(ctx, client.FromSequence(sequence)) {
		if err != nil {
			return nil, err
		}
		for _, e := range client.Events(c.Commit, func(string, string) string { return "pods" }) {
			if e.Type == "ObjectDeleted" && e.Resource == "pods" {
				return &e, nil
			}
		}
	}
	return nil, ctx.Err()
}

// replica starts an empty replica from the archive and the rest of the log, and compares it with the state.
func (b *retained) replica(ctx context.Context, d *Deployment) (err error) {
	server, err := natsd.Start(natsd.Config{Dir: filepath.Join(b.dir, "nats"), Roles: bus.Roles(bus.DefaultRealm)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Shutdown()) }()
	nc, err := dial.Service(ctx, server.URL(), "coppice-bench", d.c.Log, server.Options(bus.RoleGraph)...)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	secrets, err := secret.Load(filepath.Join(b.dir, secret.FileName))
	if err != nil {
		return err
	}
	log, err := eventlog.OpenExisting(ctx, js, bus.DefaultRealm, eventlog.NewKeys(secrets, bus.DefaultRealm))
	if err != nil {
		return err
	}
	store, err := b.Open(nc, b.dir)
	if err != nil {
		return err
	}
	realm, err := wholelog.New(ctx, log, store, [16]byte{}).RealmID(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	a := &archivestate.Archive{Store: store, Realm: realm, Log: d.c.Log}
	if err := (Bootstrap{}).begin(ctx, log, a, filepath.Join(b.dir, "replica")); err != nil {
		return err
	}
	b.r.Detail("replica_seconds", time.Since(begun).Seconds())
	return Bootstrap{}.same(filepath.Join(b.dir, "graph"), filepath.Join(b.dir, "replica"))
}
