package overview

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/console/view"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// unknownOwner says that the graph service knows none of the owners of an object, and that one of them is unknown.
type unknownOwner struct {
	// until is when the last of its unknown owners counts as absent, so that the object is deleted; zero if that is not known.
	until time.Time
}

// readUnknown asks the graph service for those of the objects with unknown owners that are shown. It returns them by uid:
// not those with an owner that exists and that this user may not see, or that was removed while the mirror did not notice.
func (b *Builder) readUnknown(ctx context.Context) (map[string]unknownOwner, error) {
	oldest := b.c.Mirror.UnknownOwners(maxExamples).Oldest
	found := map[string]unknownOwner{}
	if len(oldest) == 0 {
		return found, nil
	}
	var uids []string
	for _, o := range oldest {
		uids = append(uids, o.UID)
	}
	reply, err := b.c.Client.Resource(client.ParseResource(oldest[0].Resource), "").ResolveUIDs(ctx, uids)
	if err != nil {
		return nil, err
	}
	for _, n := range reply.GetNodes() {
		if o, is := unknownOwnerOf(n); is {
			found[n.GetObject().GetMetadata().GetUid()] = o
		}
	}
	return found, nil
}

func unknownOwnerOf(n *coppicev1.GraphNode) (o unknownOwner, is bool) {
	forever := false
	for _, owner := range n.GetOwners() {
		switch owner.GetClass() {
		case coppicev1.OwnerClass_OWNER_CLASS_SOLID, coppicev1.OwnerClass_OWNER_CLASS_WAITING:
			return o, false
		case coppicev1.OwnerClass_OWNER_CLASS_UNKNOWN:
			is = true
			if at := time.UnixMicro(owner.GetUnknownUntil()).UTC(); owner.GetUnknownUntil() == 0 {
				forever = true
			} else if at.After(o.until) {
				o.until = at
			}
		}
	}
	if forever {
		o.until = time.Time{}
	}
	return o, is
}

// mayBeUnknown reports whether the graph service has not said that it knows of no unknown owner.
func (p *parts) mayBeUnknown() bool {
	return p.status == nil || slices.ContainsFunc(p.status.GetPending(), func(w *coppicev1.PendingWork) bool { return w.GetType() == "unknown" })
}

// unknownOwners returns the group of the objects whose owners are unknown. The mirror alone cannot know them: it also has
// objects whose owners this user may not see, and objects whose owners were removed while it did not notice. So the group
// has those of the shown objects for which the graph service agrees. If that could not be read, it has what the mirror
// has, if the user may see all objects and the pending work says that there are unknown owners.
func (b *Builder) unknownOwners(p parts) []view.Stuck {
	w := b.c.Mirror.UnknownOwners(maxExamples)
	if w.Total == 0 || !p.mayBeUnknown() {
		return nil
	}
	partial, count := b.c.Mirror.Partial(), "%s"
	var until time.Time // the earliest
	switch {
	case p.unknown != nil:
		shown := len(w.Oldest)
		w.Oldest = slices.DeleteFunc(w.Oldest, func(o view.Terminating) bool {
			is, agreed := p.unknown[o.UID]
			if agreed && !is.until.IsZero() && (until.IsZero() || is.until.Before(until)) {
				until = is.until
			}
			return !agreed
		})
		if partial || len(w.Oldest) < shown {
			w.Total, count = uint64(len(w.Oldest)), "At least %s"
		}
	case partial || p.status == nil:
		return nil
	}
	if len(w.Oldest) == 0 {
		return nil
	}
	s := group(w, UnknownOwner)
	s.Says = fmt.Sprintf(count, objects(w.Total, "names", "name")) + " only owners that were never seen. Such an object is kept until its owners count as absent, and is then deleted."
	if until.IsZero() {
		s.Says += " That does not happen while the kind of an owner is not registered, or an import is in progress."
	} else {
		s.Says += " The first of the objects below is kept until " + until.Format(time.DateTime) + " UTC."
	}
	s.Cure = view.Cure{
		Says:    "Import the owners, or correct the references. The command says why an owner is unknown, and until when.",
		Command: b.command("explain %s", w.Oldest[0].Ref),
	}
	return []view.Stuck{s}
}
