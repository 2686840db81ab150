package manifestfile

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

const (
	// maxAliased is the maximum size that aliases may add to a document. A few lines of YAML with
	// nested aliases can otherwise use up the memory, or the time of a day.
	maxAliased = 16 << 20
	// nodeSize is the size of a node in addition to its text.
	nodeSize = 16
)

// anchors has the sizes of the nodes of a document that have anchors, and 0 for those that are being measured.
type anchors map[*yaml.Node]int

// measure returns the size of a node with what its aliases stand for, and how much of it the aliases have added.
func (a anchors) measure(n *yaml.Node) (size, added int, err error) {
	if n.Kind == yaml.AliasNode {
		if size = a[n.Alias]; size == 0 {
			return 0, 0, &nodeError{n.Line, fmt.Sprintf("*%s stands within itself", n.Value)}
		}
		return size, size, nil
	}
	size = nodeSize + len(n.Value)
	for _, part := range n.Content {
		more, aliased, err := a.measure(part)
		if err != nil {
			return 0, 0, err
		}
		size, added = size+more, added+aliased
		if added > maxAliased {
			return 0, 0, &nodeError{part.Line, "aliases repeat too much: write it out"}
		}
	}
	if n.Anchor != "" {
		a[n] = size
	}
	return size, added, nil
}
