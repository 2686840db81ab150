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
