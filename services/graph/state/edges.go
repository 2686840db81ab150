package state

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Edge is a position among an owner's dependents. The zero value is the start.
type Edge struct {
	claim     uint64
	dependent uid.UID
}

// Dependents calls visit for the dependents of an owner that follow the position after, in
// the order of the index, until visit returns false. only selects them by claim. A
// dependent with several claims is visited once for each. Hashes of claims can collide (see
// claimHash), so the caller must check the claim in the dependent's node.
func (s *Snapshot) Dependents(owner uid.UID, only ClaimFilter, after Edge, visit func(Edge, uid.UID) bool) {
	prefix := edgePrefix(owner)
	var start []byte
	if after != (Edge{}) {
		start = append(edgeKey(nil, owner, after.claim, after.dependent), nul)
	}
	if only.claims != nil && !only.invert {
		// Read one range for each claim, in order.
		for _, claim := range only.claims {
			if claim < after.claim {
				continue
			}
			from := edgeKey(nil, owner, claim, "")
			if start != nil && claim == after.claim {
				from = start
			}
			more := true
			s.r.scan("edges", edgeKey(nil, owner, claim, ""), from, func(key, _ []byte) bool {
				c, d := splitEdgeKey(key, owner)
				more = visit(Edge{c, d}, d)
				return more
			})
			if !more {
				return
			}
		}
		return
	}
	s.r.scan("edges", prefix, start, func(key, _ []byte) bool {
		c, d := splitEdgeKey(key, owner)
		if _, found := slices.BinarySearch(only.claims, c); only.invert && found {
			return true
		}
		return visit(Edge{c, d}, d)
	})
}

// ClaimFilter selects edges by the claims of the dependents. The zero value selects all.
type ClaimFilter struct {
	claims []uint64 // sorted
	invert bool
}

// ValidClaims returns a filter for the dependents of n whose claim is valid or, if valid is
// false, for the others.
func (s *Snapshot) ValidClaims(n *lifecycle.Node, valid bool) ClaimFilter {
	f := ClaimFilter{invert: !valid, claims: []uint64{}}
	if n.Namespace != "" {
		f.claims = append(f.claims, Identity(n))
		return f
	}
	s.claims(n.UID, n.Coordinates(), func(c lifecycle.Coordinates, _ counter) bool {
		f.claims = append(f.claims, claimHash(c))
		return true
	})
	slices.Sort(f.claims)
	return f
}
