package writer

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
)

// noticed is an object and a policy whose notice the commit has changed.
type noticed struct{ object, policy uid.UID }

// Notice records the notice that an expiry policy has given for an object; without a generation it
// is withdrawn. It returns false, and does nothing, if the notice does not fit into the commit.
func (d *OpenCommit) Notice(u uid.UID, n lifecycle.Notice) bool {
	size := eventlog.BoundNotice(u, n)
	if d.size()+size > d.limit {
		return false
	}
	d.addCommand()
	d.noticed = append(d.noticed, noticed{u, n.Policy})
	d.tailBound += size
	d.Tx.SetNotice(u, n)
	return true
}

// recordNotices records the notices that have changed, as they are after the last event of the commit.
// It leaves out those of objects that the commit deletes or marks: a fold of these events removes
// them.
func (d *OpenCommit) recordNotices() {
	at := map[lifecycle.Notice]int{} // the index in groups
	var groups []eventlog.Noticed
	done := map[noticed]bool{}
	for _, c := range d.noticed {
		o := d.Tx.Node(c.object)
		if done[c] || o == nil || o.Terminating() {
			continue
		}
		done[c] = true
		n := lifecycle.NoticeOf(d.Tx.Notices(c.object), c.policy)
		n.Policy = c.policy
		i, known := at[n]
		if !known {
			i = len(groups)
			at[n], groups = i, append(groups, eventlog.Noticed{Notice: n})
		}
		groups[i].Objects = append(groups[i].Objects, c.object)
	}
	for _, g := range groups {
		d.b.Notice(g.Objects, g.Notice)
	}
}
