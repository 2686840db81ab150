package state

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// recount updates the counters of the owners of an object, and of the objects that it uses,
// after the object has changed.
func (tx *Tx) recount(before, after *lifecycle.Node) {
	if hasUses(before) || hasUses(after) {
		tx.recountUses(before, after)
	}
	if before != nil && after != nil && before.Terminating() == after.Terminating() && before.Protected() == after.Protected() && sameOwners(before.Owners, after.Owners) {
		return
	}
	eachReference(before, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, n lifecycle.Counts) {
		w := tx.owner(r.UID)
		tx.change(w, &w.all, func(k *counter) { k.Counts = k.Minus(n) })
		tx.change(w, tx.claim(w, c), func(k *counter) { k.Counts = k.Minus(n) })
	})
	eachReference(after, func(r *lifecycle.OwnerReference, c lifecycle.Coordinates, n lifecycle.Counts) {
		if o := tx.object(r.UID); o.now != nil && !o.nowKin.parent {
			if tx.recording {
				tx.onRollback(func() { o.nowKin.parent = false })
			}
			o.nowKin.parent, o.dirty = true, true
		}
		w := tx.owner(r.UID)
		add := func(k *counter) {
			if k.All == 0 || after.ImportTime < k.firstImport {
				k.firstImport = after.ImportTime
			}
			k.Counts = k.Plus(n)
			k.lastImport = max(k.lastImport, after.ImportTime)
		}
		tx.change(w, &w.all, add)
		tx.change(w, tx.claim(w, c), add)
		if before == nil || before.Protected() && !after.Protected() || !sameOwners(before.Owners, after.Owners) {
			tx.grow(w) // a dependent that is terminating or protected now was there before
		}
	})
}

func (tx *Tx) change(w *owner, e *claim, f func(*counter)) {
	if tx.recording {
		was := *e
		tx.onRollback(func() { *e = was })
	}
	f(&e.counter)
	if e.All == 0 {
		e.counter = counter{}
	}
	e.dirty = true
	if u, ok := usedBy(w.uid); ok {
		tx.touch(u)
	}
}

// eachReference visits the distinct references of an object: those that agree
// in uid and coordinates count once, and block if one of them does.
func eachReference(n *lifecycle.Node, visit func(*lifecycle.OwnerReference, lifecycle.Coordinates, lifecycle.Counts)) {
	if n == nil {
		return
	}
	lifecycle.EachOwner(n.Owners, func(r *lifecycle.OwnerReference, blocking bool) {
		visit(r, n.Claim(r), lifecycle.CountsOf(n, blocking))
	})
}

func sameOwners(a, b []lifecycle.OwnerReference) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// grow notes that an owner has dependents with pending work that were not there when its
// work row was written.
func (tx *Tx) grow(w *owner) {
	if !w.grew {
		tx.onRollback(func() { w.grew = false })
	}
	w.grew = true
}

// stance returns the part of an object's state that decides which of its dependents have
// pending work: see lifecycle.PendingOf.
func stance(n *lifecycle.Node) string {
	switch {
	case n == nil:
		return "absent"
	case n.Waiting():
		return "waiting"
	case n.Orphaning():
		return "orphaning"
	}
	return "there"
}
