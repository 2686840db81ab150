package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Finder returns the event with a revision, nil if there is none. The error is a MissingError if it cannot be read.
type Finder func(ctx context.Context, revision uint64) (*client.LogEvent, error)

// MaxCauses is how far the causes of an event are followed.
const MaxCauses = 64

// Because returns the causes of an event, each as a phrase, from the nearest one to
// the command of a client, or to a revision that cannot be read.
func Because(ctx context.Context, e client.LogEvent, find Finder) (phrases []string, err error) {
	var missing *MissingError
	phrases, err = because(ctx, e, func(ctx context.Context, revision uint64) (*client.LogEvent, error) {
		found, err := find(ctx, revision)
		if errors.As(err, &missing) {
			return nil, nil
		}
		return found, err
	})
	if err == nil && missing != nil {
		phrases = append(slices.DeleteFunc(phrases, func(p string) bool { return p == "" }), fmt.Sprintf("revision %d, which caused that, cannot be read", missing.Revision))
	}
	return phrases, err
}

func because(ctx context.Context, e client.LogEvent, find Finder) ([]string, error) {
	switch e.Type {
	case "LossAccepted":
		return []string{"an operator accepted it at the start of a graph service"}, nil
	case "RealmResumed":
		return []string{e.Actor + " resumed it"}, nil
	case "RealmContinued", "KeyChanged", MessageSkipped:
		return nil, nil
	}
	var phrases []string
	if (e.Verb == bus.VerbRemoveFinalizer || e.Verb == bus.VerbForceFinalizer) && e.Note != "" && !requested(&e) {
		phrases = append(phrases, did(&e, "it")) // a user removed the finalizer, with a note
	}
	for range MaxCauses {
		effect, err := unmarked(ctx, &e, find)
		if err != nil {
			return phrases, err
		}
		if effect.Reason == coppicev1.Reason_REASON_RESTORED {
			phrases = append(phrases, did(effect, "it")+fmt.Sprintf(" after revision %d", effect.Cause))
			cause, err := find(ctx, effect.Cause)
			if err != nil || cause == nil {
				return phrases, err
			}
			e = *cause
			continue
		}
		if requested(effect) {
			return append(phrases, phrase(effect, effect)), nil
		}
		cause, err := find(ctx, effect.Cause)
		if err != nil {
			return phrases, err
		}
		if cause == nil {
			return append(phrases, phrase(effect, nil)), nil
		}
		wanted, err := unmarked(ctx, cause, find)
		if err != nil {
			return phrases, err
		}
		if requested(wanted) {
			return append(phrases, phrase(effect, wanted)), nil
		}
		phrases = append(phrases, phrase(effect, cause))
		e = *cause
	}
	return append(phrases, "and so on"), nil
}

// unmarked returns the event, or, if the event completes the deletion that a mark of
// the same object began, the mark: that an object was removed because it was being
// deleted explains nothing.
func unmarked(ctx context.Context, e *client.LogEvent, find Finder) (*client.LogEvent, error) {
	for e.Reason == coppicev1.Reason_REASON_FINALIZED || e.Reason == coppicev1.Reason_REASON_FORCED && e.Cause != 0 {
		mark, err := find(ctx, e.Cause)
		if err != nil || mark == nil || mark.UID != e.UID || mark.Revision >= e.Revision {
			return e, err
		}
		e = mark
	}
	return e, nil
}

// requested reports whether a client requested exactly this event.
func requested(e *client.LogEvent) bool {
	switch e.Reason {
	case coppicev1.Reason_REASON_REQUESTED, coppicev1.Reason_REASON_UNSPECIFIED, coppicev1.Reason_REASON_PROTECTED, coppicev1.Reason_REASON_UNPROTECTED:
		return true
	}
	return false
}

// phrase says why e happened, given its cause. The cause is e itself if a client
// requested exactly this, and nil if it is not known or is no event (an object that
// never existed).
func phrase(e, cause *client.LogEvent) string {
	if cause == nil || e.Reason == coppicev1.Reason_REASON_CYCLE {
		switch e.Reason {
		case coppicev1.Reason_REASON_OWNER_ABSENT:
			if e.Cause != 0 {
				return "its owner was gone"
			}
			return "no object matches its owner references"
		case coppicev1.Reason_REASON_OWNER_WAITING:
			return "its owner was deleting in the foreground"
		case coppicev1.Reason_REASON_OWNER_ORPHANS:
			return "its owner was orphaning its dependents"
		case coppicev1.Reason_REASON_CYCLE:
			return "it waited for itself"
		case coppicev1.Reason_REASON_UNREACHABLE:
			return "only what it owns itself owned it"
		case coppicev1.Reason_REASON_CONTAINER:
			return "its namespace was being deleted, or its kind withdrawn"
		case coppicev1.Reason_REASON_SOLID_OWNER_REMAINS:
			return "another owner remains"
		case coppicev1.Reason_REASON_FINALIZED:
			return "nothing blocked it any more"
		case coppicev1.Reason_REASON_INITIALIZATION_FAILED:
			return "its initialization failed"
		}
		return ""
	}
	if cause == e {
		return did(e, "it")
	}
	if requested(cause) {
		said := did(cause, cause.Key())
		switch e.Reason {
		case coppicev1.Reason_REASON_OWNER_ORPHANS:
			return said + ", orphaning its dependents"
		case coppicev1.Reason_REASON_SOLID_OWNER_REMAINS:
			return said + ", and another owner remains"
		case coppicev1.Reason_REASON_CONTAINER:
			return said + containing(cause)
		}
		return said
	}
	switch e.Reason {
	case coppicev1.Reason_REASON_OWNER_WAITING:
		return cause.Key() + " was deleting in the foreground"
	case coppicev1.Reason_REASON_OWNER_ORPHANS:
		return cause.Key() + " was orphaning its dependents"
	case coppicev1.Reason_REASON_SOLID_OWNER_REMAINS:
		return cause.Key() + " was going, and another owner remains"
	case coppicev1.Reason_REASON_CONTAINER:
		return cause.Key() + " was being deleted" + containing(cause)
	}
	return cause.Key() + " was gone"
}

// containing describes the deletion of the namespace or kind that contained an object.
func containing(container *client.LogEvent) string {
	if container.Resource == client.KindsResource.String() {
		return ", with all objects of the kind"
	}
	return ", with all objects in the namespace"
}

// ReasonOf returns the phrase for a reason alone.
func ReasonOf(r coppicev1.Reason) string { return phrase(&client.LogEvent{Reason: r}, nil) }

// did says which actor did what to an object, with the note of the request.
func did(e *client.LogEvent, object string) string {
	said, end := "", ""
	switch e.Verb {
	case bus.VerbCreate:
		said = "created"
	case bus.VerbUpdate:
		said = "updated"
	case bus.VerbUpdateStatus:
		said = "updated the status of"
	case bus.VerbPatch:
		said = "patched"
	case bus.VerbApply, bus.VerbApplyAcross:
		said = "applied"
	case bus.VerbImport:
		said = "imported"
	case bus.VerbRestore:
		said = "restored"
	case bus.VerbDelete, bus.VerbDeleteCollection:
		said = "deleted"
	case bus.VerbDeleteUnreadable:
		said = "deleted"
		end = ", which was unreadable, without its finalizers"
	case bus.VerbProtect:
		said = "protected"
	case bus.VerbUnprotect:
		said = "removed the protection of"
	case bus.VerbForceFinalizer:
		said = "removed by force " + strings.TrimPrefix(e.Detail, "last finalizers ") + " from"
	case bus.VerbRemoveFinalizer:
		said = "removed " + strings.TrimPrefix(e.Detail, "last finalizers ") + " from"
	case bus.VerbGenesis:
		return "the realm began"
	default:
		said = "did " + e.Verb + " to"
	}
	said = e.Actor + " " + said + " " + object + end
	if e.Note != "" {
		said += fmt.Sprintf(" (%q)", e.Note)
	}
	return said
}
