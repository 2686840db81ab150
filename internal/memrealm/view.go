package memrealm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Kinds implements lifecycle.View.
func (r *Realm) Kinds() *lifecycle.Kinds { return r.kinds }

// Node implements lifecycle.View.
func (r *Realm) Node(u uid.UID) *lifecycle.Node { return r.nodes[u] }

// Lookup implements lifecycle.View.
func (r *Realm) Lookup(kind *lifecycle.Kind, namespace, called string) uid.UID {
	return r.names[name{kind.Group, kind.Kind, namespace, called}]
}

// Body implements lifecycle.View.
func (r *Realm) Body(n *lifecycle.Node) *coppicev1.Body { return r.bodies[n.UID] }

// claimants returns what dependents claim of u, with their counts.
func (r *Realm) claimants(u uid.UID) map[lifecycle.Coordinates]lifecycle.Claimed {
	found := map[lifecycle.Coordinates]lifecycle.Claimed{}
	for d := range r.dependents[u] {
		n := r.nodes[d]
		own := map[lifecycle.Coordinates]bool{} // blocking
		for i := range n.Owners {
			if o := &n.Owners[i]; o.UID == u {
				own[n.Claim(o)] = own[n.Claim(o)] || o.Blocking == lifecycle.True
			}
		}
		for c, blocking := range own {
			f := found[c]
			f.Coordinates = c
			f.Counts = f.Plus(lifecycle.CountsOf(n, blocking))
			if f.All == 1 || n.ImportTime < f.FirstImport {
				f.FirstImport = n.ImportTime
			}
			f.LastImport = max(f.LastImport, n.ImportTime)
			found[c] = f
		}
	}
	return found
}

// Count implements lifecycle.View.
func (r *Realm) Count(owner uid.UID, claims lifecycle.Claims) lifecycle.Counts {
	var sum lifecycle.Counts
	for c, f := range r.claimants(owner) {
		if claims == (lifecycle.Claims{}) || claims.Contains(c) {
			sum = sum.Plus(f.Counts)
		}
	}
	return sum
}

// Users implements lifecycle.View.
func (r *Realm) Users(n *lifecycle.Node) (sum lifecycle.Counts) {
	for u := range r.users[n.UID] {
		if user := r.nodes[u]; lifecycle.Uses(user, n) {
			sum.All++
			if user.Terminating() {
				sum.Terminating++
			}
		}
	}
	return sum
}

// UsersOf returns the objects that use n, sorted.
func (r *Realm) UsersOf(n *lifecycle.Node) []uid.UID {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.users[n.UID])), func(u uid.UID) bool { return !lifecycle.Uses(r.nodes[u], n) })
}

// ClaimsOfUsers returns what users claim of the object with a uid, ordered by user.
func (r *Realm) ClaimsOfUsers(u uid.UID) (list []lifecycle.Coordinates) {
	for _, user := range slices.Sorted(maps.Keys(r.users[u])) {
		n := r.nodes[user]
		for i := range n.Uses {
			if n.Uses[i].UID == u {
				list = append(list, n.Use(&n.Uses[i]))
			}
		}
	}
	return list
}

// Unresolved implements lifecycle.View.
func (r *Realm) Unresolved(c lifecycle.Coordinates, limit int) []uid.UID {
	claims := lifecycle.Claims{Coordinates: c, AnyNamespace: c.Namespace == ""}
	found := slices.DeleteFunc(slices.Sorted(maps.Keys(r.users[""])), func(u uid.UID) bool {
		n := r.nodes[u]
		return !slices.ContainsFunc(n.Uses, func(use lifecycle.Use) bool { return use.UID == "" && claims.Contains(n.Use(&use)) })
	})
	return found[:min(limit, len(found))]
}

// UnresolvedCount implements lifecycle.View.
func (r *Realm) UnresolvedCount(claims lifecycle.Claims) (count uint64) {
	for u := range r.users[""] {
		n := r.nodes[u]
		for i := range n.Uses {
			if use := &n.Uses[i]; use.UID == "" && claims.Contains(n.Use(use)) {
				count++
			}
		}
	}
	return count
}

// ClaimsOn implements lifecycle.View.
func (r *Realm) ClaimsOn(owner uid.UID, limit int) []lifecycle.Claimed {
	all := slices.SortedFunc(maps.Values(r.claimants(owner)), func(a, b lifecycle.Claimed) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(limit, len(all))]
}

// Removed implements lifecycle.View.
func (r *Realm) Removed(u uid.UID, c lifecycle.Coordinates) (uint64, bool) {
	g, ok := r.removed[u]
	return g.revision, ok && g.c == c
}

// AnyOf implements lifecycle.View.
func (r *Realm) AnyOf(k *lifecycle.Kind, namespace string) string {
	return r.any(func(n *lifecycle.Node) bool {
		return r.kinds.OfNode(n) == k && (namespace == "" || n.Namespace == namespace)
	})
}

// AnyIn implements lifecycle.View.
func (r *Realm) AnyIn(namespace string) string {
	return r.any(func(n *lifecycle.Node) bool { return n.Namespace == namespace })
}

func (r *Realm) any(matches func(*lifecycle.Node) bool) string {
	for _, u := range r.UIDs() {
		if n := r.nodes[u]; matches(n) {
			return r.kinds.OfNode(n).Resource() + "/" + n.Name
		}
	}
	return ""
}

// Session implements lifecycle.View.
func (r *Realm) Session(id string) lifecycle.Session {
	last, ok := r.sessions[id]
	if !ok {
		return lifecycle.Session{}
	}
	return lifecycle.Session{Expires: r.Pauses().End(last, r.settings.SessionIdle)}
}

// Pauses implements lifecycle.View.
func (r *Realm) Pauses() lifecycle.Pauses { return r.realm.Pauses }

// Settings implements lifecycle.View.
func (r *Realm) Settings() lifecycle.Settings { return r.settings }

// Brake implements lifecycle.View.
func (r *Realm) Brake(k *lifecycle.Kind) (lifecycle.Brake, uint64) {
	objects := uint64(0)
	for _, n := range r.nodes {
		if r.kinds.OfNode(n) == k {
			objects++
		}
	}
	return r.brakes[k.Resource()], objects
}

// Released implements lifecycle.View.
func (r *Realm) Released(u uid.UID) bool { return r.released[u] }
