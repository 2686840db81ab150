// Package lease makes it rare that two writers of a realm meet. That they do
// no harm when they meet is the log's doing: every append names the sequence
// that it expects.
//
// A lease is a key in a JetStream key-value bucket, which vanishes when it is
// not renewed. What the holder relies on is its own monotonic clock: the lease
// holds for a while after the last renewal was *sent*, and that while is
// shorter than the one after which the key can vanish.
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
)

// Holder says who holds a lease.
type Holder struct {
	// ID identifies the holder's state directory. Whoever has the directory,
	// which is locked, may take over a lease that carries its id.
	ID string `json:"id"`
	// Name is for people: host and process.
	Name string `json:"name"`
}

// Config is how to hold a lease.
type Config struct {
	Realm  string
	Holder Holder
	// TTL is after how long a lease that is not renewed is gone; 5 s if zero.
	// It is that of the bucket, whose creator was told it: see open.
	TTL      time.Duration
	Replicas int
	Log      *slog.Logger
}

// DefaultTTL is how long a lease lasts that is not renewed.
const DefaultTTL = 5 * time.Second

// Lease is a lease that was acquired. It is safe for concurrent use.
type Lease struct {
	kv       jetstream.KeyValue
	c        Config
	value    []byte
	revision uint64
	start    time.Time    // what the monotonic readings are relative to
	until    atomic.Int64 // nanoseconds since start
	lost     chan struct{}
	cancel   context.CancelFunc
	done     chan struct{}
}

// margin is the part of the ttl for which a renewal is relied on.
const margin = 0.75

// Acquire waits until it has the lease, and keeps it until Release, or until it
// is lost. It returns an error when ctx ends.
func Acquire(ctx context.Context, js jetstream.JetStream, c Config) (*Lease, error) {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	value, err := json.Marshal(c.Holder)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	l := &Lease{c: c, value: value, start: time.Now(), lost: make(chan struct{}), done: make(chan struct{})}
	holder := ""
	for {
		var other Holder
		err := l.open(ctx, js)
		ok := false
		if err == nil {
			ok, err = l.try(ctx, &other)
		}
		switch {
		case ok:
			ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
			l.cancel = cancel
			go l.keep(ctx)
			return l, nil
		case err != nil && ctx.Err() == nil && !bus.IsNotReady(err):
			c.Log.Warn("cannot acquire the lease", "realm", c.Realm, "error", err)
		case other.Name != holder:
			holder = other.Name
			c.Log.Info("another writer holds the lease; standing by", "realm", c.Realm, "holder", holder)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(l.c.TTL / 8):
		}
	}
}

// open opens the bucket, or creates it. The ttl of one that is there stays: who
// holds a lease in it relies on the ttl that it found.
func (l *Lease) open(ctx context.Context, js jetstream.JetStream) error {
	if l.kv != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	kv, err := js.KeyValue(ctx, bus.LeaseBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		// Not CreateOrUpdate: another may be creating it with another ttl.
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

// openTimeout is how long JetStream may take to answer for the bucket.
const openTimeout = 5 * time.Second

// try takes the lease if it is free, or if it is our own from before.
func (l *Lease) try(ctx context.Context, other *Holder) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, l.c.TTL/2)
	defer cancel()
	key := bus.LeaseKey(l.c.Realm)
	sent := time.Now()
	revision, err := l.kv.Create(ctx, key, l.value)
	if errors.Is(err, jetstream.ErrKeyExists) {
		var entry jetstream.KeyValueEntry
		if entry, err = l.kv.Get(ctx, key); err != nil {
			return false, err
		}
		if err := json.Unmarshal(entry.Value(), other); err != nil || other.ID != l.c.Holder.ID {
			return false, nil
		}
		sent = time.Now()
		revision, err = l.kv.Update(ctx, key, l.value, entry.Revision())
	}
	if err != nil {
		return false, err
	}
	l.renewed(revision, sent)
	return true, nil
}

func (l *Lease) renewed(revision uint64, sent time.Time) {
	l.revision = revision
	l.until.Store(int64(sent.Sub(l.start)) + int64(margin*float64(l.c.TTL)))
}

// Holds reports whether the lease holds now: nobody else has it, and nobody
// else had it at any time before now since it was acquired.
func (l *Lease) Holds() bool { return int64(time.Since(l.start)) < l.until.Load() }

// Lost is closed when the lease was lost.
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
	sent := time.Now()
	revision, err := l.kv.Update(try, bus.LeaseKey(l.c.Realm), l.value, l.revision)
	switch {
	case err == nil:
		l.renewed(revision, sent)
		return true
	case ctx.Err() != nil:
		return true
	case bus.Classify(err) == bus.Conflict:
		// An earlier renewal that was not answered may have made it.
		if entry, err := l.kv.Get(try, bus.LeaseKey(l.c.Realm)); err == nil && string(entry.Value()) == string(l.value) {
			l.revision = entry.Revision()
			return l.Holds()
		}
		return false
	}
	l.c.Log.Warn("cannot renew the lease", "realm", l.c.Realm, "error", err)
	return l.Holds()
}

// Release gives the lease back, so that another need not wait for its end.
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
