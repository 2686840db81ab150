package lease

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/internal/bus"
)

// Members share the realms evenly:
//
//   - A member takes a free realm at once only if no other ready member has fewer realms. Otherwise it
//     waits for half a TTL, so that a realm is not left without a writer if the other
//     does not take it.
//   - A member that has at least two realms more than a ready member leaves realms to it,
//     a few at a time. So the numbers of any two members differ by at most one in the end,
//     and no realm goes back and forth.
//
// The numbers that a member sees of others may be out of date. Then a realm goes to the
// wrong member, and later to another.

// maxLeaving is the number of realms that a member leaves at the same time.
const maxLeaving = 4

// fewest returns the smallest number of realms that another ready member has; ok is false
// if there is none. m.mu is locked.
func (m *Member) fewest() (n int, ok bool) {
	now := m.c.Clock()
	for id, o := range m.view.others {
		if id == m.c.ID || !o.Ready || m.view.dead[o.Process] || now-o.since >= time.Duration(silence*float64(o.TTL)) {
			continue
		}
		has := 0
		for key, c := range m.view.claims {
			if bus.IsWriterClaim(key) && c.Process == o.Process {
				has++
			}
		}
		if !ok || has < n {
			n, ok = has, true
		}
	}
	return n, ok
}

// has returns the number of realms that this member has and keeps. m.mu is locked.
func (m *Member) has() int {
	n := 0
	for key := range m.taking {
		if bus.IsWriterClaim(key) {
			n++
		}
	}
	for key, l := range m.held {
		if bus.IsWriterClaim(key) && !l.leaving {
			n++
		}
	}
	return n
}

// mayTake reports whether this member should take a free realm now.
func (m *Member) mayTake(realm string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.c.Clock()
	if _, ok := m.view.free[realm]; !ok {
		m.view.free[realm] = now
	}
	n, ok := m.fewest()
	return !ok || m.has() <= n || now-m.view.free[realm] >= m.c.TTL/2
}

// balance has this member leave realms, if another has fewer.
func (m *Member) balance() {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, ok := m.fewest()
	if !ok || m.session == nil {
		return
	}
	leaving := 0
	for _, l := range m.held {
		if l.leaving {
			leaving++
		}
	}
	// Realms that are leaving already count for the other member.
	leave := min((m.has()-n-leaving)/2, maxLeaving-leaving)
	if leave <= 0 {
		return
	}
	var kept []*Lease
	for _, l := range slices.SortedFunc(maps.Values(m.held), func(a, b *Lease) int { return cmp.Compare(b.key, a.key) }) {
		if bus.IsWriterClaim(l.key) && !l.leaving && !l.over.Load() {
			kept = append(kept, l)
		}
	}
	for _, l := range kept[:min(leave, len(kept))] {
		m.c.Log.Info("another process has fewer realms, and takes this one over", "realm", l.key)
		l.leaving = true
		close(l.leave)
	}
}
