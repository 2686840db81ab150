package lease

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Member is a process that can hold leases. Its methods are safe for concurrent use.
type Member struct {
	c  Config
	js jetstream.JetStream

	opening chan struct{}        // has an element while a bucket is opened or created
	readers [2]*bus.BucketReader // of the buckets; only Run uses them

	mu      sync.Mutex
	buckets [2]jetstream.KeyValue // see members and writers
	session *session              // nil while this process is no member
	former  map[string]bool       // the ids of earlier memberships of this process
	held    map[string]*Lease     // by key
	taking  map[string]bool       // the keys of claims that are being made
	waiting int                   // calls of Acquire
	err     error                 // of the last renewal or look
	view    view
	copied  string        // the process that was reported to use a copy of the directory
	looked  chan struct{} // closed after the next look
	awake   chan struct{} // gets a token when Acquire is called
}

// session is one membership. A process that has lost it begins another one, and has none of
// the leases of before.
type session struct {
	process  string // random
	revision uint64 // of the key; only Run uses it
	until    atomic.Int64
}

// member is the content of a member's key.
type member struct {
	Holder
	// TTL is the member's Config.TTL in nanoseconds.
	TTL time.Duration `json:"ttl"`
	// Ready is what its Config.Ready has returned.
	Ready bool `json:"ready"`
}

// New returns a member. Run makes this process one.
func New(js jetstream.JetStream, c Config) *Member {
	c.defaults()
	return &Member{
		c: c, js: js, opening: make(chan struct{}, 1), former: map[string]bool{}, held: map[string]*Lease{}, taking: map[string]bool{},
		readers: [2]*bus.BucketReader{bucketMembers: bus.NewBucketReader(js, bus.LeaseBucket), bucketWriters: bus.NewBucketReader(js, bus.WriterBucket)},
		view:    newView(), looked: make(chan struct{}), awake: make(chan struct{}, 1),
	}
}

// Run renews the member's key and looks at the others', until ctx ends. All leases must be
// released before.
func (m *Member) Run(ctx context.Context) {
	var renewed, seen time.Duration // by the clock; when that was done last
	first := true
	for {
		now := m.c.Clock()
		var err error
		if first || now-renewed >= m.c.TTL/renewals || m.current() == nil {
			err = m.renew(ctx)
			renewed = now
		}
		if first || now-seen >= m.pause() {
			err = errors.Join(err, m.look(ctx))
			m.balance()
			err = errors.Join(err, m.dropStray(ctx))
			seen = now
		}
		first = false
		m.finish(err)
		tick := time.NewTimer(max(min(m.c.TTL/renewals-(m.c.Clock()-renewed), m.pause()-(m.c.Clock()-seen)), time.Millisecond))
		select {
		case <-ctx.Done():
			tick.Stop()
			m.end()
			return
		case <-m.awake:
		case <-tick.C:
		}
		tick.Stop()
	}
}

// Claimed reports whether another process seems to have a lease. It may have released it since the last look.
func (m *Member) Claimed(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.view.claims[key]
	own := m.session != nil && c.Process == m.session.process || m.former[c.Process]
	return ok && !own && m.alive(c.Holder)
}

// pause returns the time between two looks.
func (m *Member) pause() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.c.look > 0 {
		return m.c.look
	}
	often := min(m.c.TTL/looks, longestLook)
	if m.waiting > 0 {
		return often
	}
	return max(often, min(idle, m.c.TTL/renewals))
}

// finish records the outcome of a round of Run, and wakes Acquire.
func (m *Member) finish(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	close(m.looked)
	m.looked = make(chan struct{})
}

func (m *Member) current() *session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}

// key returns the member's key, which all copies of its directory share.
func (m *Member) key() string { return bus.MemberKey(m.c.ID) }

func (m *Member) value(s *session) []byte {
	b, err := json.Marshal(member{Holder: Holder{ID: m.c.ID, Process: s.process, Name: m.c.Name}, TTL: m.c.TTL, Ready: m.c.Ready()})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return b
}

// renew renews the key, or begins a membership. It returns an error if NATS has not
// replied.
func (m *Member) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.c.TTL/4)
	defer cancel()
	s := m.current()
	if s == nil {
		return m.join(ctx)
	}
	members, err := m.members(ctx)
	if err == nil {
		sent := m.c.Clock()
		var revision uint64
		if revision, err = members.Update(ctx, m.key(), m.value(s), s.revision); err == nil {
			m.renewed(s, revision, sent)
			return nil
		}
	}
	if bus.Classify(err) == bus.Conflict {
		// An earlier renewal whose reply was lost may have written it.
		if entry, fail := members.Get(ctx, m.key()); fail == nil && decode(entry.Value()).Process == s.process {
			s.revision = entry.Revision()
			err = nil
		} else if fail == nil || errors.Is(fail, jetstream.ErrKeyNotFound) {
			m.lose(s)
			return nil
		}
	}
	if int64(m.c.Clock()) >= s.until.Load() {
		m.lose(s)
	}
	return err
}

// join begins a membership, unless that of another process with the same id may still be valid.
func (m *Member) join(ctx context.Context) error {
	members, err := m.members(ctx)
	if err != nil {
		return err
	}
	s := &session{process: rand.Text()}
	sent := m.c.Clock()
	revision, err := members.Create(ctx, m.key(), m.value(s))
	if errors.Is(err, jetstream.ErrKeyExists) {
		var entry jetstream.KeyValueEntry
		if entry, err = members.Get(ctx, m.key()); err != nil {
			return err
		}
		if !m.silent(m.c.ID, entry) {
			m.reportCopy(decode(entry.Value()))
			return nil
		}
		sent = m.c.Clock()
		revision, err = members.Update(ctx, m.key(), m.value(s), entry.Revision())
	}
	if err != nil && bus.Classify(err) == bus.Conflict {
		return nil
	}
	if err != nil {
		return err
	}
	m.renewed(s, revision, sent)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = s
	return nil
}

// reportCopy reports that another process uses this one's directory, or a copy of it.
func (m *Member) reportCopy(other member) {
	if m.copied == other.Process {
		return
	}
	m.copied = other.Process
	m.c.Log.Info("an earlier process with this data directory may hold leases; waiting until they end. If that process is running, one directory is a copy of the other, which does no harm",
		"holder", other.Name, "lease", other.TTL)
}

func (m *Member) renewed(s *session, revision uint64, sent time.Duration) {
	s.revision = revision
	s.until.Store(int64(sent) + int64(margin*float64(m.c.TTL)))
}

// lose ends a membership, and all leases with it.
func (m *Member) lose(s *session) {
	s.until.Store(0)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.former[s.process] = true
	m.session = nil
	for _, l := range m.held {
		l.lose()
	}
}

// forget removes a lease that is over.
func (m *Member) forget(l *Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[l.key] == l {
		delete(m.held, l.key)
	}
}

// end deletes the key, so that no member waits for this one.
func (m *Member) end() {
	s := m.current()
	if s == nil {
		return
	}
	m.lose(s)
	ctx, cancel := context.WithTimeout(context.Background(), m.c.endTimeout())
	defer cancel()
	members, err := m.members(ctx)
	if err == nil {
		err = members.Delete(ctx, m.key(), jetstream.LastRevision(s.revision))
	}
	if err != nil && bus.Classify(err) != bus.Conflict {
		m.c.Log.Warn("cannot delete the key of this process; others wait until its leases have expired", "error", err)
	}
}

// The buckets, by their index in Member.buckets.
const (
	bucketMembers = iota
	bucketWriters
)

// members opens the bucket of members.
func (m *Member) members(ctx context.Context) (jetstream.KeyValue, error) {
	return m.bucket(ctx, bucketMembers, bus.LeaseBucket)
}

// writers opens the bucket of claims.
func (m *Member) writers(ctx context.Context) (jetstream.KeyValue, error) {
	return m.bucket(ctx, bucketWriters, bus.WriterBucket)
}

func (m *Member) bucket(ctx context.Context, i int, name string) (jetstream.KeyValue, error) {
	opened := func() jetstream.KeyValue {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.buckets[i]
	}
	if kv := opened(); kv != nil {
		return kv, nil
	}
	select {
	case m.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("bucket %s: %w", name, ctx.Err())
	}
	defer func() { <-m.opening }()
	if kv := opened(); kv != nil {
		return kv, nil
	}
	kv, err := bus.EnsureBucket(ctx, m.js, name, m.c.Replicas)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.buckets[i] = kv
	m.mu.Unlock()
	return kv, nil
}

func decode(value []byte) member {
	var other member
	if err := json.Unmarshal(value, &other); err != nil {
		other = member{Holder: Holder{Name: "unknown: " + err.Error()}}
	}
	if other.TTL <= 0 {
		other.TTL = DefaultTTL
	}
	return other
}
