package lifecycle

import (
	"slices"
	"time"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// The propagation policies of a DELETE (A4.2).
const (
	Orphan     = "Orphan"
	Background = "Background"
	Foreground = "Foreground"
)

// ValidateDeleteOptions checks what can be checked before looking at the
// object (A4.1 to A4.3).
func ValidateDeleteOptions(k Key, o *coppicev1.DeleteOptions) *Error {
	var causes []Cause
	policy := o.GetPropagationPolicy()
	if o != nil && o.OrphanDependents != nil && policy != "" {
		causes = append(causes, invalidValue("propagationPolicy", policy, "orphanDependents and propagationPolicy cannot be both set"))
	}
	switch policy {
	case "", Orphan, Background, Foreground:
	default:
		causes = append(causes, notSupported("propagationPolicy", policy, Foreground, Background, Orphan))
	}
	for _, d := range o.GetDryRun() {
		if d != "All" {
			causes = append(causes, notSupported("dryRun", d, "All"))
		}
	}
	if o != nil && o.GracePeriodSeconds != nil {
		causes = append(causes, checkGrace("gracePeriodSeconds", o.GetGracePeriodSeconds())...)
	}
	if len(causes) > 0 {
		e := invalid(k, causes)
		e.Message = "the delete options for " + e.Message
		return e
	}
	return nil
}

// Delete decides a DELETE (A4, A5). version is the version of the request, whose default
// policy applies if nothing else decides (C080); empty for the kind's first version.
func Delete(ctx *Context, at Key, version string, o *coppicev1.DeleteOptions) (*Outcome, *Error) {
	if err := ValidateDeleteOptions(at, o); err != nil {
		return nil, err
	}
	if version != "" {
		if err := checkVersion(at, version); err != nil {
			return nil, err
		}
	}
	n, err := Find(ctx.View, at)
	if err != nil {
		return nil, err // A4.8
	}
	if err := checkPreconditions(at, n, o.GetPreconditions()); err != nil {
		return nil, err // A4.6
	}
	if n.Protected() {
		return nil, errProtected(ctx.View, at, n) // B2.1
	}
	var asked *int64
	if o != nil {
		asked = o.GracePeriodSeconds
	}
	events := deletion(ctx.View, ctx.Now, n, at.Kind, request{
		policy: PolicyOf(o), version: version, grace: asked, reason: coppicev1.Reason_REASON_REQUESTED,
	})
	code := uint32(202)
	if len(events) == 1 && events[0].Type == ObjectDeleted {
		code = 200
	}
	return &Outcome{Code: code, Events: events, Object: Object{Node: n, Body: ctx.Body(n)}}, nil
}

// PolicyOf returns the propagation policy that the options of a DELETE give, in either form; empty if
// they give none.
func PolicyOf(o *coppicev1.DeleteOptions) string {
	policy := o.GetPropagationPolicy()
	if o != nil && o.OrphanDependents != nil {
		if policy = Background; o.GetOrphanDependents() {
			policy = Orphan
		}
	}
	return policy
}

// GraceOf returns the grace period in seconds that the options of a DELETE give (A4.5), and whether
// they give one.
func GraceOf(o *coppicev1.DeleteOptions) (seconds int64, given bool) {
	if o == nil || o.GracePeriodSeconds == nil {
		return 0, false
	}
	return leastGrace(o.GetGracePeriodSeconds()), true
}

// request has the parameters of a deletion.
type request struct {
	policy  string // or ""
	version string // whose default policy applies
	grace   *int64 // seconds
	reason  coppicev1.Reason
	cause   uint64
}

// deletion decides a deletion of n (A5) by a client, the collector or an import. It
// returns no event if the deletion changes nothing.
func deletion(v View, now Time, n *Node, kind *Kind, r request) []Event {
	if n.Protected() {
		return nil // B2.1 to B2.3
	}
	at, grace, ignored := ending(now, n, kind, r.grace)
	if ignored {
		return nil
	}
	chosen := deletionFinalizer(n, r.policy, kind.DefaultFor(r.version))
	finalizers := withInUse(v, n, deletionFinalizers(n.Finalizers, chosen)) // B3.1
	if chosen == "" && leavesInUse(v, n, finalizers) {
		// It begins with the finalizers that n has, so that a repeated DELETE keeps their order (A5.1).
		finalizers = deletionFinalizers(withInUse(v, n, n.Finalizers), FinalizerForeground) // B3.2
	}
	finalizers = withProtection(n, withContents(v, n, finalizers)) // A5.7, B2.13
	if n.Ending() && grace == 0 && slices.Equal(finalizers, n.Finalizers) {
		// The agent has confirmed, or the DELETE does not wait for it.
		r.reason, r.cause = coppicev1.Reason_REASON_FINALIZED, n.DeletionRevision
	}
	if len(finalizers) == 0 && grace == 0 {
		// Also when it was terminating before (A5.2).
		return []Event{deleted(n, r.reason, r.cause)}
	}
	mark := Mark{Time: at, GracePeriod: &grace, Generation: n.Generation, Finalizers: finalizers, AwaitedGeneration: n.AwaitedGeneration}
	if !n.Terminating() {
		if mark.Generation > 0 {
			mark.Generation++ // A7.1
		}
		if kind.ObservesGeneration {
			mark.AwaitedGeneration = mark.Generation
		}
	}
	if n.Terminating() && n.DeletionTime == at && n.GracePeriod != nil && *n.GracePeriod == grace && slices.Equal(n.Finalizers, finalizers) {
		return nil // A5.1
	}
	return []Event{{Type: DeletionMarked, UID: n.UID, Reason: r.reason, Cause: r.cause, Mark: mark}}
}

// ending returns until when the object's agent has time, and the grace period in seconds
// (A5, step 3). If the agent has been called already, a DELETE can only shorten the time.
// ignored reports that the DELETE would not shorten it, and therefore has no effect.
func ending(now Time, n *Node, kind *Kind, asked *int64) (at Time, grace int64, ignored bool) {
	switch {
	case n.Ending() && kind.GracefulDeletion != nil:
		was := *n.GracePeriod
		if asked == nil || leastGrace(*asked) >= was {
			return 0, 0, true
		}
		grace = leastGrace(*asked)
		at = n.DeletionTime.Add(time.Duration(grace-was) * time.Second)
		if at < now {
			if at = now; grace > 0 {
				grace = 1
			}
		}
		return at, grace, false
	case !n.Terminating() && n.Grace != nil:
		grace = *n.Grace
		if asked != nil {
			grace = leastGrace(*asked)
		}
		return now.Add(time.Duration(grace) * time.Second), grace, false
	case n.Terminating() && n.DeletionTime <= now:
		return n.DeletionTime, 0, false // a past value is kept
	}
	return now, 0, false
}

// deletionFinalizer is the built-in finalizer that a DELETE leaves on the
// object, "" for none: A5, step 1. Unsupported outranks the options, they
// outrank an existing finalizer, and that outranks the kind's default.
func deletionFinalizer(n *Node, policy string, byDefault DefaultDeletion) string {
	switch {
	case byDefault == Unsupported:
		return ""
	case policy == Orphan:
		return FinalizerOrphan
	case policy == Background:
		return ""
	case policy == Foreground:
		return FinalizerForeground
	case n.HasFinalizer(FinalizerOrphan):
		return FinalizerOrphan
	case n.HasFinalizer(FinalizerForeground):
		return FinalizerForeground
	case byDefault == OrphanDependents:
		return FinalizerOrphan
	}
	return ""
}

// deletionFinalizers replaces the finalizers orphan and foregroundDeletion in the list
// by chosen, or removes them if chosen is "" (A5, step 2). If that leaves the same set,
// it returns the list unchanged.
func deletionFinalizers(list []string, chosen string) []string {
	var next []string
	for _, f := range list {
		if f != FinalizerOrphan && f != FinalizerForeground {
			next = append(next, f)
		}
	}
	if chosen != "" {
		next = append(next, chosen)
	}
	if sameSet(list, next) {
		return list
	}
	return next
}

func sameSet(a, b []string) bool {
	return all(a, oneOf(b)) && all(b, oneOf(a))
}

func all(list []string, is func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
}

// deleted is the event of an object's removal. Finalizers that the object
// still has are those that the same step removed.
func deleted(n *Node, reason coppicev1.Reason, cause uint64) Event {
	return Event{Type: ObjectDeleted, UID: n.UID, Reason: reason, Cause: cause, Finalizers: n.Finalizers}
}
