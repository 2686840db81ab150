package lifecycle

import (
	"github.com/coppice-gc/coppice/internal/uid"
)

// Pending is the work that is pending because of one uid. It is a function of the state and
// therefore level-triggered: lost messages do not lose work, and work stays pending until
// it is done (A10.6 is edge-triggered). The work of the built-in finalizers may have to wait for the end of an import session: see Due.
type Pending struct {
	// Evaluate: dependents of the uid must be evaluated, because the object is absent or
	// waits for them, or because their references are not valid.
	Evaluate bool
	// EvaluateAt is a lower bound of the time at which the first of them is due: zero for
	// now, Never if no passage of time makes one due. Others may be due later: see Due.
	EvaluateAt Time
	// Orphan: the references of dependents to the object must be removed.
	Orphan bool
	// Finish names the built-in finalizer that may be done, "" if none is. It is never
	// the contents finalizer: see Drain. The in-use finalizer is also named if the object
	// keeps its own users: Finish then adds the foreground finalizer.
	Finish string
	// Examine is the number of dependents that are not terminating, if the object waits
	// and no dependent blocks it. Then the foreground finalizer is done if unknown owners
	// keep all of these dependents: see DelayOf. It changes with each of them that is
	// marked, stripped or given other owners.
	Examine uint64
	// Blocked: the object waits for dependents or users that are being deleted. One of them
	// may wait for the object in turn: see Unblock.
	Blocked bool
	// Drain: the contents of the namespace or of the kind must be deleted. When nothing
	// is left the contents finalizer is done. AnyContent says which of the two it is:
	// objects are created and removed without reading their container, so that this
	// struct cannot depend on them.
	Drain bool
	// Protected: dependents stay only because they are protected. There is nothing to do for
	// them until they are unprotected, which changes the counters.
	Protected bool
	// Terminate: the agent of the terminating object must be called.
	Terminate bool
	// Finalize: external finalizers of the terminating object must be called.
	Finalize bool
}

// Never is later than every other Time.
const Never = Time(1<<63 - 1)

// Known returns t for a message, in which zero means that the time is not known: the end of
// what lasts until a realm is resumed.
func (t Time) Known() int64 {
	if t == Never {
		return 0
	}
	return int64(t)
}

// maxClaims is the maximum number of claims on one owner that are read. If there are
// more, all dependents of the owner are evaluated.
const maxClaims = 16

// Due is the time at which pending work is due. Each dependent that must be evaluated has
// its own grace period. Dependents also wait for the end of their import sessions, which
// First and Last do not include.
type Due struct {
	// First is when a dependent may be due for the first time, Last when all are due.
	// Between the two, Evaluate decides for each. Never means that no passage of time makes
	// one due.
	First, Last Time
	// Imported: some of the dependents were imported, or may have been.
	Imported bool
	// Begins is when the built-in finalizers of the object begin their work: when
	// the import session of the object ends, unless it gets further commands; zero for
	// now.
	Begins Time
}

// PendingOf returns the work that is pending because of u. n is the live object, or nil if
// there is none.
func PendingOf(v View, u uid.UID, n *Node) Pending {
	if n != nil {
		return pendingOfLive(v, n)
	}
	o, _ := PendingWhen(v, u, n)
	return o
}

// PendingWhen is PendingOf, and also returns when the work is due.
func PendingWhen(v View, u uid.UID, n *Node) (o Pending, due Due) {
	if n == nil {
		all := v.Count(u, Claims{}) // of any claim
		o.Protected = all.Protected > 0
		if all.Actionable() > 0 {
			due = evaluateAbsent(v, u)
			o.Evaluate, o.EvaluateAt = true, due.First
		}
		return o, due
	}
	o = pendingOfLive(v, n)
	due = Due{First: o.EvaluateAt, Last: o.EvaluateAt, Begins: BeginsAfter(v, n)}
	if !o.Evaluate {
		return o, due
	}
	if due.Begins != 0 && n.Waiting() {
		due.First, due.Last = due.Begins, due.Begins
	}
	if v.Count(u, Claims{}).Actionable() > Dependents(v, n).Actionable() {
		var at Time
		at, due.Imported = evaluateMismatchedAt(v, n)
		due.First = min(due.First, at)
	}
	return o, due
}

// BeginsAfter returns the time until which the finalizer orphan, foregroundDeletion, in-use or
// contents of n does nothing, because the import session of n is open and may still add
// dependents, users or contents.
// It is the end of the session unless that gets further commands, and zero if n does not
// wait for a session.
func BeginsAfter(v View, n *Node) Time {
	if !n.AwaitsSession() {
		return 0
	}
	return sessionEnd(v, n)
}

func pendingOfLive(v View, n *Node) (o Pending) {
	if n.Terminating() {
		o.Terminate = CallsAgent(n)
		for _, f := range n.Finalizers {
			switch {
			case f == FinalizerContents:
				o.Drain = true
			case !IsBuiltinFinalizer(f):
				o.Finalize = true
			case finishable(v, n, f, nil, 0):
				o.Finish = f
			}
		}
		if o.Finalize {
			o.Finalize = CallsFinalizers(v.Kinds().OfNode(n), n)
		}
		o.Blocked = n.InUse() && v.Users(n).Terminating > 0
	}
	all := v.Count(n.UID, Claims{})
	if all.All == 0 {
		return o
	}
	valid := Dependents(v, n)
	if n.Orphaning() && n.Acknowledged() {
		o.Orphan, _ = Orphanable(v, n)
	}
	o.Blocked = o.Blocked || n.Waiting() && valid.Blocking > 0 && valid.Terminating > 0
	if n.Waiting() && n.Acknowledged() && valid.Blocking == 0 && valid.Protected == 0 && !waitsForUsers(v, n) { // B2.8, B3.2
		o.Examine = valid.Pending()
	}
	o.Protected = n.Waiting() && valid.Protected > 0 || all.Protected > valid.Protected
	switch {
	case valid.Actionable() > 0 && n.Waiting():
		o.Evaluate = true
	case all.Actionable() > valid.Actionable():
		o.Evaluate = true
		o.EvaluateAt, _ = evaluateMismatchedAt(v, n)
	}
	return o
}

// evaluateAbsent returns when the dependents of an absent owner are due: at once if the owner
// was removed or there is no grace period for it, after the grace period if it may still
// appear, and never if its kind is unknown.
func evaluateAbsent(v View, u uid.UID) Due {
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
		if c.Actionable() == 0 {
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

// claimDue is evaluateAbsent for the dependents with one claim. It does not read the
// dependents; see unknownUntil.
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
	grace, pauses := v.Settings().OwnerGrace, v.Pauses()
	last = pauses.End(max(c.LastImport, kind.RegisteredAt), grace)
	if c.FirstImport != 0 {
		first = pauses.End(max(c.FirstImport, kind.RegisteredAt), grace)
	}
	return first, last
}

// evaluateMismatchedAt returns when dependents are due whose claims do not match the owner,
// which exists, and whether some of these were imported, so that an import session may delay them.
// Those whose owner has moved to another group are not due while it exists.
func evaluateMismatchedAt(v View, n *Node) (at Time, imported bool) {
	valid := ValidClaims(n)
	claims := v.ClaimsOn(n.UID, maxClaims+1)
	if len(claims) > maxClaims {
		return 0, true
	}
	at = Never
	for i := range claims {
		c := &claims[i]
		if c.Actionable() == 0 || valid.Contains(c.Coordinates) {
			continue
		}
		if kind := v.Kinds().Of(c.Group, c.Kind); kind != nil && (!kind.Namespaced() || c.Namespace != "") && !c.movedTo(n) {
			at, imported = 0, imported || c.LastImport != 0
		}
	}
	return at, imported
}
