// Package lease elects the writer of a realm. The lease makes it rare that a realm has two
// writers at a time. Safety does not depend on it: every append names the sequence that it
// expects, so the log refuses the appends of a former writer.
//
// A lease is a key in a JetStream key-value bucket, which expires when it is not renewed.
// The holder relies on its own clock since boot: the lease is valid for three quarters of
// the TTL after the last successful renewal was *sent*, which is before the key can expire.
// Another process takes the lease when the key has expired, or when its own clock shows
// that the key has not been renewed for longer than the holder relies on it.
//
// # What a lease assumes
//
// Whatever the clocks do, a former writer cannot append, because the log fences it. These
// assumptions guarantee in addition that a former writer sends no replies that depend on
// the state alone, such as reads and refusals:
//
//   - Clocks since boot run at the same rate, to within 6%.
//   - The NATS server's clock does not jump ahead by more than a quarter of the ttl
//     while a lease is held: the key would vanish while its holder relies on it.
//   - A virtual machine that is paused, or restored from a snapshot, for longer than
//     three quarters of the ttl does not go on as the writer: its clock since boot
//     stood still. Requests that it answers before its next renewal, at most a fifth
//     of the ttl later, may be stale. A suspended machine is no such case on Linux,
//     where the clock is CLOCK_BOOTTIME; on other systems it may be.
//   - A process is not duplicated while it runs. A copy of its volume does no harm:
//     a lease belongs to a process, not to a directory.
package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/services/graph/clock"
)

// Holder identifies the process that holds a lease.
type Holder struct {
	// ID identifies the holder's state directory, and any copy of it.
	ID string `json:"id"`
	// Process identifies the process by a random id. Only a process that finds its own id
	// in the key takes the lease at once.
	Process string `json:"process"`
	// Name is the host and the process id, for operators.
	Name string `json:"name"`
}

// Config configures a lease.
type Config struct {
	Realm  string
	Holder Holder
	// TTL is the time after which a lease that is not renewed expires; 5 s if zero.
	// If the bucket exists already, its TTL counts: see open.
	TTL      time.Duration
	Replicas int
	Log      *slog.Logger
	// Clock is the clock since boot; clock.SinceBoot if nil.
	Clock func() time.Duration
	// Attempted, unless nil, is called after each attempt of Acquire with its error. The
	// error is nil if NATS has replied, also if another process has the lease.
	Attempted func(err error)
}

// DefaultTTL is the default time after which a lease that is not renewed expires.
const DefaultTTL = 5 * time.Second

// Lease is a lease that was acquired. It is safe for concurrent use.
type Lease struct {
	kv       jetstream.KeyValue
	c        Config
	value    []byte
	revision uint64
	until    atomic.Int64 // of the clock, nanoseconds
	lost     chan struct{}
	cancel   context.CancelFunc
	done     chan struct{}
}

const (
	// margin is the fraction of the TTL for which the holder relies on a renewal.
	margin = 0.75
	// silence is the fraction of the TTL after which another process may take a key that
	// was not renewed: margin, plus the difference that clocks may have.
	silence = 0.8
	// attempts is the number of attempts in a TTL to take a lease that another process
	// holds.
	attempts = 40
)

// Acquire waits until it has the lease, and keeps it until Release, or until it
// is lost. It returns an error when ctx ends.
func Acquire(ctx context.Context, js jetstream.JetStream, c Config) (*Lease, error) {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Clock == nil {
		c.Clock = clock.SinceBoot
	}
	if c.Attempted == nil {
		c.Attempted = func(error) {}
	}
	value, err := json.Marshal(c.Holder)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l := &Lease{c: c, value: value, lost: make(chan struct{}), done: make(chan struct{})}
	var seen seen
	reported := Holder{}
	for {
		err := l.open(ctx, js)
		ok := false
		if err == nil {
			ok, err = l.try(ctx, &seen)
		}
		c.Attempted(err)
		switch {
		case ok:
			ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
			l.cancel = cancel
			go l.keep(ctx)
			return l, nil
		case err != nil && ctx.Err() == nil && !bus.IsNotReady(err):
			c.Log.Warn("cannot acquire the lease", "realm", c.Realm, "error", err)
		case seen.holder != reported:
			reported = seen.holder
			l.standingBy(reported)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(l.c.TTL / attempts):
		}
	}
}

func (l *Lease) standingBy(holder Holder) {
	if holder.ID != l.c.Holder.ID {
		l.c.Log.Info("another writer holds the lease; standing by", "realm", l.c.Realm, "holder", holder.Name)
		return
	}
	l.c.Log.Info("an earlier process with this data directory holds the lease; waiting until it ends. If that process is running, one directory is a copy of the other, which does no harm",
		"realm", l.c.Realm, "holder", holder.Name, "lease", l.c.TTL)
}

// seen is a key that another process holds.
type seen struct {
	holder   Holder
	revision uint64
	since    time.Duration // when this revision was first read, by the clock
}

// open opens the bucket, or creates it. It does not change the TTL of an existing bucket,
// because the holders of leases in it rely on that.
func (l *Lease) open(ctx context.Context, js jetstream.JetStream) error {
	if l.kv != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	kv, err := js.KeyValue(ctx, bus.LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		// Not CreateOrUpdate: another process may be creating it with another TTL.
		kv, err = js.CreateKeyValue(ctx, bus.LeaseConfig(l.c.TTL, l.c.Replicas))
	}
	if err != nil {
		return err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return err
	}
	ttl := status.TTL()
	if ttl == 0 {
		return fmt.Errorf("the keys of bucket %s have no ttl, so that no lease in it would ever end; remove the bucket", bus.LeaseBucket)
	}
	if ttl != l.c.TTL {
		l.c.Log.Warn("leases last as long as their bucket says; to change that, remove the bucket while no graph service runs",
			"realm", l.c.Realm, "bucket", bus.LeaseBucket, "ttl", ttl, "wanted", l.c.TTL)
		l.c.TTL = ttl
	}
	l.kv = kv
	return nil
}

// openTimeout is the timeout of JetStream requests about the bucket.
const openTimeout = 5 * time.Second

// try takes the lease if it is free, if it is this process's own from before, or if
// the holder has been silent for so long that it does not rely on it.
func (l *Lease) try(ctx context.Context, other *seen) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.c.TTL/2)
	defer cancel()
	key := bus.LeaseKey(l.c.Realm)
	sent := l.c.Clock()
	revision, err := l.kv.Create(ctx, key, l.value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		var entry jetstream.KeyValueEntry
		if entry, err = l.kv.Get(ctx, key); err != nil {
			return false, err
		}
		if !l.free(entry, other) {
			return false, nil
		}
		sent = l.c.Clock()
		revision, err = l.kv.Update(ctx, key, l.value, entry.Revision())
	}
	if err != nil {
		return false, err
	}
	l.renewed(revision, sent)
	return true, nil
}

// free reports whether the lease of an entry may be taken, and records in other when it
// first read the entry of another holder.
func (l *Lease) free(entry jetstream.KeyValueEntry, other *seen) bool {
	var holder Holder
	if err := json.Unmarshal(entry.Value(), &holder); err != nil {
		holder = Holder{Name: fmt.Sprintf("unknown (%v)", err)}
	}
	now := l.c.Clock()
	if entry.Revision() != other.revision {
		*other = seen{holder, entry.Revision(), now}
	}
	own := holder.Process != "" && holder.Process == l.c.Holder.Process
	return own || now-other.since >= time.Duration(silence*float64(l.c.TTL))
}

func (l *Lease) renewed(revision uint64, sent time.Duration) {
	l.revision = revision
	l.until.Store(int64(sent) + int64(margin*float64(l.c.TTL)))
}

// Holds reports whether this process has the lease and has had it, without interruption,
// since Acquire. It is safe for concurrent use and does not block.
func (l *Lease) Holds() bool { return int64(l.c.Clock()) < l.until.Load() }

// Lost returns a channel that is closed when the lease is lost.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

func (l *Lease) keep(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.c.TTL / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !l.renew(ctx) {
			close(l.lost)
			return
		}
	}
}

// renew renews the lease, and reports whether it may still be held.
func (l *Lease) renew(ctx context.Context) bool {
	try, cancel := context.WithTimeout(ctx, l.c.TTL/4)
	defer cancel()
	sent := l.c.Clock()
	revision, err := l.kv.Update(try, bus.LeaseKey(l.c.Realm), l.value, l.revision)
	switch {
	case err == nil:
		l.renewed(revision, sent)
		return true
	case ctx.Err() != nil:
		return true
	case bus.Classify(err) == bus.Conflict:
		// An earlier renewal whose reply was lost may have written it.
		if entry, err := l.kv.Get(try, bus.LeaseKey(l.c.Realm)); err == nil && string(entry.Value()) == string(l.value) {
			l.revision = entry.Revision()
			return l.Holds()
		}
		return false
	}
	l.c.Log.Warn("cannot renew the lease", "realm", l.c.Realm, "error", err)
	return l.Holds()
}

// Release releases the lease, so that another process need not wait until it expires.
func (l *Lease) Release(ctx context.Context) error {
	l.cancel()
	<-l.done
	held := l.Holds()
	l.until.Store(0)
	if !held {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := l.kv.Delete(ctx, bus.LeaseKey(l.c.Realm), jetstream.LastRevision(l.revision))
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && bus.Classify(err) != bus.Conflict {
		return fmt.Errorf("lease: release: %w", err)
	}
	return nil
}

// Holders returns the holder of the lease of each realm that has one.
func Holders(ctx context.Context, js jetstream.JetStream) (map[string]Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	holders := map[string]Holder{}
	kv, err := js.KeyValue(ctx, bus.LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return holders, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lease: %w", ctx.Err())
		case entry := <-w.Updates():
			if entry == nil {
				return holders, nil
			}
			var h Holder
			if realm, ok := bus.RealmOfLease(entry.Key()); ok && json.Unmarshal(entry.Value(), &h) == nil {
				holders[realm] = h
			}
		}
	}
}
