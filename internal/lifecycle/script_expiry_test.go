package lifecycle_test

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/lifecycle/lifecycletest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// fillExpiry reads expires=10m, expires=none and expires=invalid.
func fillExpiry(a *args, m *coppicev1.ObjectMeta) {
	if !a.has("expires") {
		return
	}
	switch a.values["expires"][0] {
	case "none":
		a.flag("expires")
		m.ExpiresAt = nil
	case "invalid":
		a.flag("expires")
		m.ExpiresAt = &timestamppb.Timestamp{Seconds: 1 << 60}
	default:
		m.ExpiresAt = timestamppb.New(a.at("expires").Time())
	}
}

// expire is expire pods/a at=10m seen=11m: the scanner found at seen that the object expires at
// that time. Without them it found what is true now. With policy=old notice=1h it is the
// evaluation of an expiry policy, which applies unless the word stops is there.
func (s *script) expire(a *args) string {
	n := a.node(s, 0)
	at, seen := n.ExpiresAt, s.realm.Clock
	if a.has("at") {
		at = a.at("at")
	}
	if a.has("seen") {
		seen = a.at("seen")
	}
	events, decision := lifecycle.Expire(s.realm.Context(), n, at, seen)
	if a.has("revision") || a.has("policy") {
		m := lifecycle.Match{Revision: n.Revision, Applies: !a.flag("stops"), At: at, Seen: seen}
		if a.has("revision") {
			m.Revision = uint64(a.number("revision"))
		}
		if policy := a.text("policy"); policy != "" {
			m.At = min(s.realm.Clock, seen)
			m.Rule = lifecycle.NoticeRule{Policy: uid.UID(policy), Generation: max(a.number("generation"), 1), Keep: a.flag("keep")}
			if a.has("notice") {
				m.Rule.Period = a.at("notice").Time().Sub(lifecycletest.Start.Time())
			}
		}
		var notice lifecycle.Notice
		events, notice, decision = lifecycle.ExpireMatching(s.realm.Context(), n, s.notices[n.UID], m)
		if notice.Policy != "" {
			s.notices[n.UID] = lifecycle.WithNotice(s.notices[n.UID], notice)
		}
	}
	switch decision {
	case lifecycle.Expired:
		return s.applied(events)
	case lifecycle.NotDue:
		return "not due\n"
	case lifecycle.NoticeGiven:
		return "notice given\n" + s.noticed(n.UID)
	case lifecycle.NoticeWithdrawn:
		return "notice withdrawn\n" + s.noticed(n.UID)
	case lifecycle.NoticeLasts:
		return "notice lasts\n"
	case lifecycle.ExpiryProtected:
		return "protected\n"
	}
	return "braked\n"
}

// answer is answer pods/a until=2h by=ana reason=why, or with agree instead of until.
func (s *script) answer(a *args) string {
	n := a.node(s, 0)
	answer := lifecycle.NoticeAnswer{Actor: a.text("by"), Reason: a.text("reason")}
	if !a.flag("agree") {
		answer.Until = a.at("until")
	}
	list, err := lifecycle.Answered(s.realm.Context(), a.key(s, 0), n, s.notices[n.UID], answer, nil)
	if err != nil {
		return fmt.Sprintf("%s\n%s\n", err.Reason, err.Message)
	}
	s.notices[n.UID] = list
	return s.noticed(n.UID)
}

// noticed prints the notices of an object.
func (s *script) noticed(u uid.UID) (text string) {
	for _, n := range s.notices[u] {
		text += fmt.Sprintf("policy %s generation %d given %s ends %s", string(n.Policy), n.Generation, since(n.Given), since(n.Ends))
		switch {
		case n.Answer.Agreed():
			text += fmt.Sprintf("; %s agrees: %s", n.Answer.Actor, n.Answer.Reason)
		case n.Answer.Until != 0:
			text += fmt.Sprintf("; %s vetoes until %s: %s", n.Answer.Actor, since(n.Answer.Until), n.Answer.Reason)
		}
		text += "\n"
	}
	return text
}
