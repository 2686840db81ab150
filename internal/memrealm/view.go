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
			f.All++
			if n.Terminating() {
				f.Terminating++
			}
			if blocking {
				f.Blocking++
			}
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
func (r *Realm) AnyOf(k *lifecycle.Kind) string {
	return r.any(func(n *lifecycle.Node) bool { return r.kinds.OfNode(n) == k })
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
func (r *Realm) Session(id string) lifecycle.Session { return r.sessions[id] }

// Settings implements lifecycle.View.
func (r *Realm) Settings() lifecycle.Settings { return r.settings }
