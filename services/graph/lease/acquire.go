package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Options are options of Acquire.
type Options struct {
	// Anyway takes the lease also if another member has fewer realms.
	Anyway bool
	// Archiver takes the lease of the realm's archiver, not that of its writer. It does not
	// count as a realm when members share the realms.
	Archiver bool
	// Attempted, unless nil, is called after each attempt with its error. The error is nil if
	// NATS has replied, also if another process has the lease.
	Attempted func(err error)
}

// Acquire waits until this process has the lease of a realm. It returns an error when ctx
// ends. Run must run meanwhile.
func (m *Member) Acquire(ctx context.Context, realm string, o Options) (*Lease, error) {
	if o.Attempted == nil {
		o.Attempted = func(error) {}
	}
	log, key, anyway := m.c.Log.With("realm", realm), realm, o.Anyway
	if o.Archiver {
		key, anyway = bus.ArchiverClaim(realm), true
	}
	m.mu.Lock()
	m.waiting++
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.waiting--
		m.mu.Unlock()
	}()
	select {
	case m.awake <- struct{}{}:
	default:
	}
	reported := Holder{}
	for {
		m.mu.Lock()
		looked, failure, s := m.looked, m.err, m.session
		m.mu.Unlock()
		var l *Lease
		var holder Holder
		err := failure
		if err == nil && s != nil {
			l, holder, err = m.try(ctx, key, s, anyway)
		}
		if ctx.Err() == nil {
			o.Attempted(err)
		}
		switch {
		case l != nil:
			return l, nil
		case err != nil && ctx.Err() == nil && !bus.IsNotReady(err):
			log.Warn("cannot acquire the lease", "error", err)
		case holder != reported && holder != Holder{}:
			reported = holder
			if !o.Archiver {
				log.Info("another writer holds the lease; standing by", "holder", holder.Name)
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-looked:
		}
	}
}

// try takes the lease if it is free. Otherwise it returns the holder.
func (m *Member) try(ctx context.Context, key string, s *session, anyway bool) (*Lease, Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, m.c.TTL/2)
	defer cancel()
	m.mu.Lock()
	c, claimed := m.view.claims[key]
	own := c.Process == s.process || m.former[c.Process]
	m.mu.Unlock()
	if claimed && !own {
		ended, err := m.ended(ctx, c.Holder)
		if err != nil || !ended {
			return nil, c.Holder, err
		}
	}
	if !anyway && !m.mayTake(key) {
		return nil, Holder{}, nil
	}
	writers, err := m.writers(ctx)
	if err != nil {
		return nil, Holder{}, err
	}
	value, err := json.Marshal(Holder{ID: m.c.ID, Process: s.process, Name: m.c.Name})
	if err != nil {
		return nil, Holder{}, fmt.Errorf("lease: %w", err)
	}
	l := &Lease{m: m, key: key, session: s, lost: make(chan struct{}), leave: make(chan struct{})}
	m.mu.Lock()
	if held := m.held[key]; m.taking[key] || held != nil && !held.over.Load() {
		m.mu.Unlock()
		return nil, Holder{}, nil // another call of Acquire of this process has it
	}
	m.taking[key] = true
	m.mu.Unlock()
	if claimed {
		l.revision, err = writers.Update(ctx, key, value, c.revision)
	} else {
		l.revision, err = writers.Create(ctx, key, value)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.taking, key)
	if errors.Is(err, jetstream.ErrKeyExists) || err != nil && bus.Classify(err) == bus.Conflict {
		return nil, Holder{}, nil // another member was faster, and the next look shows it
	}
	if err != nil {
		return nil, Holder{}, fmt.Errorf("lease %s: %w", key, err)
	}
	if m.session != s {
		return nil, Holder{}, nil // the membership was lost meanwhile
	}
	m.held[key] = l
	m.view.claims[key] = claim{Holder{ID: m.c.ID, Process: s.process, Name: m.c.Name}, l.revision}
	delete(m.view.free, key)
	return l, Holder{}, nil
}

// ended reports whether a membership has ended. If its process has been silent for too long, ended
// ends the membership by deleting the key: see the package comment.
func (m *Member) ended(ctx context.Context, h Holder) (bool, error) {
	m.mu.Lock()
	dead := m.view.dead[h.Process]
	o := m.view.others[h.ID]
	seems := o == nil || o.Process != h.Process || m.c.Clock()-o.since >= time.Duration(silence*float64(o.TTL))
	m.mu.Unlock()
	if dead || !seems {
		return dead, nil
	}
	members, err := m.members(ctx)
	if err != nil {
		return false, err
	}
	entry, err := members.Get(ctx, bus.MemberKey(h.ID))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		m.died(h)
		return true, nil
	case err != nil:
		return false, err
	case decode(entry.Value()).Process != h.Process:
		m.died(h) // its successor has its key
		return true, nil
	case !m.silent(h.ID, entry):
		return false, nil
	}
	err = members.Delete(ctx, entry.Key(), jetstream.LastRevision(entry.Revision()))
	if err != nil {
		if bus.Classify(err) == bus.Conflict {
			err = nil // it was renewed, or another member has deleted it
		}
		return false, err
	}
	m.died(h)
	return true, nil
}

func (m *Member) died(h Holder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.dead[h.Process] = true
}
