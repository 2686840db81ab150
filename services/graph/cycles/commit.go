package cycles

import (
	"cmp"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Unblock returns the events that break a cycle of objects that wait for each other, none
// if it is no such cycle in v. Each object of the cycle blocks the next, the last one the
// first.
func Unblock(v lifecycle.View, cycle []uid.UID) []lifecycle.Event {
	if members := nodes(v, cycle); members != nil {
		return lifecycle.Unblock(v, members)
	}
	return nil
}

// UsePath describes a cycle of objects that wait for each other in which Unblock releases a
// use; "" for any other.
func UsePath(v lifecycle.View, cycle []uid.UID) string {
	if members := nodes(v, cycle); members != nil && lifecycle.Released(v, members) >= 0 {
		return lifecycle.Path(v, members)
	}
	return ""
}

// HiddenPath describes a cycle of objects in several namespaces to readers of one of them.
const HiddenPath = "objects of this namespace and of others use each other"

// WarnedPath returns the text of a warning about a cycle, of which path is the UsePath. A warning is
// published in one namespace and must name no object of another: if the cycle has objects in several
// namespaces, the text is HiddenPath.
func WarnedPath(v lifecycle.View, cycle []uid.UID, path string) string {
	in := ""
	for _, n := range nodes(v, cycle) {
		if n.Namespace != "" && in != "" && n.Namespace != in {
			return HiddenPath
		}
		in = cmp.Or(n.Namespace, in)
	}
	return path
}

// Collect returns the events that delete an unreachable cycle, none if it is not one any
// more or the realm settings do not say so.
func Collect(ctx *lifecycle.Context, cycle []uid.UID) []lifecycle.Event {
	if members := nodes(ctx.View, cycle); members != nil {
		return lifecycle.CollectUnreachable(ctx, members)
	}
	return nil
}

// nodes returns the nodes of a cycle, nil if any of them does not exist.
func nodes(v lifecycle.View, cycle []uid.UID) []*lifecycle.Node {
	members := make([]*lifecycle.Node, len(cycle))
	for i, u := range cycle {
		if members[i] = v.Node(u); members[i] == nil {
			return nil
		}
	}
	return members
}
