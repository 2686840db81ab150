package history

import (
	"context"
	"fmt"
	"strings"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/internal/bus"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Finder returns the event with a revision, nil if there is none.
type Finder func(ctx context.Context, revision uint64) (*client.LogEvent, error)

// MaxCauses is how far the causes of an event are followed.
const MaxCauses = 64

// Because returns the causes of an event, from the nearest to the command that a user
// sent, each as a phrase.
func Because(ctx context.Context, e client.LogEvent, find Finder) ([]string, error) {
	var phrases []string
	if e.Verb == bus.VerbRemoveFinalizer && e.Note != "" && !requested(&e) {
		phrases = append(phrases, did(&e, "it")) // by hand, and with a reason
	}
	for range MaxCauses {
		effect, err := unmarked(ctx, &e, find)
		if err != nil {
			return phrases, err
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

// unmarked is the event, or, where it goes on with what a mark of the same object
// began, that mark: that an object is gone because it was to go explains nothing.
func unmarked(ctx context.Context, e *client.LogEvent, find Finder) (*client.LogEvent, error) {
	for e.Reason == coppicev1.Reason_REASON_FINALIZED {
		mark, err := find(ctx, e.Cause)
		if err != nil || mark == nil || mark.UID != e.UID || mark.Revision >= e.Revision {
			return e, err
		}
		e = mark
	}
	return e, nil
}

// requested reports whether somebody asked for just this.
func requested(e *client.LogEvent) bool {
	return e.Reason == coppicev1.Reason_REASON_REQUESTED || e.Reason == coppicev1.Reason_REASON_UNSPECIFIED
}

// phrase says why e happened, if cause explains it. The cause is e
// itself where somebody asked for just this, and nil where it is not known, or
// never was an event: that something does not exist.
func phrase(e, cause *client.LogEvent) string {
	if cause == nil || e.Reason == coppicev1.Reason_REASON_CYCLE {
		switch e.Reason {
		case coppicev1.Reason_REASON_OWNER_ABSENT:
			return "none of its owners exists"
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

// containing says how a namespace or a kind was deleted, of which an object was.
func containing(container *client.LogEvent) string {
	if container.Resource == client.KindsResource.String() {
		return ", with all objects of the kind"
	}
	return ", with all objects in the namespace"
}

// ReasonOf is what a reason says by itself.
func ReasonOf(r coppicev1.Reason) string { return phrase(&client.LogEvent{Reason: r}, nil) }

// did says who did what to an object, and what they said about it.
func did(e *client.LogEvent, object string) string {
	said := ""
	switch e.Verb {
	case bus.VerbCreate:
		said = "created"
	case bus.VerbUpdate:
		said = "updated"
	case bus.VerbUpdateStatus:
		said = "updated the status of"
	case bus.VerbPatch:
		said = "patched"
	case bus.VerbApply:
		said = "applied"
	case bus.VerbImport:
		said = "imported"
	case bus.VerbDelete, bus.VerbDeleteCollection:
		said = "deleted"
	case bus.VerbRemoveFinalizer:
		said = "removed " + strings.TrimPrefix(e.Detail, "last finalizers ") + " from"
	case "genesis":
		return "the realm began"
	default:
		said = "did " + e.Verb + " to"
	}
	said = e.Actor + " " + said + " " + object
	if e.Note != "" {
		said += fmt.Sprintf(" (%q)", e.Note)
	}
	return said
}
