package propagator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/internal/worker"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// MaxNoticeCalls is the maximum number of calls about notices to one program that are in the stream.
const MaxNoticeCalls = 1000

// maxNoticeObject is the size in bytes, as JSON, above which an object is left out of its calls: those to
// one program have about 8 MiB.
const maxNoticeObject = 8 << 20 / MaxNoticeCalls

// Bounds of RecentCalls: an entry of a call has about 60 bytes.
const (
	maxRecentCalls = 1 << 16
	maxTurns       = 1 << 10
)

// RecentCalls knows which calls about notices were published in the last bus.ExpireAgain, so that no room is
// spent on those that the stream refuses, and how far each policy came when there was no room. It is safe for
// concurrent use. Losing an entry delays calls.
type RecentCalls struct {
	now func() time.Time

	mu        sync.Mutex
	published map[[sha256.Size / 2]byte]time.Time // by the id of the message and the age of the consumer
	turns     map[uid.UID]turn
}

// turn is how far the calls of a policy have come, in the order of names. If an evaluation has no room for
// all calls, the next one continues after the last object with a call. An evaluation after one that had room
// begins with the first object.
type turn struct {
	after state.NameCursor
	short bool // there was no room for the objects that follow
}

// NewRecentCalls returns the knowledge of no calls.
func NewRecentCalls(now func() time.Time) *RecentCalls {
	return &RecentCalls{now: now, published: map[[sha256.Size / 2]byte]time.Time{}, turns: map[uid.UID]turn{}}
}

func recentKey(id string) (key [sha256.Size / 2]byte) {
	sum := sha256.Sum256([]byte(id))
	copy(key[:], sum[:])
	return key
}

func (r *RecentCalls) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.published[recentKey(id)]
	return ok && r.now().Sub(at).Abs() < bus.ExpireAgain
}

func (r *RecentCalls) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if len(r.published) >= maxRecentCalls {
		for key, at := range r.published {
			if now.Sub(at).Abs() >= bus.ExpireAgain {
				delete(r.published, key)
			}
		}
		if len(r.published) >= maxRecentCalls {
			clear(r.published)
		}
	}
	r.published[recentKey(id)] = now
}

// Begin begins an evaluation of a policy on all objects.
func (r *RecentCalls) Begin(policy uid.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.turns[policy]
	if t.short { // and else it begins with the first object
		r.turns[policy] = turn{after: t.after}
	} else {
		delete(r.turns, policy)
	}
}

// admit reports whether a call about an object is published now: it is the object's turn, and there is room.
// If there is no room, the next evaluation continues with this object.
func (r *RecentCalls) admit(policy uid.UID, at state.NameCursor, room int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.turns[policy]
	if t.short || cmp.Or(cmp.Compare(at.Namespace, t.after.Namespace), cmp.Compare(at.Name, t.after.Name)) <= 0 {
		return false
	}
	if len(r.turns) >= maxTurns {
		clear(r.turns) // of policies that do not exist any more
	}
	if room <= 0 {
		t.short = true
	} else {
		t.after = at
	}
	r.turns[policy] = t
	return !t.short
}

// NoticeCalls are calls to a program about the notices of an expiry policy. They are collected while a
// snapshot is open, and published afterwards. They are hints: while a notice has no answer, evaluations of
// its policy publish its call again, at most once in bus.ExpireAgain. NoticeCalls are not safe for concurrent
// use.
type NoticeCalls struct {
	realm, name string
	recent      *RecentCalls
	age         time.Time
	out         outbox
	room        int
	calls       []sent
	err         error
}

// NewNoticeCalls returns calls to a program. room is how many it may have in the stream in addition to
// those that are there, and age when its consumer was created: if it was created again, calls may be lost
// with the stream, and are published again.
func NewNoticeCalls(js Publisher, recent *RecentCalls, realm, name string, room int, age time.Time) *NoticeCalls {
	return &NoticeCalls{realm: realm, name: name, recent: recent, age: age, room: room, out: outbox{js: js}}
}

// Add adds a call about an object and the notice of a policy. It adds none if there is no room, if the call
// was published in the last bus.ExpireAgain, or if it is the turn of other objects. A notice that was given
// just now (now) need not wait for its turn. keep: without an answer the object stays. Publish returns errors.
func (c *NoticeCalls) Add(snap *state.Snapshot, n *lifecycle.Node, policy string, keep, now bool, given lifecycle.Notice) {
	kind := snap.Kinds().OfNode(n)
	if kind == nil || c.err != nil {
		return
	}
	// One call for each notice, and one more for each veto that ends.
	id := fmt.Sprintf("%s.%s.%d.%d", n.UID, given.Policy, given.Given, given.Answer.Until)
	known := fmt.Sprintf("%s.%d", id, c.age.UnixNano())
	if c.recent.has(known) {
		return
	}
	if now && c.room <= 0 || !now && !c.recent.admit(given.Policy, state.NameCursor{Namespace: n.Namespace, Name: n.Name}, c.room) {
		return
	}
	body := snap.Body(n)
	object, truncated := callObject(n, body, maxNoticeObject)
	if snap.TakeUnreadable() != nil { // B8.1: the program finds that out when it reads the object
		object, truncated = briefObject(lifecycle.Object{Node: n}), true
	}
	to := bus.Expire{Realm: c.realm, Group: kind.Group, Plural: kind.Plural, UID: n.UID.String(), Name: c.name}.Subject()
	data, err := manifest.MarshalMessage(&coppicev1.ExpireCall{
		Resource: kind.Resource(), Object: object, Truncated: truncated, Name: c.name, Policy: policy, Ends: timestamppb.New(given.Due().Time()), Keep: keep,
		Answer: bus.API{Realm: c.realm, Actor: "*", Verb: bus.VerbVeto, Group: kind.Group, Plural: kind.Plural, Namespace: n.Namespace}.Subject(),
		Format: worker.Format,
	})
	if err != nil {
		c.err = fmt.Errorf("%s: %w", to, err)
		return
	}
	c.room--
	c.calls = append(c.calls, sent{once: true, stored: func() { c.recent.add(known) }, m: &nats.Msg{Subject: to, Data: data, Header: nats.Header{
		bus.HeaderContentType: []string{bus.ContentJSON}, jetstream.MsgIDHeader: []string{id},
	}}})
}

// Publish publishes the calls that were added. A call whose object has one in the stream is not
// published. The error says which one cannot be published, or that the stream is full.
func (c *NoticeCalls) Publish(ctx context.Context) error {
	calls := c.calls
	c.calls = nil
	for _, s := range calls {
		if err := c.out.put(ctx, s); err != nil {
			return err
		}
	}
	if err := c.out.flush(ctx); err != nil {
		return err
	}
	return c.err
}
