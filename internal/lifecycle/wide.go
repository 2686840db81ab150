package lifecycle

import "github.com/coppice-gc/coppice/internal/uid"

// Wide is the number of owner references and finalizers from which on an object is wide. What is done with
// objects many at a time is bounded by the width of wide ones, too.
const Wide = 16

// Width returns the number of owner references and finalizers of an object.
func Width(n *Node) int { return len(n.Owners) + len(n.Finalizers) }

// maxWidth is the width of the wide objects that are read at once.
const maxWidth = 8000

// Within returns how many of the objects, which were read, are to be used at once: at least one, and
// no more than have a bounded width together.
func Within(v View, list []uid.UID) int {
	width := 0
	for i, u := range list {
		n := v.Node(u)
		if n == nil {
			continue
		}
		if w := Width(n); w > Wide {
			width += w
		}
		if width > maxWidth {
			return i + 1
		}
	}
	return len(list)
}
