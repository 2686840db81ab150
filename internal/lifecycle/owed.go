package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/uid"
)

// Owed is what has still to happen because of one uid. It is a function of the
// state: it holds as long as it is true, whatever messages were lost, and it is
// true until somebody has acted (A10.6 is edge-triggered; this is not). What
// orphan and foregroundDeletion owe may have to wait for the end of an import
// session, which is not told by it: see Due.
type Owed struct {
	// Judge: dependents of the uid are to be judged, because it is absent,
	// because it waits for them, or because they claim to be owned by
	// something that it is not.
	Judge bool
	// JudgeAt is when judging the first of them is due, or earlier; zero for
	// now, Never if only knowledge helps that time does not bring. The others
	// may be due later: see Due.
	JudgeAt Time
	// Orphan: dependents of the object are to be parted from it.
	Orphan bool
	// Finish names the built-in finalizer that may be done, "" if none. It is
	// not the contents finalizer: see Evict.
	Finish string
	// Examine is how many dependents are not terminating, where the object waits,
	// none of its dependents blocks it, and the foreground finalizer is therefore
	// done if unknown owners keep all of these: see DelayOf. It changes with each
	// of them that is marked, stripped or given other owners.
	Examine uint64
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

// Due is when what is owed because of one uid is to be done, as far as time tells.
// Each dependent that is to be judged has its own grace. Import sessions, while
// which dependents wait as well, end sooner or later, and First and Last do not
// tell of them.
type Due struct {
	// First is when one of them may be due, Last when all are. Between them
	// Judge tells of each. Never is for what time does not bring.
	First, Last Time
	// Imported: some of them were imported, or may have been.
	Imported bool
	// Begins is when orphan or foregroundDeletion begins its work, zero for now:
	// when the import session that brought the object ends, if nothing more comes.
	Begins Time
}

// OwedBy returns what is owed because of u. n is the live object, or nil.
func OwedBy(v View, u uid.UID, n *Node) Owed {
	if n != nil {
		return owedByLive(v, n)
	}
	o, _ := OwedWhen(v, u, n)
	return o
}

// OwedWhen is OwedBy, and tells when it is to be done.
func OwedWhen(v View, u uid.UID, n *Node) (o Owed, due Due) {
	if n == nil {
		all := v.Count(u, Claims{}) // of any claim
		if all.Pending() > 0 {
			due = judgeAbsent(v, u)
			o.Judge, o.JudgeAt = true, due.First
		}
		return o, due
	}
	o = owedByLive(v, n)
	due = Due{First: o.JudgeAt, Last: o.JudgeAt}
	if due.Begins = BeginsAfter(v, n); due.Begins == 0 {
		return o, due
	}
	if all := v.Count(u, Claims{}); o.Judge && n.Waiting() {
		due.First, due.Last = due.Begins, due.Begins
		if all.Pending() > Dependents(v, n).Pending() {
			due.First = min(due.First, judgeMismatchedAt(v, n))
		}
	}
	return o, due
}

// BeginsAfter is when the import session ends, if nothing more comes, until which
// the finalizer orphan or foregroundDeletion of n does nothing: dependents that
// it is there for may still come. It is zero if n does not wait for one.
func BeginsAfter(v View, n *Node) Time {
	if !n.Orphaning() && !n.Waiting() {
		return 0
	}
	return sessionEnd(v, n)
}

func owedByLive(v View, n *Node) (o Owed) {
	if n.Terminating() {
		o.Terminate = n.Ending()
		for _, f := range n.Finalizers {
			switch {
			case f == FinalizerContents:
				o.Evict = true
			case !IsBuiltinFinalizer(f):
				o.Finalize = true
			case finishable(v, n, f, nil, 0):
				o.Finish = f
			}
		}
	}
	all := v.Count(n.UID, Claims{})
	if all.All == 0 {
		return o
	}
	valid := Dependents(v, n)
	o.Orphan = valid.All > 0 && n.Orphaning() && n.Acknowledged()
	o.Held = n.Waiting() && valid.Blocking > 0 && valid.Terminating > 0
	if n.Waiting() && n.Acknowledged() && valid.Blocking == 0 {
		o.Examine = valid.Pending()
	}
	switch {
	case valid.Pending() > 0 && n.Waiting():
		o.Judge = true
	case all.Pending() > valid.Pending():
		o.Judge, o.JudgeAt = true, judgeMismatchedAt(v, n)
	}
	return o
}

// judgeAbsent is when the dependents of an owner that is not there can be
// judged: at once if it was removed or was never to be waited for, after the
// grace if it may still come, never if nothing is known about its kind.
func judgeAbsent(v View, u uid.UID) Due {
	due := Due{First: Never}
	claims := v.ClaimsOn(u, maxClaims+1)
	if len(claims) > maxClaims {
		due = Due{Imported: true}
		if removal, _ := v.Removed(u, Coordinates{}); removal == 0 {
			due.Last = Never
		}
		return due
	}
	for i := range claims {
		c := &claims[i]
		if c.Pending() == 0 {
			continue
		}
		first, last := claimDue(v, u, c)
		due.First = min(due.First, first)
		if last != Never {
			due.Last = max(due.Last, last)
		}
		due.Imported = due.Imported || c.LastImport != 0
	}
	return due
}

// claimDue is the same for those that claim the same, and is found without a
// look at them; see unknownUntil.
func claimDue(v View, u uid.UID, c *Claimed) (first, last Time) {
	removal, same := removedAs(v, u, c.Coordinates)
	if same {
		return 0, 0
	}
	kind := v.Kinds().Of(c.Group, c.Kind)
	switch {
	case kind == nil, kind.Namespaced() && c.Namespace == "":
		return Never, Never
	case removal != 0:
		return 0, 0 // the uid was another object's
	}
	grace := v.Options().OwnerGrace
	last = max(c.LastImport, kind.RegisteredAt).Add(grace)
	if c.FirstImport != 0 {
		first = max(c.FirstImport, kind.RegisteredAt).Add(grace)
	}
	return first, last
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
