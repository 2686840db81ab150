package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/uid"
)

// Owed is what has still to happen because of one uid. It is a function of the
// state: it holds as long as it is true, whatever messages were lost, and it is
// true until somebody has acted (A10.6 is edge-triggered; this is not).
type Owed struct {
	// Judge: dependents of the uid are to be judged, because it is absent,
	// because it waits for them, or because they claim to be owned by
	// something that it is not.
	Judge bool
	// JudgeAt is when judging them is due; zero for now, Never if only
	// knowledge helps that time does not bring. Where dependents were
	// imported it is when the grace of the last of them is over, so that an
	// import is not judged again and again: some may be ready before.
	JudgeAt Time
	// Orphan: dependents of the object are to be parted from it.
	Orphan bool
	// Finish names the built-in finalizer that may be done, "" if none. It is
	// not the contents finalizer: see Evict.
	Finish string
	// Held: the object waits for dependents that are being deleted. It may be
	// that one of them waits for it in turn: see Unblock.
	Held bool
	// Evict: what is in the namespace or of the kind is to be deleted, and the
	// contents finalizer is done when nothing is left. Which of both it is, is
	// told by AnyContent: objects come and go without a look at their container,
	// so that what is owed must not depend on them.
	Evict bool
	// Terminate: the agent of the terminating object is to be called.
	Terminate bool
	// Finalize: external finalizers of the terminating object are to be called.
	Finalize bool
}

// Never is later than every other Time.
const Never = Time(1<<63 - 1)

// maxClaims is how many different claims on one owner are looked at before
// its dependents are judged one by one in any case.
const maxClaims = 16

// OwedBy returns what is owed because of u. n is the live object, or nil.
func OwedBy(v View, u uid.UID, n *Node) Owed {
	var o Owed
	if n == nil {
		all := v.Count(u, Claims{}) // of any claim
		if all.Pending() > 0 {
			o.Judge, o.JudgeAt = true, judgeAbsentAt(v, u)
		}
		return o
	}
	if n.Terminating() {
		o.Terminate = n.Ending()
		for _, f := range n.Finalizers {
			switch {
			case f == FinalizerContents:
				o.Evict = true
			case !IsBuiltinFinalizer(f):
				o.Finalize = true
			case finishable(v, n, f):
				o.Finish = f
			}
		}
	}
	all := v.Count(u, Claims{})
	if all.All == 0 {
		return o
	}
	valid := Dependents(v, n)
	o.Orphan = valid.All > 0 && n.Orphaning() && n.Acknowledged()
	o.Held = n.Waiting() && valid.Blocking > 0 && valid.Terminating > 0
	switch {
	case valid.Pending() > 0 && n.Waiting():
		o.Judge = true
	case all.Pending() > valid.Pending():
		o.Judge, o.JudgeAt = true, judgeMismatchedAt(v, n)
	}
	return o
}

// judgeAbsentAt is when the dependents of an owner that is not there can be
// judged: at once if it was removed or was never to be waited for, after the
// grace if it may still come, never if nothing is known about its kind.
func judgeAbsentAt(v View, u uid.UID) Time {
	at := Never
	claims := v.ClaimsOn(u, maxClaims+1)
	if len(claims) > maxClaims {
		return 0
	}
	for i := range claims {
		c := &claims[i]
		if c.Pending() == 0 {
			continue
		}
		at = min(at, claimJudgedAt(v, u, c))
	}
	return at
}

func claimJudgedAt(v View, u uid.UID, c *Claimed) Time {
	removal, same := removedAs(v, u, c.Coordinates)
	if same {
		return 0
	}
	kind := v.Kinds().Of(c.Group, c.Kind)
	switch {
	case kind == nil, kind.Namespaced() && c.Namespace == "":
		return Never
	case removal != 0:
		return 0 // the uid was another object's
	case c.LastImport != 0:
		return max(c.LastImport, kind.RegisteredAt).Add(v.Options().OwnerGrace)
	}
	return 0
}

// judgeMismatchedAt is the same for an owner that is there, but is not what
// some of its dependents claim.
func judgeMismatchedAt(v View, n *Node) Time {
	valid := ValidClaims(n)
	claims := v.ClaimsOn(n.UID, maxClaims+1)
	if len(claims) > maxClaims {
		return 0
	}
	at := Never
	for i := range claims {
		c := &claims[i]
		if c.Pending() == 0 || valid.Contains(c.Coordinates) {
			continue
		}
		if kind := v.Kinds().Of(c.Group, c.Kind); kind != nil && (!kind.Namespaced() || c.Namespace != "") {
			at = 0
		}
	}
	return at
}
