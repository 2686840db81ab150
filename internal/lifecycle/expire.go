package lifecycle

import (
	"fmt"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// An object expires at a time that its metadata has (B6). It is then deleted like by a DELETE
// without options, never before. The scanner finds such objects and asks for their deletion;
// Expire decides it in the commit that deletes.

// ActorExpiry is the actor of the deletion of objects that have expired.
const ActorExpiry = "expiry"

// Expiry is the decision on an object of which the scanner says that it has expired.
type Expiry uint8

// The decisions of Expire.
const (
	// Expired: the object is deleted or marked.
	Expired Expiry = iota
	// NotDue: it is being deleted already, has another time to expire, or that is in the
	// future.
	NotDue
	// ExpiryProtected: it is protected (B6.4).
	ExpiryProtected
	// ExpiryBraked: the brake of its kind pauses the deletion (B6.4).
	ExpiryBraked
	// NoticeGiven: the policy gives notice (B6.7).
	NoticeGiven
	// NoticeWithdrawn: the policy withdraws its notice (B6.7).
	NoticeWithdrawn
	// NoticeLasts: the notice or a veto lasts, or no one has agreed to the deletion (B6.8, B6.9).
	NoticeLasts
)

// DueAt returns when the object expires, Never if it does not, or is being deleted.
func DueAt(n *Node) Time {
	if n == nil || n.ExpiresAt == 0 || n.Terminating() {
		return Never
	}
	return n.ExpiresAt
}

// Expire decides the deletion of an object that the scanner found to expire at the time at. seen
// is the time of the scanner's clock. The object is deleted only if neither seen nor the time of
// the commit is before at: one clock that is ahead does not delete it early (B6.2).
func Expire(ctx *Context, n *Node, at, seen Time) ([]Event, Expiry) {
	switch due := DueAt(n); {
	case due != at || due > ctx.Now || due > seen:
		return nil, NotDue
	}
	return expire(ctx, n)
}

// Match is the evaluation of an expiry policy on an object.
type Match struct {
	// Revision is that of the object, Applies the result.
	Revision uint64
	Applies  bool
	// At is the time of the evaluation, Seen that of the scanner.
	At, Seen Time
	Rule     NoticeRule
}

// ExpireMatching decides what follows from the evaluation of an expiry policy on an object with
// these notices (B6.5 to B6.9): its deletion, or the notice that the policy has now.
func ExpireMatching(ctx *Context, n *Node, list []Notice, m Match) ([]Event, Notice, Expiry) {
	if n.Terminating() || n.Revision != m.Revision || m.At > ctx.Now || m.At > m.Seen || Governs(n) {
		return nil, Notice{}, NotDue
	}
	if m.Seen > ctx.Now.Add(MaxVeto) {
		return nil, Notice{}, NotDue // the clock of the scanner is wrong
	}
	applies := m.Applies && !n.Protected() // B6.4
	switch m.Rule.Next(list, applies, min(ctx.Now, m.Seen)) {
	case NoticeGive:
		now := max(ctx.Now, m.Seen) // whichever clock is behind, the notice is long enough
		return nil, Notice{Policy: m.Rule.Policy, Generation: m.Rule.Generation, Given: ctx.Now, Ends: now.Add(m.Rule.Period)}, NoticeGiven
	case NoticeWithdraw:
		return nil, Notice{Policy: m.Rule.Policy}, NoticeWithdrawn
	case NoticeWait, NoticeKeep:
		return nil, Notice{}, NoticeLasts
	case NoticeNone:
		if m.Applies && n.Protected() {
			return nil, Notice{}, ExpiryProtected
		}
		return nil, Notice{}, NotDue
	}
	events, decision := expire(ctx, n)
	return events, Notice{}, decision
}

// expire decides the deletion of an object that is due.
func expire(ctx *Context, n *Node) ([]Event, Expiry) {
	if n.Protected() {
		return nil, ExpiryProtected // B6.4
	}
	events := deletion(ctx.View, ctx.Now, n, ctx.Kinds().OfNode(n), request{
		version: n.Version(), reason: coppicev1.Reason_REASON_REQUESTED,
	})
	for i := range events {
		events[i].Expired = true
	}
	if events = braked(ctx, events); len(events) == 0 {
		return nil, ExpiryBraked
	}
	return events, Expired
}

// expiryOf returns when an object expires whose metadata validateExpiry has passed. A fraction
// of a second is rounded up, because clients see whole seconds: an object that is read and
// written again does not expire earlier.
func expiryOf(meta *coppicev1.ObjectMeta) Time {
	t := meta.GetExpiresAt()
	if t == nil {
		return 0
	}
	seconds := t.GetSeconds()
	if t.GetNanos() > 0 {
		seconds++
	}
	if seconds == 0 {
		seconds = 1 // zero is none
	}
	return Time(seconds * 1e6)
}

// validateExpiry checks when an object expires (B6.1).
func validateExpiry(at Key, meta *coppicev1.ObjectMeta) []Cause {
	t := meta.GetExpiresAt()
	switch {
	case t == nil:
		return nil
	case t.CheckValid() != nil || t.GetSeconds() < 0 || t.GetSeconds() >= lastExpiry:
		return []Cause{invalidValue("metadata.expiresAt", t.GetSeconds(), "must be between the years 1970 and 9999")}
	case governing(at.Kind.Group, at.Kind.Kind):
		return []Cause{forbidden("metadata.expiresAt", "kinds and realm settings do not expire")}
	}
	return nil
}

// lastExpiry is the end of the year 9999 in Unix seconds, the last that a timestamp can have.
var lastExpiry = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()

// expiryWarnings warns about an object that is deleted at once.
func expiryWarnings(n *Node, now Time) []string {
	if DueAt(n) > now {
		return nil
	}
	return []string{fmt.Sprintf("metadata.expiresAt: %s is in the past: the object is deleted now", n.ExpiresAt.Time().Format(time.RFC3339))}
}
