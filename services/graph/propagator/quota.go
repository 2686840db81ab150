package propagator

import (
	"slices"
	"sync"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Limits bound how many calls of external finalizers and agents wait in the
// stream that they share, so that one without a consumer cannot keep the
// others from being called.
type Limits struct {
	// Calls and Bytes are for each finalizer, and for the agent of each kind.
	Calls int
	Bytes int64
	// IdleCalls and IdleBytes are for all finalizers and agents together whose
	// calls no consumer takes.
	IdleCalls int
	IdleBytes int64
}

// DefaultLimits are those of a realm: of 10,000 calls and 16 MiB for each, and of
// half of the stream for all without a consumer.
func DefaultLimits() Limits {
	calls, bytes := bus.CallCapacity()
	return Limits{Calls: 10_000, Bytes: 16 << 20, IdleCalls: calls / 2, IdleBytes: bytes / 2}
}

// quota counts the calls that wait in the stream, by callee. A call counts from
// when it is published until its object no longer needs it, also if a consumer
// has acknowledged it before: then it is published again some time later. Calls
// beyond the limits wait as rows of pending work; see refill.
//
// It is safe for concurrent use. Its memory is bounded by the limits.
type quota struct {
	limits Limits

	mu      sync.Mutex
	callees map[string]*callee
	live    map[string]bool       // as last observed
	calls   map[callOf]call       // that wait in the stream
	of      map[uid.UID][]*callee // of the calls of an object
	idle    struct {              // of the callees that are not live
		calls int
		bytes int64
	}
}

// callee is an external finalizer, or the agent of a kind.
type callee struct {
	name  string // its durable consumer
	live  bool   // a consumer takes its calls
	total int    // calls of objects, parked ones among them
	calls int    // those that wait in the stream
	bytes int64
	// short: some of its calls wait as rows, the first of them of this object.
	short bool
	first uid.UID
}

// callOf identifies a call.
type callOf struct {
	object uid.UID
	callee *callee
}

type call struct {
	bytes  int64
	parked bool // it waits for a person, and not in the stream
}

func newQuota(l Limits) *quota {
	return &quota{limits: l, callees: map[string]*callee{}, calls: map[callOf]call{}, of: map[uid.UID][]*callee{}}
}

// admit reports whether a call of the object may be published, and whether it
// counts already. If it may, it counts from now on, with no bytes until weigh.
// If not, or if now is false, the callee is remembered as short.
func (q *quota) admit(u uid.UID, name string, now bool) (ok, counted bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.callees[name]
	if c == nil {
		c = &callee{name: name, live: q.live[name]}
		q.callees[name] = c
	}
	is := callOf{u, c}
	_, counted = q.calls[is]
	switch {
	case counted:
		return true, true
	case now && q.room(c):
		q.calls[is], q.of[u] = call{}, append(q.of[u], c)
		c.total++
		q.change(c, call{}, 1)
		return true, false
	case !c.short || u < c.first:
		c.short, c.first = true, u
	}
	return false, false
}

// weigh sets the size of a call that was admitted, unless it has been released.
func (q *quota) weigh(u uid.UID, name string, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := callOf{u, q.callees[name]}
	if k, ok := q.calls[is]; ok {
		q.change(is.callee, k, -1)
		k.bytes = bytes
		q.change(is.callee, k, 1)
		q.calls[is] = k
	}
}

// park sets whether a call is parked, and then uses up no share of the stream. It
// reports whether calls that wait as rows may have room now.
func (q *quota) park(u uid.UID, name string, parked bool) (room bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := callOf{u, q.callees[name]}
	k, ok := q.calls[is]
	if !ok || k.parked == parked {
		return false
	}
	q.change(is.callee, k, -1)
	k.parked = parked
	q.change(is.callee, k, 1)
	q.calls[is] = k
	return q.worthwhile(is.callee)
}

// room reports whether another call of c may be published.
func (q *quota) room(c *callee) bool {
	return c.calls < q.limits.Calls && c.bytes < q.limits.Bytes &&
		(c.live || q.idle.calls < q.limits.IdleCalls && q.idle.bytes < q.limits.IdleBytes)
}

// keep stops counting the calls of the object to all but these callees. It
// reports whether calls that wait as rows may have room now.
func (q *quota) keep(u uid.UID, names ...string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.of[u]) == 0 {
		return false
	}
	needed := make(map[string]struct{}, len(names))
	for _, name := range names {
		needed[name] = struct{}{}
	}
	return q.drop(u, func(name string) bool {
		_, keep := needed[name]
		return !keep
	})
}

// release stops counting all calls of objects. It reports whether calls that wait as
// rows may have room now.
func (q *quota) release(gone ...uid.UID) (room bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range gone {
		room = q.drop(u, func(string) bool { return true }) || room
	}
	return room
}

// forget stops counting one call of the object.
func (q *quota) forget(u uid.UID, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.drop(u, func(other string) bool { return other == name })
}

// drop stops counting some calls of the object, by callee.
func (q *quota) drop(u uid.UID, dropped func(name string) bool) bool {
	callees, ok := q.of[u]
	if !ok {
		return false
	}
	room := false
	callees = slices.DeleteFunc(callees, func(c *callee) bool {
		if !dropped(c.name) {
			return false
		}
		is := callOf{u, c}
		q.change(c, q.calls[is], -1)
		delete(q.calls, is)
		c.total--
		room = room || q.worthwhile(c)
		q.unneeded(c)
		return true
	})
	if len(callees) == 0 {
		delete(q.of, u)
	} else {
		q.of[u] = callees
	}
	return room
}

// unneeded forgets a callee that has no calls.
func (q *quota) unneeded(c *callee) {
	if c.total == 0 && !c.short && q.callees[c.name] == c {
		delete(q.callees, c.name)
	}
}

// change counts n calls of c that are as k.
func (q *quota) change(c *callee, k call, n int) {
	if k.parked {
		return
	}
	c.calls += n
	c.bytes += int64(n) * k.bytes
	if !c.live {
		q.idle.calls += n
		q.idle.bytes += int64(n) * k.bytes
	}
}

// worthwhile reports whether rows are to be read for c: whether half of each of its
// limits is free again. Reading costs as much as there are rows, so it has to find
// many calls.
func (q *quota) worthwhile(c *callee) bool {
	if !c.short || c.calls > q.limits.Calls/2 || c.bytes > q.limits.Bytes/2 {
		return false
	}
	return c.live || q.idle.calls <= q.limits.IdleCalls/2 && q.idle.bytes <= q.limits.IdleBytes/2 || c.calls == 0 && q.room(c)
}

// observe learns which callees have a consumer that takes calls. It reports
// whether calls that wait as rows may have room now.
func (q *quota) observe(live map[string]bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.live = live
	for _, c := range q.callees {
		if now := live[c.name]; now != c.live {
			sign := 1
			if now {
				sign = -1
			}
			c.live = now
			q.idle.calls += sign * c.calls
			q.idle.bytes += int64(sign) * c.bytes
		}
	}
	room := false
	for _, c := range q.callees {
		room = room || q.worthwhile(c)
	}
	return room
}

// wanted returns the callees for which rows are to be read, because they have room,
// and the smallest uid of an object whose call waits. Callees that are found to be
// short from then on are marked again.
func (q *quota) wanted() (first uid.UID, seeking []*callee) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.callees {
		if c.short && q.room(c) {
			if len(seeking) == 0 || c.first < first {
				first = c.first
			}
			c.short, c.first = false, ""
			seeking = append(seeking, c)
		}
	}
	return first, seeking
}

// seeks reports whether one of these callees has not been found to be short again.
func (q *quota) seeks(seeking []*callee) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(seeking, func(c *callee) bool { return !c.short })
}

// sought is called when rows were read for these callees. Those for which no call was found are forgotten.
func (q *quota) sought(seeking []*callee) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range seeking {
		q.unneeded(c)
	}
}

// resume records that rows were read for these callees only up to a uid: rounds, which
// publish new calls meanwhile, may have used up the room.
func (q *quota) resume(seeking []*callee, after uid.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range seeking {
		if c.short && after < c.first {
			c.first = after
		}
	}
}

// waits reports whether calls of an object that has none in the stream may wait
// as rows.
func (q *quota) waits(u uid.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.of[u]; ok {
		return false
	}
	for _, c := range q.callees {
		if c.short && u >= c.first {
			return true
		}
	}
	return false
}

// total is how many calls count.
func (q *quota) total() (calls int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.callees {
		calls += c.calls
		bytes += c.bytes
	}
	return calls, bytes
}

// any reports whether there are callees at all.
func (q *quota) any() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.callees) > 0
}
