package read

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-gc/coppice/client"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/changes"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/cli"
	"github.com/coppice-gc/coppice/cmd/coppice/internal/terminal"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// follower follows objects, and remembers each as it last was.
type follower struct {
	cli.Target
	known map[string]*coppicev1.Object // by uid
	// seen are those that were delivered since a watch began; nil once all were.
	seen map[string]bool
	// changed is called with each change; synced is called once, after all
	// existing objects were delivered.
	changed func(changes.Change) error
	synced  func() error
}

// follow delivers the existing objects and then their changes, until ctx ends. The
// watch resumes after interruptions. If it has to start over, follow works out from
// the objects that it has delivered which were deleted.
func follow(ctx context.Context, s *cli.Session, t cli.Target, w cli.Where, selector string, changed func(changes.Change) error, synced func() error) error {
	objects := s.Objects(t.Kind, w.NamespaceOf(t.Kind))
	for _, name := range t.Names {
		if _, err := objects.Get(ctx, name, client.IncludeUninitialized(w.Uninitialized)); err != nil {
			return err
		}
	}
	f := &follower{Target: t, known: map[string]*coppicev1.Object{}, changed: changed}
	f.synced = func() error {
		if len(f.known) == 0 { // there is nothing to print yet
			_, _ = fmt.Fprintf(s.Stderr, "no %s%s; waiting for changes\n", client.ResourceOf(t.Kind), whereText(w, t.Kind, selector))
		}
		return synced()
	}
	for ctx.Err() == nil {
		f.seen = map[string]bool{}
		for e, err := range objects.Watch(ctx, client.LabelSelector(selector), client.IncludeUninitialized(w.Uninitialized)) {
			if err == nil {
				err = f.event(e)
			}
			if errors.Is(err, client.ErrExpired) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// whereText says where objects of a kind are looked for: ` in namespace "shop" that match app=web`.
func whereText(w cli.Where, k client.Kind, selector string) string {
	in := ""
	switch {
	case !k.Namespaced():
	case w.NamespaceOf(k) == "":
		in = " in any namespace"
	default:
		in = fmt.Sprintf(" in namespace %q", w.NamespaceOf(k))
	}
	return in + terminal.Prefixed(" that match ", selector)
}

func (f *follower) event(e client.WatchEvent) error {
	if e.Object == nil {
		if !e.Synced || f.seen == nil {
			return nil
		}
		return f.complete()
	}
	m := e.Object.GetMetadata()
	if len(f.Names) > 0 && !slices.Contains(f.Names, m.GetName()) {
		return nil
	}
	was := f.known[m.GetUid()]
	if f.seen != nil {
		f.seen[m.GetUid()] = true
	}
	c := changes.Change{Was: was, Object: e.Object, Reason: e.Reason}
	switch {
	case e.Type == client.Deleted:
		if was == nil {
			return nil
		}
		delete(f.known, m.GetUid())
		c.Typ = changes.Deleted
		if m.GetCreationTimestamp() == nil {
			c.Object = was // the watch did not see the deletion, only that the object is gone
		}
		return f.changed(c)
	case was == nil:
		c.Typ = changes.Added
	case was.GetMetadata().GetResourceVersion() >= m.GetResourceVersion():
		return nil // delivered before
	default:
		c.Typ = changes.Modified
	}
	f.known[m.GetUid()] = e.Object
	return f.changed(c)
}

// complete is called when all existing objects were delivered. Known objects that were
// not among them are gone.
func (f *follower) complete() error {
	seen := f.seen
	f.seen = nil
	for uid, o := range f.known {
		if !seen[uid] {
			delete(f.known, uid)
			if err := f.changed(changes.Change{Typ: changes.Deleted, Was: o, Object: o}); err != nil {
				return err
			}
		}
	}
	if f.synced != nil {
		synced := f.synced
		f.synced = nil
		return synced()
	}
	return nil
}
