package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// An expiry policy may give notice before it deletes an object (B6.7). The notice is kept next to
// the object, and is no change of it. It can be answered until the object is deleted (B6.8).

// MaxNotices is the maximum number of policies that have given notice for one object.
const MaxNotices = 8

// NoticeRule is what an expiry policy says about notices.
type NoticeRule struct {
	// Policy is the uid of the policy, and Generation its generation.
	Policy     uid.UID
	Generation int64
	// Period is how long a notice lasts; zero for none.
	Period time.Duration
	// Keep: an object is kept if no one agrees to its deletion (B6.9).
	Keep bool
}

// Notice is the notice that a policy has given for an object.
type Notice struct {
	Policy uid.UID
	// Generation is that of the policy which gave the notice. A notice of another generation is
	// given again. Zero: there is no notice.
	Generation int64
	// Given is the time of the commit that gave the notice, and Ends when it ends.
	Given, Ends Time
	// Answer is the last answer; zero for none.
	Answer NoticeAnswer
}

// NoticeAnswer is an answer to a notice.
type NoticeAnswer struct {
	Actor, Reason string
	// Until is when a veto ends; zero if the actor agrees to the deletion.
	Until Time
}

// Agreed reports whether the actor agrees to the deletion.
func (a NoticeAnswer) Agreed() bool { return a.Actor != "" && a.Until == 0 }

// Due returns when the object is deleted at the earliest if nothing else happens.
func (n *Notice) Due() Time { return max(n.Ends, n.Answer.Until) }

// Calls reports whether the program that the policy names is called at a time: nothing has answered,
// or the last veto ends within askAgain (B6.8).
func (n *Notice) Calls(now Time) bool {
	return n.Generation != 0 && !n.Answer.Agreed() && n.Answer.Until <= now.Add(askAgain)
}

// askAgain is how long before the end of a veto the program is called again. It is more than twice
// bus.ExpireAgain, so that a call which is lost is published again before the veto ends.
const askAgain = 25 * time.Minute

// Text says what the notice of a policy means. keep: the object stays unless someone agrees.
func (n *Notice) Text(policy string, keep bool) string {
	at := func(t Time) string { return t.Time().Format(time.RFC3339) }
	text := fmt.Sprintf("expiry policy %s has given notice: ", policy)
	switch {
	case n.Answer.Agreed():
		text += fmt.Sprintf("deleted at %s; %s agrees: %s", at(n.Due()), n.Answer.Actor, n.Answer.Reason)
	case keep:
		text += "stays unless someone agrees to its deletion"
	default:
		text += "deleted at " + at(n.Due())
	}
	if n.Answer.Until != 0 {
		text += fmt.Sprintf("; vetoed by %s until %s: %s", n.Answer.Actor, at(n.Answer.Until), n.Answer.Reason)
	}
	return text
}

// Stale reports whether a notice is withdrawn because of its policy: the policy does not exist any
// more, is being deleted, or was changed.
func (n *Notice) Stale(policy *Node) bool {
	return policy == nil || policy.Terminating() || policy.Generation != n.Generation
}

// Withdrawn reports whether a notice is withdrawn at a time because of its policy: it is stale. While a
// veto lasts, a stale notice stays if its policy exists and is not being deleted, because the policy
// could give notice again (B6.8).
func (n *Notice) Withdrawn(policy *Node, now Time) bool {
	return n.Stale(policy) && (policy == nil || policy.Terminating() || n.Answer.Until <= now)
}

// NoticeOf returns the notice of a policy, zero for none.
func NoticeOf(list []Notice, policy uid.UID) Notice {
	if i, found := slices.BinarySearchFunc(list, policy, comparePolicy); found {
		return list[i]
	}
	return Notice{}
}

// WithNotice returns the list with a notice in place of that of the same policy. A notice without
// a generation is removed. The list is ordered by the uid of the policy, and is not changed.
func WithNotice(list []Notice, n Notice) []Notice {
	i, found := slices.BinarySearchFunc(list, n.Policy, comparePolicy)
	end := i
	if found {
		end++
	}
	changed := slices.Clone(list[:i])
	if n.Generation != 0 {
		changed = append(changed, n)
	}
	return append(changed, list[end:]...)
}

func comparePolicy(n Notice, policy uid.UID) int {
	return strings.Compare(string(n.Policy), string(policy))
}

// NoticeStep is the next step for an object after a policy was evaluated on it.
type NoticeStep uint8

// The steps.
const (
	// NoticeNone: nothing.
	NoticeNone NoticeStep = iota
	// NoticeGive: the policy gives notice.
	NoticeGive
	// NoticeWithdraw: the notice is withdrawn, because the policy does not apply any more.
	NoticeWithdraw
	// NoticeWait: the notice or a veto lasts.
	NoticeWait
	// NoticeKeep: the notice has ended, and the object is kept until someone agrees.
	NoticeKeep
	// NoticeDelete: the object is deleted.
	NoticeDelete
)

// Next returns what follows at a time from the evaluation of the policy on an object with these
// notices (B6.7 to B6.9).
func (r *NoticeRule) Next(list []Notice, applies bool, now Time) NoticeStep {
	n := NoticeOf(list, r.Policy)
	switch given := n.Generation != 0; {
	case now < n.Answer.Until:
		return NoticeWait // a veto lasts whatever happens to the policy
	case !applies && given:
		return NoticeWithdraw
	case !applies:
		return NoticeNone
	case r.Period == 0:
		return NoticeDelete
	case !given && len(list) >= MaxNotices:
		return NoticeNone
	case n.Generation != r.Generation:
		return NoticeGive
	case now < n.Ends:
		return NoticeWait
	case r.Keep && !n.Answer.Agreed():
		return NoticeKeep
	}
	return NoticeDelete
}

// Answered returns the notices of an object after an answer to all of them, or why they cannot be
// answered (B6.8). at names the object, and want are preconditions of the answer.
func Answered(ctx *Context, at Key, n *Node, list []Notice, a NoticeAnswer, want *coppicev1.Preconditions) ([]Notice, *Error) {
	now := ctx.Now
	if err := checkPreconditions(at, n, want); err != nil {
		return nil, err
	}
	switch {
	case n.Terminating():
		return nil, errConflict(at, "it is being deleted; 'coppice explain' says why")
	case len(list) == 0:
		return nil, errConflict(at, "no expiry policy has given notice of its deletion; there is nothing to answer")
	case a.Until != 0 && a.Until <= now:
		return nil, ErrBadRequest("until: %s is not in the future", a.Until.Time().Format(time.RFC3339))
	case a.Until > now.Add(MaxVeto):
		return nil, ErrBadRequest("until: %s is more than %d days away; change the object or the policy instead", a.Until.Time().Format(time.RFC3339), MaxVeto/(24*time.Hour))
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Answer = a
	}
	return list, nil
}

// MaxVeto is the maximum time for which a veto postpones a deletion.
const MaxVeto = 366 * 24 * time.Hour
