package resolve

import (
	"github.com/coppice-gc/coppice/internal/expirypolicy"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// Notices returns the notices of an object's deletion that expiry policies have given. Those
// that are about to be withdrawn because their policy was changed or deleted are left out.
func Notices(snap *state.Snapshot, u uid.UID) (list []*coppicev1.NoticeStatus) {
	for _, n := range snap.Notices(u) {
		policy := snap.Node(n.Policy)
		if n.Withdrawn(policy, snap.Time()) {
			continue
		}
		p, err := expirypolicy.Parse(snap.Body(policy).GetSpec())
		if snap.TakeUnreadable() != nil || err != nil { // B8.1, or stored by another version
			continue
		}
		s := &coppicev1.NoticeStatus{
			Policy: policy.Name, Given: int64(n.Given), Ends: int64(n.Ends), Due: int64(n.Due()),
			AnsweredBy: n.Answer.Actor, Reason: n.Answer.Reason, VetoUntil: int64(n.Answer.Until),
		}
		if p.OnSilence == expirypolicy.SilenceKeep && !n.Answer.Agreed() {
			s.Due = 0
		}
		list = append(list, s)
	}
	return list
}
