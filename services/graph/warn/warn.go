// Package warn publishes warnings for operators: about references that can never be valid,
// kinds that are not registered, finalizers that no controller removes, objects that only a
// protection keeps, and about the realm itself (internal/lifecycle/warning.go has all
// reasons). Warnings are derived: they change nothing, and a lost warning is published again
// while its reason lasts.
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

// Again is the interval after which a warning is published again if its reason lasts. It is
// much shorter than the time for which warnings are kept.
const Again = 10 * time.Minute

// maxRemembered is the maximum number of published warnings that a Warner remembers.
const maxRemembered = 1 << 16

// maxStuckNamed is how many finalizers a warning about a stuck object names; the others are counted.
const maxStuckNamed = 10

// Warner publishes warnings. It publishes a warning about an object at most once in the interval
// Again, unless there are more than maxRemembered, and one about the realm (see Skipped) at each
// call. Its methods are safe for concurrent use, and do not block. A nil Warner publishes nothing.
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

// Reference warns about an owner reference, or about a protected object that no owner keeps.
// It is a resolve.Warn.
func (w *Warner) Reference(v lifecycle.View, n *lifecycle.Node, r *lifecycle.OwnerReference, c lifecycle.Classification, reason string) {
	if reason == lifecycle.WarnProtected {
		w.Protected(v, n, nil)
		return
	}
	w.Say(v, n, reason, func() string {
		return fmt.Sprintf("owner reference to %s %q: %s", r.Kind, r.Name, c.Why(v, n, r))
	})
}

// Stuck warns about an object whose removal external finalizers or its agent have blocked
// for long. state says in a few words what the call of a finalizer waits for, or of the agent if
// finalizer is empty; "" if that is not known. It is called only if the warning is due, for the first few.
func (w *Warner) Stuck(v lifecycle.View, n *lifecycle.Node, since lifecycle.Time, state func(finalizer string) string) {
	w.Say(v, n, lifecycle.WarnStuck, func() string {
		var by []string
		more := 0
		name := func(what, finalizer string) {
			if len(by) == maxStuckNamed {
				more++
				return
			}
			if is := state(finalizer); is != "" {
				what += " (" + is + ")"
			}
			by = append(by, what)
		}
		for _, f := range n.Finalizers {
			if !lifecycle.IsBuiltinFinalizer(f) {
				name(f, f)
			}
		}
		if n.Ending() {
			name("its agent", "")
		}
		if more > 0 {
			by = append(by, fmt.Sprintf("and %d more", more))
		}
		blocked := w.now().Sub(since.Time()).Round(time.Second)
		return fmt.Sprintf("blocked for %s by %s", blocked, strings.Join(by, ", "))
	})
}

// Unpublished warns about an object for which the call of an external finalizer or agent
// cannot be published.
func (w *Warner) Unpublished(v lifecycle.View, n *lifecycle.Node, err error) {
	w.Say(v, n, lifecycle.WarnUnpublished, func() string {
		return fmt.Sprintf("a call of its finalizers or agent cannot be published, and is tried again: %v", err)
	})
}

// Crowded warns about an owner whose foreground deletion cannot complete, because more of
// its dependents than the writer can examine are kept by unknown owners alone.
func (w *Warner) Crowded(v lifecycle.View, n *lifecycle.Node, dependents uint64, since lifecycle.Time) {
	w.Say(v, n, lifecycle.WarnCrowded, func() string {
		return fmt.Sprintf("its deletion waits since %s: owners of which nothing is known keep %d of its dependents, and at most %d can be examined; "+
			"register the kinds of these owners, or remove these dependents or their references to this object",
			since.Time().UTC().Format(time.RFC3339), dependents, lifecycle.MaxExamined)
	})
}

// Released warns about an object of a cycle of objects that waited for each other, in which
// a use was released.
func (w *Warner) Released(v lifecycle.View, n *lifecycle.Node, cycle string) {
	w.Say(v, n, lifecycle.WarnUseCycle, func() string {
		return "its deletion waited for itself in a cycle of uses, and one use was removed to end the cycle: " + cycle
	})
}

// Protected warns about a protected object that has expired or that no owner keeps, or about an
// object whose deletion waits for protected objects. below names those, as "pods/web-1 (shop)".
func (w *Warner) Protected(v lifecycle.View, n *lifecycle.Node, below []string) {
	w.Say(v, n, lifecycle.WarnProtected, func() string {
		if n.Protected() && lifecycle.DueAt(n) <= lifecycle.TimeOf(w.now()) {
			return fmt.Sprintf("it expired at %s, and stays because it is protected by %s; unprotect it to have it deleted, or change metadata.expiresAt",
				n.ExpiresAt.Time().Format(time.RFC3339), n.Protection)
		}
		if n.Protected() {
			return fmt.Sprintf("no owner keeps it, and it stays because it is protected by %s; unprotect it to have it collected", lifecycle.ProtectedBy(v, n))
		}
		if len(below) == 0 { // among more dependents than were read
			return "its deletion waits for protected dependents; unprotect or delete them"
		}
		return fmt.Sprintf("its deletion waits for protected objects: %s; unprotect or delete them", strings.Join(below, ", "))
	})
}

// Expires warns about an object for whose deletion an expiry policy has given notice. keep: it stays
// unless someone agrees.
func (w *Warner) Expires(v lifecycle.View, n *lifecycle.Node, policy string, keep bool, given lifecycle.Notice) {
	w.Say(v, n, lifecycle.WarnExpiry, func() string { return given.Text(policy, keep) })
}

// PodsLate warns about a namespace whose other contents do not wait for its Pods any more.
func (w *Warner) PodsLate(v lifecycle.View, n *lifecycle.Node) {
	w.Say(v, n, lifecycle.WarnPodDrain, func() string {
		return fmt.Sprintf("its other contents have waited %s for its Pods, and are deleted now; Pods such as %s are left",
			v.Settings().PodDrainTimeout, v.AnyOf(v.Kinds().Of("", "Pod"), n.Name))
	})
}

// Braked warns about the registration n of a kind whose brake is tripped.
func (w *Warner) Braked(v lifecycle.View, n *lifecycle.Node, resource string, b lifecycle.Brake) {
	w.Say(v, n, lifecycle.WarnBraked, func() string {
		return fmt.Sprintf("the brake of %s was tripped at %s, after %d of %d objects were deleted: the collector deletes no more of them until 'coppice brake release %s'",
			resource, b.Tripped.Time().UTC().Format(time.RFC3339), b.Counted, b.Base, resource)
	})
}

// Cycle warns about an object in an unreachable cycle.
func (w *Warner) Cycle(v lifecycle.View, n *lifecycle.Node, members int) {
	w.Say(v, n, lifecycle.WarnUnreachable, func() string {
		return fmt.Sprintf("one of %d objects that own each other and have no other owner: the collector deletes such objects only if the realm setting unreachableCycles is collect; delete one of them, or change the setting", members)
	})
}

// Say publishes a warning about an object. message is called only if the warning is due.
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
	w.ofRealm(realmID, lifecycle.WarnSkipped, message)
}

// Damaged is Skipped for a log of which messages are missing or cannot be read.
func (w *Warner) Damaged(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnDamaged, message)
}

// Rebuilt is Skipped for a state that was damaged and was rebuilt from the log.
func (w *Warner) Rebuilt(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnRebuilt, message)
}

// Unarchived is Skipped for a log that cannot be archived.
func (w *Warner) Unarchived(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnUnarchived, message)
}

// ArchiveDamaged is Skipped for an archive with entries that cannot be used.
func (w *Warner) ArchiveDamaged(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnArchiveDamaged, message)
}

// Uncut is Skipped for a log that is larger than its retention.
func (w *Warner) Uncut(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnUncut, message)
}

// ArchiveTooLarge is Skipped for an archive that is larger than its retention.
func (w *Warner) ArchiveTooLarge(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnArchiveTooLarge, message)
}

// DiskFilling is Skipped for a disk that is almost full.
func (w *Warner) DiskFilling(realmID uid.UID, message string) {
	w.ofRealm(realmID, lifecycle.WarnDiskFilling, message)
}

func (w *Warner) ofRealm(realmID uid.UID, reason, message string) {
	if w == nil {
		return
	}
	about := bus.Warning{Realm: w.realm, Group: lifecycle.Group, Plural: "realms", UID: realmID.String(), Reason: reason}
	w.publish(about.Subject(), &coppicev1.Warning{
		Resource: lifecycle.ResourceName(about.Group, about.Plural), Name: w.realm, Uid: about.UID,
		Reason: about.Reason, Message: message, Time: w.now().UnixMicro(),
	})
}

// publish publishes a warning. If that fails, the warning is lost.
func (w *Warner) publish(subject string, warning *coppicev1.Warning) {
	data, err := manifest.MarshalMessage(warning)
	if err == nil {
		err = w.nc.Publish(subject, data)
	}
	if err != nil {
		w.log.Debug("a warning is not published", "subject", subject, "error", err)
	}
}

// remember reports whether a warning is due, and records that it is published now.
func (w *Warner) remember(subject string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.said[subject]; ok && now.Sub(at) < Again {
		return false
	}
	if len(w.said) >= maxRemembered {
		clear(w.said) // bounds the memory; warnings may be published twice
	}
	w.said[subject] = now
	return true
}
