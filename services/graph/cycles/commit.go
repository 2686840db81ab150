package cycles

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// Unblock returns the events that break a cycle of objects that wait for each other, none
// if it is no such cycle in v. Each object of the cycle blocks the next, the last one the
// first.
func Unblock(v lifecycle.View, cycle []uid.UID) []lifecycle.Event {
	if members := nodes(v, cycle); members != nil {
		return lifecycle.Unblock(members)
	}
	return nil
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
