package writer

import (
	"slices"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// noticed is an object and a policy whose notice the commit has changed.
type noticed struct {
	object, policy uid.UID
	command        int // the index of the command that did so
}

// notice is what one command has recorded for several objects.
type notice struct {
	lifecycle.Notice
	command int
}

// Notice records the notice that an expiry policy has given for an object; without a generation it
// is withdrawn. It returns false, and does nothing, if the notice does not fit into the commit.
func (d *OpenCommit) Notice(u uid.UID, n lifecycle.Notice) bool {
	size := eventlog.BoundNotice(u, n)
	if d.size()+size > d.limit {
		return false
	}
	d.addCommand()
	d.noticed = append(d.noticed, noticed{u, n.Policy, d.commandIndex()})
	d.tailBound += size
	d.Tx.SetNotice(u, n)
	return true
}

// recordNotices records the notices that have changed, as they are after the last event of the commit.
// It leaves out those of objects that the commit deletes or marks: a fold of these events removes
// them.
func (d *OpenCommit) recordNotices() {
	at := map[notice]int{} // the index in groups
	var groups []eventlog.Noticed
	var commands []int // of groups
	done := map[noticed]bool{}
	for _, c := range slices.Backward(d.noticed) { // the last command that has changed a notice has made it what it is
		key := noticed{object: c.object, policy: c.policy}
		o := d.Tx.Node(c.object)
		if done[key] || o == nil || o.Terminating() {
			continue
		}
		done[key] = true
		n := lifecycle.NoticeOf(d.Tx.Notices(c.object), c.policy)
		n.Policy = c.policy
		i, known := at[notice{n, c.command}]
		if !known {
			i = len(groups)
			at[notice{n, c.command}], groups, commands = i, append(groups, eventlog.Noticed{Notice: n}), append(commands, c.command)
		}
		groups[i].Objects = append(groups[i].Objects, c.object)
	}
	for i, g := range slices.Backward(groups) {
		slices.Reverse(g.Objects)
		d.b.Notice(commands[i], g.Objects, g.Notice)
	}
}
