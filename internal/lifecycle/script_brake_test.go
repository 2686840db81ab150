package lifecycle_test

import (
	"fmt"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
)

// brake prints the brake of a kind: brake kind=pods.
func (s *script) brake(a *args) string {
	k := s.realm.Kinds().Resource(a.text("kind"))
	policy := lifecycle.BrakeOf(s.realm, k)
	b, objects := s.realm.Brake(k)
	text := fmt.Sprintf("%s; %d of %d", policy, b.Counted, policy.Limit(b.Base))
	if b.Since != 0 {
		text += " since " + since(b.Since)
	}
	if b.Tripped != 0 {
		text += ", tripped at " + since(b.Tripped)
	}
	if policy.On() {
		text += fmt.Sprintf(", room for %d", b.Room(policy, objects, s.realm.Clock))
	}
	return text + "\n"
}

// release releases the brake of a kind, and prints what it lets through: release kind=pods due=(a, b), where
// pods a and b have expired, or an expiry policy applies to them.
func (s *script) release(a *args) string {
	k := s.realm.Kinds().Resource(a.text("kind"))
	var due []uid.UID
	for _, name := range a.list("due") {
		due = append(due, uid.MustParse(name))
	}
	let := s.realm.Pending(k, due...)
	s.realm.ReleaseBrake(k, let)
	text := ""
	for _, u := range let {
		text += "lets through " + u.String() + "\n"
	}
	return text + "released\n"
}
