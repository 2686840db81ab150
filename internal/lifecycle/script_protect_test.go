package lifecycle_test

import (
	"github.com/coppice-gc/coppice/internal/lifecycle"
)

// protect is protect pods/a by=alice reason=production.
func (s *script) protect(a *args) string {
	at, actor, reason, want := a.key(s, 0), a.text("by"), expand(a.text("reason")), a.preconditions()
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Protect(s.realm.Context(), at, actor, reason, want)
	})
}

func (s *script) unprotect(a *args) string {
	at, want := a.key(s, 0), a.preconditions()
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.Unprotect(s.realm.Context(), at, want)
	})
}

// collectCycle is collect-cycle pods/a pods/b: the unreachable cycle that was found.
func (s *script) collectCycle(a *args) string {
	var members []*lifecycle.Node
	for i := range a.targets {
		members = append(members, a.node(s, i))
	}
	return s.did(lifecycle.CollectUnreachable(s.realm.Context(), members))
}

// forceFinalizer is force-finalizer pods/a finalizer=example.com/x reason=gone.
func (s *script) forceFinalizer(a *args) string {
	at, finalizer, reason, want := a.key(s, 0), a.text("finalizer"), a.text("reason"), a.preconditions()
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.ForceFinalizer(s.realm.Context(), at, finalizer, reason, want)
	})
}

// deleteUnreadable is delete-unreadable pods/a reason=damaged.
func (s *script) deleteUnreadable(a *args) string {
	at, reason, want := a.key(s, 0), expand(a.text("reason")), a.preconditions()
	return s.decided(a, func() (*lifecycle.Outcome, *lifecycle.Error) {
		return lifecycle.DeleteUnreadable(s.realm.Context(), at, reason, want)
	})
}

// actor sets who sends the commands that follow: actor name=ana.
func (s *script) actor(a *args) string {
	s.realm.Actor = a.text("name")
	return ""
}

// cover does the walks of protection policies.
func (s *script) cover(*args) string {
	if events := s.realm.Clone().Cover(); len(events) > 0 {
		return s.did(events)
	}
	return "nothing\n"
}
