// Package warn tells people of what they should look at: references that can
// never be true, kinds that nobody has registered, finalizers that nobody
// answers. Warnings are derived, like work: they change nothing, and one that is
// lost is said again while it holds.
package warn

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/coppice-gc/coppice/internal/bus"
	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/manifest"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Again is after how long a warning that still holds is said again. It is well
// within the time for which warnings are kept.
const Again = 10 * time.Minute

// maxRemembered bounds what is remembered of warnings that were said.
const maxRemembered = 1 << 16

// Warner says warnings, each once in a while. Its methods are safe for
// concurrent use, and do not block. A nil Warner says nothing.
type Warner struct {
	nc    *nats.Conn
	realm string
	now   func() time.Time
	log   *slog.Logger

	mu   sync.Mutex
	said map[string]time.Time // by subject
}

// New returns a warner of a realm.
func New(nc *nats.Conn, realm string, now func() time.Time, log *slog.Logger) *Warner {
	return &Warner{nc: nc, realm: realm, now: now, log: log, said: map[string]time.Time{}}
}

// Reference warns of an owner reference. It is a resolve.Warn.
func (w *Warner) Reference(v lifecycle.View, n *lifecycle.Node, r *lifecycle.OwnerReference, c lifecycle.Classification, reason string) {
	w.Say(v, n, reason, func() string {
		return fmt.Sprintf("owner reference to %s %q: %s", r.Kind, r.Name, c.Why(v, n, r))
	})
}

// Stuck warns of an object that external finalizers or its agent have held for
// long.
func (w *Warner) Stuck(v lifecycle.View, n *lifecycle.Node, since lifecycle.Time) {
	w.Say(v, n, lifecycle.WarnStuck, func() string {
		var by []string
		for _, f := range n.Finalizers {
			if !lifecycle.IsBuiltinFinalizer(f) {
				by = append(by, f)
			}
		}
		if n.Ending() {
			by = append(by, "its agent")
		}
		held := w.now().Sub(since.Time()).Round(time.Second)
		return fmt.Sprintf("blocked for %s by %s, which has not answered", held, strings.Join(by, ", "))
	})
}

// Unpublished warns of an object of which the call of an external finalizer or
// agent cannot be published.
func (w *Warner) Unpublished(v lifecycle.View, n *lifecycle.Node, err error) {
	w.Say(v, n, lifecycle.WarnUnpublished, func() string {
		return fmt.Sprintf("a call of its finalizers or agent cannot be published, and is tried again: %v", err)
	})
}

// Crowded warns of an owner that is being deleted in the foreground and is not
// finished, because too many of its dependents are kept by unknown owners alone.
func (w *Warner) Crowded(v lifecycle.View, n *lifecycle.Node, dependents uint64, since lifecycle.Time) {
	w.Say(v, n, lifecycle.WarnCrowded, func() string {
		return fmt.Sprintf("its deletion waits since %s: owners of which nothing is known keep %d of its dependents, and at most %d can be examined; "+
			"register the kinds of these owners, or remove these dependents or their references to this object",
			since.Time().UTC().Format(time.RFC3339), dependents, lifecycle.MaxExamined)
	})
}

// Cycle warns of an object in a cycle that nothing outside of it owns.
func (w *Warner) Cycle(v lifecycle.View, n *lifecycle.Node, members int) {
	w.Say(v, n, lifecycle.WarnUnreachable, func() string {
		return fmt.Sprintf("one of %d objects that own each other, and that nothing else owns: the collector never comes to them", members)
	})
}

// Say warns of an object. message is called only if the warning is said.
func (w *Warner) Say(v lifecycle.View, n *lifecycle.Node, reason string, message func() string) {
	if w == nil {
		return
	}
	kind := v.Kinds().OfNode(n)
	if kind == nil {
		return
	}
	subject := bus.Warning{
		Realm: w.realm, Group: kind.Group, Plural: kind.Plural, Namespace: n.Namespace, UID: n.UID.String(), Reason: reason,
	}.Subject()
	now := w.now()
	if !w.remember(subject, now) {
		return
	}
	w.publish(subject, &coppicev1.Warning{
		Resource: kind.Resource(), Namespace: n.Namespace, Name: n.Name, Uid: n.UID.String(),
		Reason: reason, Message: message(), Time: now.UnixMicro(),
	})
}

// Skipped warns that the realm's log has messages that are no commits. It is published
// at each call. The warning is about the realm itself: it names the resource of the
// realm's settings, the realm, and the realm's id.
func (w *Warner) Skipped(realmID uid.UID, message string) {
	if w == nil {
		return
	}
	about := bus.Warning{Realm: w.realm, Group: lifecycle.Group, Plural: "realms", UID: realmID.String(), Reason: lifecycle.WarnSkipped}
	w.publish(about.Subject(), &coppicev1.Warning{
		Resource: lifecycle.ResourceName(about.Group, about.Plural), Name: w.realm, Uid: about.UID,
		Reason: about.Reason, Message: message, Time: w.now().UnixMicro(),
	})
}

// publish publishes a warning. One that cannot be published is lost.
func (w *Warner) publish(subject string, warning *coppicev1.Warning) {
	data, err := manifest.MarshalMessage(warning)
	if err == nil {
		err = w.nc.Publish(subject, data)
	}
	if err != nil {
		w.log.Debug("a warning is not published", "subject", subject, "error", err)
	}
}

// remember reports whether a warning is to be said now.
func (w *Warner) remember(subject string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.said[subject]; ok && now.Sub(at) < Again {
		return false
	}
	if len(w.said) >= maxRemembered {
		clear(w.said) // rather said twice than remembered without bound
	}
	w.said[subject] = now
	return true
}
