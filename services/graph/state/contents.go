package state

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Content is a position among the contents of a container. The zero value is the start.
type Content struct {
	resource string
	name     NameCursor
}

// Contents calls visit for the objects in a namespace, or of a kind, that follow the
// position after, ordered by resource, namespace and name, until visit returns false.
func (s *Snapshot) Contents(container *lifecycle.Node, after Content, visit func(Content, uid.UID) bool) {
	kinds, in := s.kinds.All(), container.Name
	if lifecycle.IsRegistration(container) {
		kinds, in = nil, ""
		if k := s.kinds.RegisteredBy(container); k != nil {
			kinds = []*lifecycle.Kind{k}
		}
	}
	more := true
	for _, k := range kinds {
		if !more || k.Resource() < after.resource || in != "" && !k.Namespaced() {
			continue
		}
		at := Content{resource: k.Resource()}
		if k.Resource() == after.resource {
			at = after
		}
		s.Names(k, in, at.name, func(namespace, name string, u uid.UID) bool {
			at.name = NameCursor{namespace, name}
			more = visit(at, u)
			return more
		})
	}
}

// AnyOf implements lifecycle.View.
func (tx *Tx) AnyOf(k *lifecycle.Kind, namespace string) string {
	return tx.anyName(namePrefix(k.Resource(), namespace), func(ref nameRef) bool {
		return ref.resource == k.Resource() && (namespace == "" || ref.namespace == namespace)
	})
}

// AnyIn implements lifecycle.View.
func (tx *Tx) AnyIn(namespace string) string {
	for _, k := range tx.kinds.All() {
		if !k.Namespaced() {
			continue
		}
		if name := tx.AnyOf(k, namespace); name != "" {
			return name
		}
	}
	return ""
}

func (tx *Tx) anyName(prefix []byte, matches func(nameRef) bool) (name string) {
	tx.r.scan("names", prefix, nil, func(key, value []byte) bool {
		if tx.knownGone(uid.UID(value)) {
			return true
		}
		resource, _, n := splitNameKey(key)
		name = resource + "/" + n
		return false
	})
	for t := tx; name == "" && t != nil; t = t.under {
		name = tx.anyNamed(t.names, matches)
	}
	return name
}

func (tx *Tx) anyNamed(names map[nameRef]uid.UID, matches func(nameRef) bool) string {
	for ref, u := range names {
		if u != "" && matches(ref) && tx.object(u).now != nil {
			return ref.resource + "/" + ref.name
		}
	}
	return ""
}

// knownGone reports whether an object was removed, by this Tx or one under it.
func (tx *Tx) knownGone(u uid.UID) bool {
	o := tx.objects[u]
	if o == nil {
		o, _ = tx.underObject(u)
	}
	return o != nil && o.now == nil
}
