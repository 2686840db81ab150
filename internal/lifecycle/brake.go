package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client/api"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// A brake bounds how many objects of one kind the collector deletes within a window (B4.1).
// When the bound is reached, the next such deletion trips the brake: counted deletions of
// the kind pause until the brake is released. A DELETE by a user is never counted and never
// refused.

// BrakePolicy is how many objects of a kind may be deleted within a window. The zero
// BrakePolicy is no brake.
type BrakePolicy struct {
	// Objects is the maximum number, zero for none. Percent is the maximum share of the
	// objects that the kind has when the window begins, zero for none. If both are set, both
	// apply.
	Objects, Percent uint64
	Window           time.Duration
}

// On reports whether there is a brake.
func (p BrakePolicy) On() bool { return p.Objects > 0 || p.Percent > 0 }

// Limit is the maximum number of deletions in a window that begins with so many objects. A
// share of them is rounded up (B4.2).
func (p BrakePolicy) Limit(objects uint64) uint64 {
	limit := ^uint64(0)
	if p.Objects > 0 {
		limit = p.Objects
	}
	if p.Percent > 0 {
		limit = min(limit, objects/100*p.Percent+(objects%100*p.Percent+99)/100)
	}
	return limit
}

// String returns the policy as in "1000 objects or 10% within 10m0s".
func (p BrakePolicy) String() string {
	switch {
	case !p.On():
		return "off"
	case p.Percent == 0:
		return fmt.Sprintf("%d objects within %s", p.Objects, p.Window)
	case p.Objects == 0:
		return fmt.Sprintf("%d%% within %s", p.Percent, p.Window)
	}
	return fmt.Sprintf("%d objects or %d%% within %s", p.Objects, p.Percent, p.Window)
}

// Brake is what the log says about the deletions of a kind. The zero Brake has counted
// none.
type Brake struct {
	// Since is when the window began: the time of the commit with its first counted deletion.
	Since Time
	// Base is the number of objects that the kind had then, Counted the number of counted
	// deletions since.
	Base, Counted uint64
	// Tripped is the time of the commit that tripped the brake, zero if it is not tripped.
	Tripped Time
}

// over reports whether the window has ended. A tripped brake has no end.
func (b Brake) over(p BrakePolicy, now Time) bool {
	return b.Tripped == 0 && (b.Since == 0 || b.Since.Add(p.Window) <= now)
}

// Room is how many more objects may be deleted now. objects is the number that the kind has.
func (b Brake) Room(p BrakePolicy, objects uint64, now Time) uint64 {
	switch {
	case !p.On():
		return ^uint64(0)
	case b.Tripped != 0:
		return 0 // B4.3
	case b.over(p, now):
		return p.Limit(objects)
	}
	return p.Limit(b.Base) - min(b.Counted, p.Limit(b.Base))
}

// Count returns the brake after one more counted deletion. objects is the number of objects
// before it.
func (b Brake) Count(p BrakePolicy, objects uint64, now Time) Brake {
	if b.over(p, now) {
		b = Brake{Since: now, Base: objects}
	}
	b.Counted++
	return b
}

// Trip returns the brake after a deletion was refused. objects is the number of objects of the
// kind. More deletions in one commit than the limit begin a window too.
func (b Brake) Trip(p BrakePolicy, objects uint64, now Time) Brake {
	if b.over(p, now) {
		b = Brake{Since: now, Base: objects}
	}
	b.Tripped = now
	return b
}

// Release returns the brake after its release. The window does not begin again: what is not
// released trips the brake again until the window ends (B4.5).
func (b Brake) Release() Brake {
	b.Tripped = 0
	return b
}

// BrakeOf returns the brake policy of a kind: that of the realm, which the kind's own can
// only make stricter (B4.1).
func BrakeOf(v View, k *Kind) BrakePolicy { return v.Settings().Brake.and(k.brake) }

// and returns the policy that stops whatever one of the two stops: the smaller bounds, and
// the longer window.
func (p BrakePolicy) and(q BrakePolicy) BrakePolicy {
	switch {
	case !p.On():
		return q
	case !q.On():
		return p
	}
	smaller := func(a, b uint64) uint64 {
		if a == 0 || b == 0 {
			return max(a, b) // zero is no bound
		}
		return min(a, b)
	}
	return BrakePolicy{Objects: smaller(p.Objects, q.Objects), Percent: smaller(p.Percent, q.Percent), Window: max(p.Window, q.Window)}
}

// anyBrake reports whether any kind may have a brake. It is cheap.
func anyBrake(v View) bool { return v.Settings().Brake.On() || v.Kinds().braked }

// Counted reports whether a brake counts the event: the mark of an object by the collector,
// or its removal if it was not marked before. The collector acts on no object that is
// terminating, so that it counts each object once (B4.2).
func Counted(e *Event) bool {
	if e.Type != DeletionMarked && e.Type != ObjectDeleted {
		return false
	}
	switch e.Reason {
	case coppicev1.Reason_REASON_OWNER_ABSENT, coppicev1.Reason_REASON_OWNER_WAITING,
		coppicev1.Reason_REASON_CONTAINER, coppicev1.Reason_REASON_UNREACHABLE:
		return true
	}
	return e.Expired
}

// CountDeletion returns the brake of the object's kind after the event. n is the object
// before it. It returns false if no brake counts the event.
func CountDeletion(v View, e *Event, n *Node, now Time) (k *Kind, b Brake, counted bool) {
	if !anyBrake(v) || !Counted(e) {
		return nil, b, false
	}
	k = v.Kinds().OfNode(n)
	p := BrakeOf(v, k)
	if !p.On() || v.Released(n.UID) {
		return nil, b, false
	}
	b, objects := v.Brake(k)
	return k, b.Count(p, objects, now), true
}

// Braked reports whether the brake of the kind of n pauses the deletion of n by the
// collector.
func Braked(v View, n *Node) bool {
	if !anyBrake(v) {
		return false
	}
	k := v.Kinds().OfNode(n)
	if k == nil || !BrakeOf(v, k).On() {
		return false
	}
	b, _ := v.Brake(k)
	return b.Tripped != 0 && !v.Released(n.UID)
}

// braked returns the events of the collector, or none if the brake of one of the kinds
// refuses them. A brake that refuses is tripped by Context.Trip.
func braked(ctx *Context, events []Event) []Event {
	if !anyBrake(ctx.View) {
		return events
	}
	needed := map[*Kind]uint64{}
	for i := range events {
		e := &events[i]
		if !Counted(e) || ctx.Released(e.UID) {
			continue
		}
		k := ctx.Kinds().OfNode(ctx.Node(e.UID))
		b, objects := ctx.Brake(k)
		needed[k]++
		p := BrakeOf(ctx.View, k)
		if needed[k] <= b.Room(p, objects, ctx.Now) {
			continue
		}
		if b.Tripped == 0 && ctx.Trip != nil {
			ctx.Trip(k, b.Trip(p, objects, ctx.Now))
		}
		return nil
	}
	return events
}

// BrakeStatus returns the brake of a kind as clients see it.
func BrakeStatus(v View, k *Kind, now Time) *coppicev1.BrakeStatus {
	policy := BrakeOf(v, k)
	b, objects := v.Brake(k)
	if b.over(policy, now) {
		b = Brake{Base: objects} // the next window
	}
	return &coppicev1.BrakeStatus{
		Resource: k.Resource(), Objects: policy.Objects, Percent: policy.Percent, WindowMilliseconds: uint64(policy.Window.Milliseconds()),
		Since: int64(b.Since), Limit: policy.Limit(b.Base), Counted: b.Counted, Tripped: int64(b.Tripped), Total: objects,
	}
}

// Releasable reports whether a release can let the deletion of n through: it exists and is
// not being deleted yet.
func Releasable(n *Node) bool { return n != nil && !n.Terminating() }

// SameOwners reports whether two states of an object have the same owner references. A
// release of an object ends when they change (B4.5).
func SameOwners(a, b *Node) bool { return slices.Equal(a.Owners, b.Owners) }

// parseBrake reads the brake of a kind or of a realm.
func parseBrake(field string, b *api.Brake) (p BrakePolicy, causes []Cause) {
	if b == nil {
		return p, nil
	}
	if b.Objects == 0 && b.Percent == 0 && !b.Off {
		causes = append(causes, required(field+".objects", "a brake has objects or percent, or off: true"))
	}
	if b.Objects < 0 {
		causes = append(causes, invalidValue(field+".objects", fmt.Sprint(b.Objects), "must be at least 1"))
	}
	if b.Percent < 0 || b.Percent > 100 {
		causes = append(causes, invalidValue(field+".percent", fmt.Sprint(b.Percent), "must be between 1 and 100"))
	}
	p.Window = defaultWindow
	causes = append(causes, duration(field+".window", b.Window, time.Second, &p.Window)...)
	if len(causes) > 0 {
		return BrakePolicy{}, causes
	}
	if b.Off {
		return BrakePolicy{}, nil
	}
	p.Objects, p.Percent = uint64(b.Objects), uint64(b.Percent)
	return p, nil
}

// defaultWindow is the window of a brake that does not name one.
const defaultWindow = 10 * time.Minute
