package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// view is what a member has seen of the buckets. Decisions that would harm if it were out of
// date are made by a write that names a revision.
type view struct {
	others map[string]*other        // members, by ID; this process too, as others see it
	claims map[string]claim         // by key
	free   map[string]time.Duration // since when a realm has no claim, by the clock
	dead   map[string]bool          // the ids of memberships that have ended for sure
	stray  map[string]time.Duration // since when a claim of this member has no lease
}

// other is another member's key.
type other struct {
	member
	revision uint64
	since    time.Duration // when this revision was first read, by the clock
}

// claim is the claim of a realm.
type claim struct {
	Holder
	revision uint64
}

func newView() view {
	return view{others: map[string]*other{}, claims: map[string]claim{}, free: map[string]time.Duration{}, dead: map[string]bool{}, stray: map[string]time.Duration{}}
}

// look reads the buckets, if they have changed.
func (m *Member) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(m.c.TTL/2, time.Second))
	defer cancel()
	// Claims first: the member of a claim that was read is among the members then, or has
	// ended.
	return errors.Join(
		m.read(ctx, bucketWriters, bus.WriterBucket, m.seeClaims),
		m.read(ctx, bucketMembers, bus.LeaseBucket, m.seeMembers),
	)
}

// read calls see with all keys of a bucket, unless it is as it was.
func (m *Member) read(ctx context.Context, i int, name string, see func([]bus.BucketEntry)) error {
	if _, err := m.bucket(ctx, i, name); err != nil {
		return err
	}
	changed, err := m.readers[i].Update(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		m.buckets[i] = nil // the next call creates it again
	}
	if err == nil && changed {
		see(m.readers[i].Entries())
	}
	return err
}

// seeMembers records the members. m.mu is locked.
func (m *Member) seeMembers(entries []bus.BucketEntry) {
	now := m.c.Clock()
	seen := map[string]bool{}
	for _, entry := range entries {
		if id, ok := bus.IDOfMember(entry.Key); ok {
			seen[id] = true
			m.see(id, entry.Value, entry.Revision, now)
		}
	}
	maps.DeleteFunc(m.view.others, func(id string, _ *other) bool { return !seen[id] })
}

// see records the key of a member, and returns it. m.mu is locked.
func (m *Member) see(id string, value []byte, revision uint64, now time.Duration) *other {
	o := m.view.others[id]
	if o == nil || o.revision != revision {
		o = &other{decode(value), revision, now}
		m.view.others[id] = o
	}
	return o
}

// seeClaims records the claims. m.mu is locked.
func (m *Member) seeClaims(entries []bus.BucketEntry) {
	claims := make(map[string]claim, len(entries))
	for _, entry := range entries {
		if bus.IsCutKey(entry.Key) {
			continue
		}
		c := claim{revision: entry.Revision}
		if err := json.Unmarshal(entry.Value, &c.Holder); err != nil {
			c.Holder = Holder{Name: fmt.Sprintf("unknown (%v)", err)}
		}
		claims[entry.Key] = c
		if m.alive(c.Holder) {
			delete(m.view.free, entry.Key)
		}
	}
	m.view.claims = claims
	for key, l := range m.held {
		if c, ok := claims[key]; ok && c.revision > l.revision && c.Process != l.session.process {
			m.c.Log.Error("another process has taken a lease", "lease", key, "holder", c.Name)
			l.lose()
		}
	}
}

// dropStray deletes claims of this member that belong to none of its leases: the reply to the request
// that made or deleted such a claim was lost. While the member lives, no other would take the realm.
func (m *Member) dropStray(ctx context.Context) error {
	stray := map[string]uint64{}
	m.mu.Lock()
	now := m.c.Clock()
	for realm, c := range m.view.claims {
		since, known := m.view.stray[realm]
		switch {
		case m.session == nil || c.Process != m.session.process || m.held[realm] != nil || m.taking[realm]:
			delete(m.view.stray, realm)
		case !known:
			m.view.stray[realm] = now
		case now-since > m.c.TTL/2:
			stray[realm] = c.revision
		}
	}
	m.mu.Unlock()
	for realm, revision := range stray {
		writers, err := m.writers(ctx)
		if err == nil {
			err = writers.Delete(ctx, realm, jetstream.LastRevision(revision))
		}
		if err != nil && bus.Classify(err) != bus.Conflict {
			return err
		}
	}
	return nil
}

// silent reports whether the holder of a key has been silent for so long that it does not
// rely on the key any more, or whether the key is of an earlier membership of this process.
func (m *Member) silent(id string, entry jetstream.KeyValueEntry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.c.Clock()
	o := m.see(id, entry.Value(), entry.Revision(), now)
	return m.former[o.Process] || now-o.since >= time.Duration(silence*float64(o.TTL))
}

// Writers returns the name of the process that has the lease, for each realm that has one,
// as this member has seen it last.
func (m *Member) Writers() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]string{}
	for key, c := range m.view.claims {
		if bus.IsWriterClaim(key) && m.alive(c.Holder) {
			names[key] = c.Name
		}
	}
	return names
}

// alive reports whether the membership of a holder seems to go on. m.mu is locked.
func (m *Member) alive(h Holder) bool {
	o := m.view.others[h.ID]
	return o != nil && o.Process == h.Process && !m.view.dead[h.Process]
}
