package state

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// The table of protected objects has a row for each, with the same key as its name. So the
// protected objects of a realm, a kind or a namespace are found without reading others.

// encodeProtected encodes the rows of the objects whose protection has begun or ended. The key has
// the resource that the kind had at that time: see encodeNames.
func (tx *Tx) encodeProtected(w *batchWriter, uids []uid.UID) {
	row := func(kinds *lifecycle.Kinds, n *lifecycle.Node) []byte {
		w.key = protectedKey(w.key[:0], kinds.OfNode(n).Resource(), n.Namespace, n.Name)
		return w.key
	}
	for _, u := range uids {
		o := tx.objects[u]
		was, is := o.stored != nil && o.stored.Protected(), o.now != nil && o.now.Protected()
		switch {
		case was && !is:
			w.delete(row(tx.was, o.stored))
		case is && !was:
			w.put(row(tx.kinds, o.now), []byte(u))
		}
	}
}

// EachProtected calls visit for the protected objects of the realm, in the order of resource,
// namespace and name, until visit returns false.
func (s *Snapshot) EachProtected(visit func(resource, namespace, name string, u uid.UID) bool) {
	s.eachProtected([]byte{tableProtected}, visit)
}

// EachProtectedIn calls visit for the protected objects in a namespace or of a kind, as
// EachProtected does.
func (s *Snapshot) EachProtectedIn(container *lifecycle.Node, visit func(resource, namespace, name string, u uid.UID) bool) {
	if lifecycle.IsRegistration(container) {
		if k := s.kinds.RegisteredBy(container); k != nil {
			s.eachProtected(protectedPrefix(k.Resource(), ""), visit)
		}
		return
	}
	for _, k := range s.kinds.All() {
		more := true
		if k.Namespaced() {
			s.eachProtected(protectedPrefix(k.Resource(), container.Name), func(resource, namespace, name string, u uid.UID) bool {
				more = visit(resource, namespace, name, u)
				return more
			})
		}
		if !more {
			return
		}
	}
}

func (s *Snapshot) eachProtected(prefix []byte, visit func(resource, namespace, name string, u uid.UID) bool) {
	s.r.scan("protected", prefix, nil, func(key, value []byte) bool {
		resource, namespace, name := splitNameKey(key)
		return visit(resource, namespace, name, uid.UID(value))
	})
}

// ProtectedBelow names the protected objects for which the deletion of n waits, at most limit
// of them, as "pods/web-1 (shop)": the contents of a namespace or kind that is drained, and
// the dependents of an object that waits for them. It leaves out those that sees does not report; nil for all.
func (s *Snapshot) ProtectedBelow(n *lifecycle.Node, limit int, sees func(*lifecycle.Kind, *lifecycle.Node) bool) (list []string) {
	add := func(resource, namespace, name string) bool {
		said := resource + "/" + name
		if namespace != "" {
			said += " (" + namespace + ")"
		}
		list = append(list, said)
		return len(list) < limit
	}
	if n.Draining() {
		looked := 0
		s.EachProtectedIn(n, func(resource, namespace, name string, u uid.UID) bool {
			if looked++; sees != nil {
				if c := s.Node(u); c == nil || !sees(s.kinds.OfNode(c), c) {
					return looked < mostBelow
				}
			}
			return add(resource, namespace, name)
		})
	}
	if !n.Waiting() || len(list) >= limit || lifecycle.Dependents(s, n).Pending() == 0 {
		return list
	}
	var found []uid.UID
	s.Dependents(n.UID, s.ValidClaims(n, true), Edge{}, func(_ Edge, u uid.UID) bool {
		found = append(found, u)
		return len(found) < mostBelow
	})
	s.Prefetch(found)
	for _, u := range found {
		if d := s.Node(u); d != nil && d.Protected() && (sees == nil || sees(s.kinds.OfNode(d), d)) && !add(s.kinds.OfNode(d).Resource(), d.Namespace, d.Name) {
			break
		}
	}
	return list
}

// mostBelow is the maximum number of dependents that ProtectedBelow reads, and of protected contents.
const mostBelow = 4096
