package restore

import (
	"fmt"
	"maps"

	"github.com/coppice-gc/coppice/client"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// cascade is what a deletion has done, as the log says: the objects that it has removed, and the
// references that other objects have lost. It is built by reading the log in order.
type cascade struct {
	// Revision is that of the DELETE.
	Revision uint64
	// Members are the objects that it has removed or is removing, in the order of the log.
	Members []*member
	// Lost are the references that other objects have lost to owners that were being deleted,
	// or were gone, since the DELETE.
	Lost []loss

	byUID     map[string]*member
	revisions map[uint64]bool     // of the events of members, which are causes
	created   map[string]bool     // uids that were created after the DELETE
	restored  map[uint64][]string // new uids by the revision of the removal, the last at the end
	only      map[string]bool     // the uids of the members, if they are given
	last      uint64              // the revision of the last event
	part      uint64              // the commit with the last part of the DELETE; zero if it is complete
}

// member is an object that a deletion has removed.
type member struct {
	UID, Resource, Namespace, Name string
	// Deletion is the revision of the object's first event in the cascade: its mark, or its
	// removal.
	Deletion uint64
	// Removed is the revision of its removal; zero while the object exists.
	Removed uint64
	// Cause is the revision of the event because of which it was deleted; zero if the DELETE
	// names the object.
	Cause uint64
	// Created is true if the object was created after the DELETE.
	Created bool
	// Actor sent the DELETE, or is the service that acted.
	Actor string
}

func (m *member) String() string { return named(m.Resource, m.Namespace, m.Name) }

// loss is the removal of references from an object.
type loss struct {
	UID, Resource, Namespace, Name string
	Revision                       uint64
	References                     []*client.OwnerReference
	// Shared: the event is about several objects, and has the references that any of them has lost.
	Shared bool
}

// logEvent is an event of the log, with the index of its command in the commit.
type logEvent struct {
	client.LogEvent
	Command uint32
	Shared  bool // one event of the log stands for this and others
}

// named returns a name for people: "pods/web-1 (shop)".
func named(resource, namespace, name string) string {
	if namespace == "" {
		return resource + "/" + name
	}
	return fmt.Sprintf("%s/%s (%s)", resource, name, namespace)
}

// newCascade returns the cascade of the DELETE at a revision. Add must get all commits from the
// one with this revision on.
func newCascade(revision uint64) *cascade {
	return &cascade{
		Revision: revision, byUID: map[string]*member{}, revisions: map[uint64]bool{}, created: map[string]bool{},
		restored: map[uint64][]string{},
	}
}

// newSelection returns a cascade whose members are the objects with these uids, and no others.
// Add must get all commits from the first deletion of one of them on.
func newSelection(uids map[string]bool) *cascade {
	c := newCascade(0)
	c.only = uids
	return c
}

const (
	typeCreated  = "ObjectCreated"
	typeMarked   = "DeletionMarked"
	typeStripped = "OwnerReferencesRemoved"
	typeDeleted  = "ObjectDeleted"
)

// Add adds the events of the next commit. The first one must have the event with the revision of
// the cascade.
func (c *cascade) Add(commit *coppicev1.Commit, resources func(apiVersion, kind string) string) error {
	events := expand(commit, resources)
	return c.add(events, func(command uint32) bool {
		list := commit.GetCommands()
		return c.part != 0 && int(command) < len(list) && list[command].GetPreviousPart() == c.part
	}, func(command uint32) {
		c.part = 0
		if list := commit.GetCommands(); int(command) < len(list) && list[command].GetUnfinished() {
			c.part = commit.GetSequence()
		}
	})
}

// expand returns the events of a commit about objects, in order.
func expand(commit *coppicev1.Commit, resources func(apiVersion, kind string) string) []logEvent {
	var all []logEvent
	one := &coppicev1.Commit{
		FirstRevision: commit.GetFirstRevision(), Time: commit.GetTime(), Commands: commit.GetCommands(),
		Resources: commit.GetResources(), Namespaces: commit.GetNamespaces(),
	}
	for _, e := range commit.GetEvents() {
		one.Events = []*coppicev1.Event{e}
		list := client.Events(one, resources)
		for i := range list {
			all = append(all, logEvent{list[i], e.GetCommand(), len(list) > 1})
		}
		one.FirstRevision += uint64(len(list))
	}
	return all
}

// add adds the events of one commit. continues reports whether a command of the commit is the next
// part of the DELETE, and root notes that a command is the DELETE.
func (c *cascade) add(events []logEvent, continues func(command uint32) bool, root func(command uint32)) error {
	if len(events) > 0 {
		c.last = events[len(events)-1].Revision
	}
	if len(c.Members) == 0 && c.only == nil {
		return c.first(events, root)
	}
	part := c.part
	for i := range events {
		e := &events[i]
		if requested(e) && deletes(e) && part != 0 && continues(e.Command) {
			c.join(e)
			continue
		}
		c.next(e)
	}
	for i := range events {
		if part != 0 && continues(events[i].Command) {
			root(events[i].Command)
			break
		}
	}
	return nil
}

// first adds the commit with the DELETE.
func (c *cascade) first(events []logEvent, root func(uint32)) error {
	var is *logEvent
	for i := range events {
		if events[i].Revision == c.Revision {
			is = &events[i]
		}
	}
	switch {
	case is == nil:
		return fmt.Errorf("revision %d is no event about an object; 'coppice events' shows the revisions of deletions", c.Revision)
	case is.Type == typeDeleted && is.Reason == coppicev1.Reason_REASON_FINALIZED:
		return fmt.Errorf("revision %d completed the deletion of %s, which began at revision %d: restore --cascade-of %d",
			c.Revision, named(is.Resource, is.Namespace, is.Name), is.Cause, is.Cause)
	case !deletes(is):
		return fmt.Errorf("revision %d is no deletion: it is %s of %s; 'coppice events' shows the revisions of deletions",
			c.Revision, is.Type, named(is.Resource, is.Namespace, is.Name))
	}
	together := requested(is) || is.Reason == coppicev1.Reason_REASON_UNREACHABLE
	for i := range events {
		e := &events[i]
		if e == is || together && e.Command == is.Command && e.Reason == is.Reason && deletes(e) {
			c.join(e)
		} else if e.Revision > c.Revision {
			c.next(e)
		}
	}
	root(is.Command)
	return nil
}

func deletes(e *logEvent) bool { return e.Type == typeMarked || e.Type == typeDeleted }

func requested(e *logEvent) bool { return e.Reason == coppicev1.Reason_REASON_REQUESTED }

// next adds an event that follows the DELETE.
func (c *cascade) next(e *logEvent) {
	switch {
	case e.Type == typeCreated && e.Reason == coppicev1.Reason_REASON_RESTORED:
		c.restored[e.Cause] = append(c.restored[e.Cause], e.UID)
		c.created[e.UID] = true
	case e.Type == typeCreated:
		c.created[e.UID] = true
	case deletes(e) && (c.byUID[e.UID] != nil || c.only == nil && c.revisions[e.Cause] || c.only[e.UID]):
		c.join(e)
	case e.Type == typeStripped:
		if reason := e.Reason; reason == coppicev1.Reason_REASON_OWNER_ORPHANS || reason == coppicev1.Reason_REASON_SOLID_OWNER_REMAINS {
			c.Lost = append(c.Lost, loss{e.UID, e.Resource, e.Namespace, e.Name, e.Revision, e.References, e.Shared})
		}
	}
}

// join adds an event of a member.
func (c *cascade) join(e *logEvent) {
	m := c.byUID[e.UID]
	if m == nil {
		m = &member{
			UID: e.UID, Resource: e.Resource, Namespace: e.Namespace, Name: e.Name, Deletion: e.Revision, Cause: e.Cause,
			Created: c.created[e.UID], Actor: e.Actor,
		}
		c.byUID[e.UID] = m
		c.Members = append(c.Members, m)
	}
	c.revisions[e.Revision] = true
	if e.Type == typeDeleted {
		m.Removed = e.Revision
	}
}

// Merge adds the members of another cascade, and what it says that this one does not.
func (c *cascade) Merge(o *cascade) {
	for _, m := range o.Members {
		if c.byUID[m.UID] == nil {
			c.byUID[m.UID] = m
			c.Members = append(c.Members, m)
		}
	}
	seen := map[string]bool{}
	key := func(l *loss) string { return fmt.Sprint(l.UID, " ", l.Revision) }
	for i := range c.Lost {
		seen[key(&c.Lost[i])] = true
	}
	for i := range o.Lost {
		if !seen[key(&o.Lost[i])] {
			c.Lost = append(c.Lost, o.Lost[i])
		}
	}
	maps.Copy(c.created, o.created)
	for cause, uids := range o.restored {
		if len(uids) > len(c.restored[cause]) {
			c.restored[cause] = uids
		}
	}
}

// Member returns the member with a uid, nil if there is none.
func (c *cascade) Member(uid string) *member { return c.byUID[uid] }

// Used reports whether an object that the cascade has removed, or that was created after the DELETE,
// has or had a uid.
func (c *cascade) Used(uid string) bool { return c.byUID[uid] != nil || c.created[uid] }

// Restored returns the uids under which a removed object was created again before.
func (c *cascade) Restored(m *member) []string { return c.restored[m.Removed] }
