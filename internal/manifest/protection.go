package manifest

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// protection is the JSON of metadata.protection.
type protection struct {
	Reason   string     `json:"reason,omitempty"`
	Actor    string     `json:"actor,omitempty"`
	Time     *timestamp `json:"time,omitempty"`
	Policies []string   `json:"policies,omitempty"`
}

func (p *protection) proto() *coppicev1.Protection {
	if p == nil {
		return nil
	}
	return &coppicev1.Protection{Reason: p.Reason, Actor: p.Actor, Time: (*timestamppb.Timestamp)(p.Time), Policies: p.Policies}
}

func protectionOf(p *coppicev1.Protection) *protection {
	if p == nil {
		return nil
	}
	return &protection{Reason: p.GetReason(), Actor: p.GetActor(), Time: (*timestamp)(p.GetTime()), Policies: p.GetPolicies()}
}
