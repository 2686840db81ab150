package state

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The uses of an object are edges and counters of its users, in the tables of edges and
// claims, under a key that is not the uid of an object: see usersOf. A use without a uid is
// under the key unresolved, by its claim, until it is bound. The key anyUse has the number
// of all uses of the realm, and nothing else: while it is zero, no other key is read.

// eachUse visits the uses of an object.
func eachUse(n *lifecycle.Node, visit func(u *lifecycle.Use, key uid.UID, c lifecycle.Coordinates, counts lifecycle.Counts)) {
	if n == nil {
		return
	}
	counts := lifecycle.Counts{All: 1}
	if n.Terminating() {
		counts.Terminating = 1
	}
	for i := range n.Uses {
		u := &n.Uses[i]
		key := unresolved
		if u.UID != "" {
			key = usersOf(u.UID)
		}
		visit(u, key, n.Use(u), counts)
	}
}

// uses returns the counter of all uses of the realm.
func (tx *Tx) uses() *owner {
	if tx.allUses == nil {
		tx.allUses = tx.owner(anyUse)
	}
	return tx.allUses
}

func hasUses(n *lifecycle.Node) bool { return n != nil && len(n.Uses) > 0 }

func sameUses(a, b []lifecycle.Use) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// recountUses updates the counters of users after the uses of an object have changed.
func (tx *Tx) recountUses(before, after *lifecycle.Node) {
	if before != nil && after != nil && before.Terminating() == after.Terminating() && sameUses(before.Uses, after.Uses) {
		return
	}
	all := tx.uses()
	eachUse(before, func(_ *lifecycle.Use, key uid.UID, c lifecycle.Coordinates, n lifecycle.Counts) {
		w := tx.owner(key)
		subtract := func(k *counter) { k.Counts = k.Minus(n) }
		tx.change(w, &w.all, subtract)
		tx.change(w, tx.claim(w, c), subtract)
		tx.change(all, &all.all, subtract)
	})
	eachUse(after, func(u *lifecycle.Use, key uid.UID, c lifecycle.Coordinates, n lifecycle.Counts) {
		if u.UID != "" {
			tx.setUsed(tx.object(u.UID))
		}
		w := tx.owner(key)
		if key == unresolved {
			tx.noteWaiting(c)
		}
		add := func(k *counter) { k.Counts = k.Plus(n) }
		tx.change(w, &w.all, add)
		tx.change(w, tx.claim(w, c), add)
		tx.change(all, &all.all, add)
	})
}

// setUsed notes that an object has had a user, if the object exists.
func (tx *Tx) setUsed(o *object) {
	if o.now == nil || o.nowKin.used {
		return
	}
	if tx.recording {
		dirty := o.dirty
		tx.onRollback(func() { o.nowKin.used, o.dirty = false, dirty })
	}
	o.nowKin.used, o.dirty = true, true
}

// createdUsed sets whether an object that was just created has users. An object that is
// created through the API can have only those that were bound in the same commit.
func (tx *Tx) createdUsed(o *object, n *lifecycle.Node) {
	o.nowKin.used = false // of the object with this uid that was removed before
	if tx.uses().all.All == 0 {
		return
	}
	key := usersOf(n.UID)
	if n.ImportTime == 0 && tx.owners[key] == nil {
		return
	}
	o.nowKin.used = tx.owner(key).all.All > 0
}

// Users implements lifecycle.View.
func (tx *Tx) Users(n *lifecycle.Node) lifecycle.Counts {
	if o := tx.object(n.UID); o.now != nil && !o.nowKin.used || o.now == nil && tx.uses().all.All == 0 {
		return lifecycle.Counts{}
	}
	return tx.count(usersOf(n.UID), lifecycle.ValidClaims(n))
}

// Users implements lifecycle.View.
func (s *Snapshot) Users(n *lifecycle.Node) lifecycle.Counts {
	if c := s.cached(n.UID); c.node != nil && !c.used {
		return lifecycle.Counts{}
	}
	return s.count(usersOf(n.UID), lifecycle.ValidClaims(n))
}

// Unresolved implements lifecycle.View.
func (tx *Tx) Unresolved(c lifecycle.Coordinates, limit int) []uid.UID {
	claims := lifecycle.Claims{Coordinates: c, AnyNamespace: c.Namespace == ""}
	if tx.UnresolvedCount(claims) == 0 {
		return nil
	}
	// Those in the state, and those of transactions that may not be written yet. Each is
	// checked, because it may have changed since.
	var found []uid.UID
	tx.r.unresolved(claims, func(u uid.UID) bool {
		found = append(found, u)
		return true
	})
	for t := tx; t != nil; t = t.under {
		for u, o := range t.objects {
			if hasUses(o.now) {
				found = append(found, u)
			}
		}
	}
	return waitingUsers(found, claims, limit, tx.Node)
}

// noteWaiting notes a claim of a use without a uid, so that UnresolvedCount need not look at
// all those of a large commit.
func (tx *Tx) noteWaiting(c lifecycle.Coordinates) {
	name := c
	name.Namespace = ""
	if !slices.Contains(tx.waiting[name], c) {
		if tx.waiting == nil {
			tx.waiting = map[lifecycle.Coordinates][]lifecycle.Coordinates{}
		}
		tx.waiting[name] = append(tx.waiting[name], c)
	}
}

// UnresolvedCount implements lifecycle.View.
func (tx *Tx) UnresolvedCount(claims lifecycle.Claims) (count uint64) {
	if tx.uses().all.All == 0 || tx.owner(unresolved).all.All == 0 {
		return 0
	}
	if !claims.AnyNamespace {
		return tx.count(unresolved, claims).All
	}
	name := claims.Coordinates
	name.Namespace = ""
	var found []lifecycle.Coordinates
	tx.r.claims(unresolved, name, func(c lifecycle.Coordinates, _ counter) bool {
		found = append(found, c)
		return true
	})
	for t := tx; t != nil; t = t.under {
		for _, c := range t.waiting[name] {
			if !slices.Contains(found, c) { // at most MaxUnresolved
				found = append(found, c)
			}
		}
	}
	for _, c := range found {
		count += tx.claim(tx.owner(unresolved), c).All
	}
	return count
}

// UnresolvedCount implements lifecycle.View.
func (s *Snapshot) UnresolvedCount(claims lifecycle.Claims) uint64 {
	return s.count(unresolved, claims).All
}

// Unresolved implements lifecycle.View.
func (s *Snapshot) Unresolved(c lifecycle.Coordinates, limit int) []uid.UID {
	claims := lifecycle.Claims{Coordinates: c, AnyNamespace: c.Namespace == ""}
	var found []uid.UID
	s.r.unresolved(claims, func(u uid.UID) bool {
		found = append(found, u)
		return true
	})
	return waitingUsers(found, claims, limit, s.Node)
}

// waitingUsers returns those of the users that have a use without a uid with such a claim,
// sorted, at most limit of them.
func waitingUsers(found []uid.UID, claims lifecycle.Claims, limit int, node func(uid.UID) *lifecycle.Node) []uid.UID {
	slices.Sort(found)
	found = slices.DeleteFunc(slices.Compact(found), func(u uid.UID) bool {
		n := node(u)
		return n == nil || !slices.ContainsFunc(n.Uses, func(use lifecycle.Use) bool { return use.UID == "" && claims.Contains(n.Use(&use)) })
	})
	return found[:min(limit, len(found))]
}

// unresolved calls visit for the users in the state that have a use without a uid with such
// a claim, and for those with the same hash of their claim.
func (r *reader) unresolved(claims lifecycle.Claims, visit func(uid.UID) bool) {
	hashes := []uint64{claimHash(claims.Coordinates)}
	if claims.AnyNamespace {
		hashes = nil
		r.claims(unresolved, claims.Coordinates, func(c lifecycle.Coordinates, _ counter) bool {
			hashes = append(hashes, claimHash(c))
			return true
		})
	}
	for _, h := range hashes {
		r.scan("uses", edgeKey(nil, unresolved, h, ""), nil, func(key, _ []byte) bool {
			_, u := splitEdgeKey(key, unresolved)
			return visit(u)
		})
	}
}

// EachUser calls visit for the objects that use n, with a use that is valid, until visit
// returns false.
func (s *Snapshot) EachUser(n *lifecycle.Node, visit func(uid.UID) bool) {
	if c := s.cached(n.UID); c.node != nil && !c.used {
		return
	}
	key := usersOf(n.UID)
	s.r.scan("uses", edgePrefix(key), nil, func(row, _ []byte) bool {
		_, u := splitEdgeKey(row, key)
		if user := s.Node(u); user == nil || !lifecycle.Uses(user, n) {
			return true
		}
		return visit(u)
	})
}

// encodeUses encodes the edges of the uses of an object.
func (w *batchWriter) encodeUses(before, after *lifecycle.Node) {
	if !hasUses(before) && !hasUses(after) || before != nil && after != nil && sameUses(before.Uses, after.Uses) {
		return
	}
	edge := func(put bool) func(*lifecycle.Use, uid.UID, lifecycle.Coordinates, lifecycle.Counts) {
		return func(_ *lifecycle.Use, key uid.UID, c lifecycle.Coordinates, _ lifecycle.Counts) {
			if put {
				w.key = edgeKey(w.key[:0], key, claimHash(c), after.UID)
				w.put(w.key, []byte{0})
				return
			}
			w.key = edgeKey(w.key[:0], key, claimHash(c), before.UID)
			w.delete(w.key)
		}
	}
	eachUse(before, edge(false))
	eachUse(after, edge(true))
}
