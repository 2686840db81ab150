package lifecycle

import (
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Traits are the properties of an object that an evaluation needs in addition to the
// classes of its owner references. They are the bits of one byte, so that a reply has
// them in a column.
type Traits uint8

// The traits.
const (
	// Live is set for an object that exists.
	Live Traits = 1 << iota
	// IsTerminating is set for an object that is marked for deletion.
	IsTerminating
	// HasDependents is set for an object with dependents whose references are valid.
	HasDependents
	// GoesAtOnce is set for an object that a deletion removes in the same step:
	// no finalizer, agent or content blocks it.
	GoesAtOnce
	// IsProtected is set for an object that must not be deleted, because it is protected.
	IsProtected
	// IsBraked is set for an object whose deletion by the collector a brake pauses.
	IsBraked
)

// TraitsOf returns the traits of a live object.
func TraitsOf(v View, n *Node) Traits {
	t := ownTraits(v, n)
	if hasDependents(v, n) {
		t |= HasDependents
	}
	if !n.Protected() && goesAtOnce(v, n) {
		t |= GoesAtOnce
	}
	return t
}

// ownTraits returns the traits of a live object that other objects do not change, and
// IsBraked. They are cheap.
func ownTraits(v View, n *Node) Traits {
	t := Live
	if n.Terminating() {
		t |= IsTerminating
	}
	if n.Protected() {
		t |= IsProtected
	}
	if Braked(v, n) {
		t |= IsBraked
	}
	return t
}

func hasDependents(v View, n *Node) bool { return Dependents(v, n).All > 0 }

// goesAtOnce reports whether collecting n in the background removes it in the same step.
// A built-in finalizer blocks it too, if it is honoured (A12.9).
func goesAtOnce(v View, n *Node) bool {
	if n.Terminating() || n.Grace != nil && *n.Grace != 0 || AnyContent(v, n) != "" || v.Users(n).All > 0 {
		return false
	}
	return len(n.Finalizers) == 0 ||
		v.Settings().Propagation == Cascade && len(deletionFinalizers(n.Finalizers, "")) == 0
}

// Decision is what the collector does with an object.
type Decision uint8

// The decisions.
const (
	// Keep: nothing is to be done.
	Keep Decision = iota
	// CollectObject: no owner keeps the object. It is deleted in the background, or as
	// its own finalizers say.
	CollectObject
	// CollectForeground: no owner keeps the object, an owner waits, and the object has
	// dependents. It is deleted in the foreground.
	CollectForeground
	// StripReferences: a solid owner keeps the object; its dangling and waiting
	// references are removed.
	StripReferences
	// Wait: no known owner keeps the object, but an owner is unknown.
	Wait
	// KeepProtected: no owner keeps the object, but it is protected.
	KeepProtected
	// Pause: no owner keeps the object, and the brake of its kind is tripped (B4.3).
	Pause
)

func (v Decision) String() string {
	return [...]string{"keep", "collect", "collect-foreground", "strip", "wait", "keep-protected", "pause"}[v]
}

// Decide is the collector's decision table (A12). Its input are an object's traits and
// the classes of its owner references. Processors propose what it returns, and the writer
// calls it again in the commit that acts.
func Decide(t Traits, classes []Class) Decision {
	switch {
	case t&Live == 0, t&IsTerminating != 0, len(classes) == 0:
		// A deletion cannot be undone (A12.2). An object without owners is a
		// root (A12.5).
		return Keep
	}
	var solid, waiting, dangling, unknown int
	for _, c := range classes {
		switch c {
		case Solid:
			solid++
		case Waiting:
			waiting++
		case Dangling:
			dangling++
		default:
			unknown++
		}
	}
	switch {
	case solid > 0 && waiting+dangling > 0:
		return StripReferences // A12.7
	case solid > 0:
		return Keep
	case unknown > 0:
		return Wait // S2
	case t&IsProtected != 0:
		return KeepProtected // B2.2
	case t&IsBraked != 0:
		return Pause // B4.3
	case waiting > 0 && t&HasDependents != 0:
		return CollectForeground // A12.8
	}
	return CollectObject // A12.9
}

// Evaluation is a decision and the reason for it.
type Evaluation struct {
	Decision Decision
	Reason   coppicev1.Reason
	// Cause is the revision of the event that removed the object's last owner, or that
	// made a reference dangling or waiting.
	Cause uint64
	// Until is the earliest time at which an unknown owner counts as absent.
	Until Time
}

// Evaluate evaluates one live object at one state.
func Evaluate(v View, n *Node, now Time) Evaluation {
	var room [8]Class
	classes := room[:0]
	var j Evaluation
	of := NewClassifier(v, n, now)
	for i := range n.Owners {
		c := of.Classify(&n.Owners[i])
		classes = append(classes, c.Class)
		switch c.Class {
		case Waiting:
			// If an owner waits, that is the reason: without the foreground
			// deletion the object might have been kept.
			if j.Reason != coppicev1.Reason_REASON_OWNER_WAITING {
				j.Reason, j.Cause = coppicev1.Reason_REASON_OWNER_WAITING, c.Cause
			} else {
				j.Cause = max(j.Cause, c.Cause)
			}
		case Dangling:
			if j.Reason != coppicev1.Reason_REASON_OWNER_WAITING {
				// The cause is the removal of the last owner.
				j.Reason, j.Cause = coppicev1.Reason_REASON_OWNER_ABSENT, max(j.Cause, c.Cause)
			}
		case Unknown:
			if c.Until != 0 && (j.Until == 0 || c.Until < j.Until) {
				j.Until = c.Until
			}
		}
	}
	t := ownTraits(v, n)
	if j.Reason == coppicev1.Reason_REASON_OWNER_WAITING && hasDependents(v, n) {
		t |= HasDependents // it matters while an owner waits only
	}
	j.Decision = Decide(t, classes)
	if j.Decision == StripReferences {
		j.Reason = coppicev1.Reason_REASON_SOLID_OWNER_REMAINS
	}
	return j
}
