// Package lease elects the writer and the archiver of each realm, and shares the realms among processes. A
// lease makes it rare that a realm has two writers at a time. Safety does not depend on it:
// every append names the sequence that it expects, so the log refuses the appends of a former
// writer.
//
// # Members and claims
//
// A process that may write is a member: it has a key in the bucket [bus.LeaseBucket], which it
// renews five times in a TTL ([Config.TTL]), for all of its realms at once. A realm's writer has a claim: a
// key in the bucket [bus.WriterBucket] that names the member, and so has its archiver. A claim
// is not renewed; it counts while its member does.
//
// A member relies on its own clock since boot: its leases are valid for three quarters of the
// TTL after the last successful renewal was *sent*. Another member takes its claims when it
// has seen for longer than that, by its own clock, that the key was not renewed. It
// deletes the key first, at the revision that it has seen: so the next renewal fails, and
// a member whose key was renewed meanwhile keeps its claims.
//
// # Shares
//
// Members share the realms evenly: see balance.go.
//
// # What a lease assumes
//
// Whatever the clocks do, a former writer cannot append, because the log fences it. These
// assumptions guarantee in addition that a former writer sends no replies that depend on
// the state alone, such as reads and refusals:
//
//   - Clocks since boot run at the same rate, to within 6%.
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
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
	// Process identifies the membership of a process by a random id. Member sets it.
	Process string `json:"process"`
	// Name is the host and the process id, for operators.
	Name string `json:"name"`
}

// Config configures a Member.
type Config struct {
	// ID identifies the process's state directory, and any copy of it. At most one of the processes
	// with the same ID is a member. Required.
	ID string
	// Name is the host and the process id, for operators.
	Name string
	// TTL is the time after which another member takes the claims of one that does not renew
	// its key; 5 s if zero. Members may have different ones.
	TTL      time.Duration
	Replicas int
	Log      *slog.Logger
	// Ready reports whether this process could write its realms now. Other members give
	// realms only to one that is ready. Nil: always.
	Ready func() bool
	// Clock is the clock since boot; clock.SinceBoot if nil.
	Clock func() time.Duration

	// In tests; zero for the default:
	end  time.Duration // what endTimeout returns
	look time.Duration // between two looks at the buckets
}

// DefaultTTL is the default of Config.TTL.
const DefaultTTL = 5 * time.Second

const (
	// margin is the fraction of the TTL for which a member relies on a renewal.
	margin = 0.75
	// silence is the fraction of the TTL after which another member may delete a key that
	// was not renewed: margin, plus the difference that clocks may have.
	silence = 0.8
	// renewals is the number of renewals in a TTL.
	renewals = 5
	// looks is the number of looks at the buckets in a TTL, and longestLook the longest time
	// between two, while a realm waits for its lease.
	looks       = 40
	longestLook = 250 * time.Millisecond
	// idle is the longest time between two looks while no realm waits for its lease.
	idle = time.Second
)

func (c *Config) defaults() {
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Clock == nil {
		c.Clock = clock.SinceBoot
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Ready == nil {
		c.Ready = func() bool { return true }
	}
}

// endTimeout returns the time within which a lease or a membership is ended, so that others need not wait
// until it has expired. A service that stops does not wait longer for NATS.
func (c *Config) endTimeout() time.Duration {
	if c.end > 0 {
		return c.end
	}
	return min(max(time.Second, c.TTL/5), 5*time.Second)
}

// Lease is the lease of a realm. It is safe for concurrent use.
type Lease struct {
	m        *Member
	key      string // of the claim
	session  *session
	revision uint64 // of the claim

	over     atomic.Bool   // lost or released
	lost     chan struct{} // closed once
	losing   sync.Once
	leave    chan struct{} // closed when another member is to have the realm
	leaving  bool          // under Member.mu
	releases sync.Once
}

// Holds reports whether this process has the lease and has had it, without interruption,
// since Acquire. It is safe for concurrent use and does not block.
func (l *Lease) Holds() bool {
	return !l.over.Load() && int64(l.m.c.Clock()) < l.session.until.Load()
}

// Lost returns a channel that is closed when the lease is lost.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Leave returns a channel that is closed when this process should stop to write the realm,
// and release the lease, because another member has fewer realms.
func (l *Lease) Leave() <-chan struct{} { return l.leave }

// lose ends the lease.
func (l *Lease) lose() {
	l.over.Store(true)
	l.losing.Do(func() { close(l.lost) })
}

// Release releases the lease, so that another member can take it at once.
func (l *Lease) Release(ctx context.Context) (err error) {
	l.releases.Do(func() { err = l.release(ctx) })
	return err
}

func (l *Lease) release(ctx context.Context) error {
	held := l.Holds()
	l.over.Store(true)
	defer l.m.forget(l)
	if !held {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.m.c.endTimeout())
	defer cancel()
	writers, err := l.m.writers(ctx)
	if err == nil {
		err = writers.Delete(ctx, l.key, jetstream.LastRevision(l.revision))
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && bus.Classify(err) != bus.Conflict {
		return fmt.Errorf("lease %s: release: %w", l.key, err)
	}
	return nil
}
