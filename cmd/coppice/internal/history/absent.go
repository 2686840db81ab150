package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Limits of what Absent reads and names.
const (
	maxVersions    = 100 // events of the object
	maxOwnersNamed = 3
)

// Absent says for an event that happened because no object matched the owner references of its object which owners
// these were, why none of them counted, and which command gave the object these references. It returns "" if the event
// has another reason, or if the log does not have that command. Times are relative to now.
func (h *History) Absent(ctx context.Context, e client.LogEvent, now time.Time) (string, error) {
	if e.Reason != coppicev1.Reason_REASON_OWNER_ABSENT || e.Cause != 0 {
		return "", nil
	}
	refs, by, err := h.named(ctx, e)
	if err != nil || by == nil || len(refs) == 0 {
		return "", err
	}
	var said []string
	for _, r := range refs[:min(len(refs), maxOwnersNamed)] {
		why, err := h.absent(ctx, e, r)
		if err != nil {
			return "", err
		}
		said = append(said, why)
	}
	text := strings.Join(said, ", and ")
	if more := len(refs) - len(said); more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	named := "it"
	if len(refs) > 1 {
		named = "them"
	}
	return fmt.Sprintf("%s; %s named %s at %s (%s%s)", text, by.Actor, named, terminal.Clock(by.Time, now), by.Verb, terminal.Prefixed(", command ", by.Command)), nil
}

// named returns the owner references that the object of an event had then, and the event that gave it these, nil if
// the log does not have it.
func (h *History) named(ctx context.Context, of client.LogEvent) (refs []*client.OwnerReference, by *client.LogEvent, err error) {
	found, _, err := h.Tail(ctx, maxVersions, AllCommits, client.LogOptions{UIDs: []string{of.UID}}, func(e *client.LogEvent) bool {
		return e.UID == of.UID && e.Revision < of.Revision && (e.Type == created || e.Type == "ObjectUpdated" || e.Type == "OwnerReferencesRemoved")
	})
	same := func(a, b *client.OwnerReference) bool {
		return a.GetUid() == b.GetUid() && a.GetApiVersion() == b.GetApiVersion() && a.GetKind() == b.GetKind() && a.GetName() == b.GetName()
	}
	found = sinceCreated(found)
	sure := len(found) > 0 && found[0].Type == created // otherwise an earlier event may have given it these
	for i := range found {
		e := &found[i]
		if e.Type != "OwnerReferencesRemoved" {
			if by == nil || !slices.EqualFunc(refs, e.References, same) {
				sure = sure || by != nil
				refs, by = e.References, e
			}
			continue
		}
		refs = slices.DeleteFunc(slices.Clone(refs), func(r *client.OwnerReference) bool {
			return slices.ContainsFunc(e.References, func(gone *client.OwnerReference) bool { return same(r, gone) })
		})
	}
	if !sure {
		return nil, nil, err
	}
	return refs, by, err
}

// absent says why an owner reference of the object of an event matched no object.
func (h *History) absent(ctx context.Context, e client.LogEvent, r *client.OwnerReference) (string, error) {
	resource := h.Resources(r.GetApiVersion(), r.GetKind())
	key := resource + "/" + r.GetName()
	found, complete, err := h.Tail(ctx, 1, AllCommits, client.LogOptions{UIDs: []string{r.GetUid()}}, func(o *client.LogEvent) bool {
		return o.UID == r.GetUid() && o.Name != ""
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0 && complete:
		return "its owner " + key + " never existed", nil
	case len(found) == 0:
		return "its owner " + key + " did not exist", nil
	}
	is := found[0]
	switch {
	case is.Resource != resource || is.Name != r.GetName():
		return "the uid of its owner " + key + " is that of " + terminal.WithNamespace(is.Key(), is.Namespace), nil
	case is.Namespace != "" && is.Namespace != e.Namespace:
		return "its owner " + key + " is in namespace " + is.Namespace + ", and an owner must be in the namespace of the object or cluster-scoped", nil
	}
	return "its owner " + key + " did not exist then", nil
}
