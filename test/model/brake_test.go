package model_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/client/api"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Brakes (B4). Scripts have them on kinds of their own, so that no script slows another.

// brake is what a brake has counted.
type brake struct {
	since, tripped int64
	base, counted  int
}

// limit is the maximum number of deletions in a window (B4.1).
func (k *kind) limit(objects int) int {
	n := objects
	if k.Brake.Objects > 0 {
		n = k.Brake.Objects
	}
	if k.Brake.Percent > 0 {
		n = min(n, (objects*k.Brake.Percent+99)/100)
	}
	return n
}

// unlimited is the room of a kind without a brake.
const unlimited = 1 << 30

// window returns the brake of a kind at a time: a new one if the window has ended.
func (m *model) window(k *kind, now int64) brake {
	b := m.brakes[k.resource()]
	length, err := time.ParseDuration(k.Brake.Window)
	if err != nil {
		panic(err)
	}
	if b.tripped == 0 && b.since+length.Microseconds() <= now {
		b = brake{since: now, base: m.population(k)}
	}
	return b
}

func (m *model) population(k *kind) (n int) {
	for _, o := range m.objects {
		if m.kindOf(o) == k {
			n++
		}
	}
	return n
}

// room is how many more objects of the kind of o the collector may delete (B4.3).
func (m *model) room(o *object, now int64) int {
	k := m.kindOf(o)
	if k == nil || k.Brake == nil || m.released[o.uid] {
		return unlimited
	}
	b := m.window(k, now)
	if b.tripped != 0 {
		return 0
	}
	return max(0, k.limit(b.base)-b.counted)
}

// count counts a deletion by the collector (B4.2).
func (m *model) count(o *object, now int64) {
	if k := m.kindOf(o); k != nil && k.Brake != nil && !m.released[o.uid] {
		b := m.window(k, now)
		b.counted++
		m.brakes[k.resource()] = b
	}
}

// counted reports whether brakes count an event.
func (e *step) counted(actor string) bool {
	if e.what != "marked" && e.what != "deleted" {
		return false
	}
	return slices.Contains([]string{"OWNER_ABSENT", "OWNER_WAITING", "CONTAINER", "UNREACHABLE"}, e.reason) || expiring(actor)
}

// braking checks that the brake allows an event, and counts it.
func (a *auditor) braking(actor string, e *step, o *object, now int64) {
	if !e.counted(actor) {
		return
	}
	if a.m.room(o, now) == 0 && !a.releasing {
		a.violation(tagOf(o), "B4.3: %v was deleted in spite of the brake %+v", o, a.m.brakes[a.m.kindOf(o).resource()])
	}
	a.m.count(o, now)
}

// braked checks what a commit records of brakes.
func (a *auditor) braked(e *coppicev1.Event, now int64) {
	m := a.m
	for u := range uid.All(e.GetReleased().GetUids()) {
		if o := m.objects[u.String()]; o == nil || o.terminating() || !a.releasing {
			a.violation("", "B4.5: the deletion of %v was let through, by a release: %t", o, a.releasing)
		} else {
			m.released[o.uid] = true
		}
	}
	is := e.GetBrake()
	if is == nil {
		return
	}
	var k *kind
	for _, each := range m.kinds {
		if each.resource() == is.GetResource() {
			k = each
		}
	}
	if k == nil || k.Brake == nil {
		a.violation("", "B4.1: a brake of %s, which has none", is.GetResource())
		return
	}
	b := m.brakes[k.resource()]
	tag := tagOf(m.objects[k.uid])
	switch {
	case is.GetTripped() == b.tripped:
	case is.GetTripped() == 0 && a.releasing:
		b.tripped = 0
		for _, o := range m.objects {
			if s := a.scripts[tag]; s != nil && s.paused[o.uid] == o.revision && m.paused(o, now) && !m.released[o.uid] {
				a.violation(tag, "B4.4: the deletion of %v was pending, and was not let through", o)
			}
		}
	case is.GetTripped() == now:
		if b = m.window(k, now); b.counted < k.limit(b.base) && !m.options.collect {
			a.violation(tag, "B4.3: the brake of %s was tripped after %d of %d", k.resource(), b.counted, k.limit(b.base))
		}
		b.tripped = now
	}
	if got := (brake{is.GetSince(), is.GetTripped(), int(is.GetBase()), int(is.GetCounted())}); a.releasing {
		b = got
	} else if got != b {
		a.violation(tag, "B4.2: the log has the brake of %s as %+v, not as %+v", k.resource(), got, b)
	}
	m.brakes[k.resource()] = b
}

// paused reports whether a tripped brake pauses the collection of an object.
func (m *model) paused(o *object, now int64) bool {
	k := m.kindOf(o)
	if k == nil || k.Brake == nil || m.brakes[k.resource()].tripped == 0 {
		return false
	}
	decision, _, _ := m.evaluate(o, now)
	return decision == "collect" || decision == "foreground"
}

// brakes returns what becomes of a deletion that brakes count: the deletion, a trip, or nothing.
func (m *model) braked(a action, now int64) (action, bool) {
	need := map[*kind]int{}
	for _, e := range a.effects {
		o := m.objects[e.uid]
		k := m.kindOf(o)
		need[k]++
		if m.room(o, now) >= need[k] {
			continue
		}
		if m.brakes[k.resource()].tripped != 0 {
			return action{}, false
		}
		return action{name: "trip the brake of " + k.resource(), trips: k}, true
	}
	a.counts = true
	return a, true
}

// trip trips the brake of a kind.
func (m *model) trip(k *kind, now int64) {
	b := m.window(k, now)
	b.tripped = now
	m.brakes[k.resource()] = b
}

// release releases the brake of the script's kind.
func (s *script) release(ctx context.Context) error {
	resource := client.Resource{Group: s.tag + ".example.com", Plural: "lates"}
	s.a.mu.Lock()
	s.paused = map[string]uint64{}
	for _, o := range s.a.project(s.tag).objects {
		if s.a.m.paused(o, s.a.now) && !s.a.m.released[o.uid] {
			s.paused[o.uid] = o.revision
		}
	}
	s.a.mu.Unlock()
	reply, err := client.New(s.w.nc, client.WithActor(s.tag)).Operations().ReleaseBrake(ctx, resource)
	if synced := s.w.sync(ctx); synced != nil { // the model has the release when the auditor has read it
		return errors.Join(err, synced)
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.snapshot = nil // a release is no command of the model
	if s.paused = nil; errors.Is(err, api.ErrUnknownKind) {
		return nil
	}
	if err == nil && reply.Released > 0 {
		s.a.events["brake: released"]++
	}
	return err
}

// cloneBrakes copies what brakes have counted and let through.
func (m *model) cloneBrakes(from *model) {
	m.brakes, m.released = maps.Clone(from.brakes), maps.Clone(from.released)
}
