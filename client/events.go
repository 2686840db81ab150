package client

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// LogEvent is an event of the log about one object, or about the realm.
type LogEvent struct {
	// Revision is zero for an event about the realm.
	Revision uint64
	Time     time.Time
	// Type is the name of the event: ObjectCreated, DeletionMarked, ...
	Type string
	// Resource, Namespace, Name and UID are empty for an event about the realm.
	Resource  string
	Namespace string
	Name      string
	UID       string
	// Actor and Verb identify the command. Note is what the actor noted about it.
	Actor, Verb, Note string
	// Command is the id of the command, a UUID; empty if its sender gave none.
	Command string
	// Reason says why the event happened, such as REASON_OWNER_ABSENT.
	Reason coppicev1.Reason
	// Cause is the revision of the event that caused this one; zero if none did.
	Cause uint64
	// Detail has the finalizers, owner references or initializers of the event, or what an event
	// about the realm says.
	Detail string
	// References are the owner references that an object has after ObjectCreated or ObjectUpdated,
	// or that an OwnerReferencesRemoved event removed. An OwnerReferencesRemoved
	// event about several objects has one list for all of them, with the controller and
	// blockOwnerDeletion of one of the objects: those of the others may differ.
	References []*OwnerReference
}

// Events returns the events of a commit about objects, in order. resources translates
// kinds to resources, as Kinds.ResourceName does.
func Events(c *Commit, resources func(apiVersion, kind string) string) []LogEvent {
	x := expander{c: c, resources: resources, revision: c.GetFirstRevision()}
	for _, e := range c.GetEvents() {
		x.event(e)
	}
	return x.out
}

type expander struct {
	c         *Commit
	resources func(apiVersion, kind string) string
	revision  uint64
	out       []LogEvent
}

func (x *expander) event(e *coppicev1.Event) {
	base := LogEvent{Time: time.UnixMicro(x.c.GetTime()).UTC(), Reason: e.GetReason(), Cause: e.GetCause()}
	if i := int(e.GetCommand()); i < len(x.c.GetCommands()) {
		command := x.c.GetCommands()[i]
		base.Actor, base.Verb, base.Note = command.GetActor(), command.GetVerb(), command.GetNote()
		if id, err := uuid.FromBytes(command.GetId()); err == nil {
			base.Command = id.String()
		}
	}
	switch v := e.GetEvent().(type) {
	case *coppicev1.Event_Created:
		base.Detail = initialization(v.Created.GetNode(), v.Created.GetBody())
		base.References = references(v.Created.GetNode().GetOwners())
		x.object(base, "ObjectCreated", v.Created.GetNode())
	case *coppicev1.Event_Updated:
		base.Detail = initialization(v.Updated.GetNode(), v.Updated.GetBody())
		base.References = references(v.Updated.GetNode().GetOwners())
		x.object(base, "ObjectUpdated", v.Updated.GetNode())
	case *coppicev1.Event_DeletionMarked:
		base.Detail = detail("finalizers", v.DeletionMarked.GetFinalizers())
		if g := v.DeletionMarked.GetDeletionGracePeriod(); g > 0 {
			base.Detail = strings.TrimSpace(fmt.Sprintf("grace period %ds  %s", g, base.Detail))
		}
		x.columns(base, "DeletionMarked", v.DeletionMarked.GetObject())
	case *coppicev1.Event_OwnerReferencesRemoved:
		var names []string
		for _, r := range v.OwnerReferencesRemoved.GetReferences() {
			names = append(names, x.resources(r.GetApiVersion(), r.GetKind())+"/"+r.GetName())
		}
		base.Detail = detail("references to", names)
		base.References = references(v.OwnerReferencesRemoved.GetReferences())
		x.columns(base, "OwnerReferencesRemoved", v.OwnerReferencesRemoved.GetObjects())
	case *coppicev1.Event_FinalizerRemoved:
		base.Detail = v.FinalizerRemoved.GetFinalizer()
		x.columns(base, "FinalizerRemoved", v.FinalizerRemoved.GetObjects())
	case *coppicev1.Event_LeftOut:
		x.revision += v.LeftOut.GetRevisions()
	case *coppicev1.Event_Deleted:
		base.Detail = detail("last finalizers", v.Deleted.GetFinalizers())
		x.columns(base, "ObjectDeleted", v.Deleted.GetObjects())
	}
}

func references(list []*coppicev1.NodeOwner) []*OwnerReference {
	if len(list) == 0 {
		return nil
	}
	refs := make([]*OwnerReference, len(list))
	for i, r := range list {
		refs[i] = &OwnerReference{
			ApiVersion: r.GetApiVersion(), Kind: r.GetKind(), Name: r.GetName(), Uid: uid.UID(r.GetUid()).String(),
			Controller: r.Controller, BlockOwnerDeletion: r.BlockOwnerDeletion,
		}
	}
	return refs
}

// initialization describes the initializers for which an object waits, or the one that
// failed.
func initialization(n *coppicev1.Node, b *coppicev1.Body) string {
	if !n.GetInitializationFailed() {
		return detail("initializers", n.GetInitializers())
	}
	const failed = "initialization failed"
	if why := b.GetInitializersResult().GetMessage(); why != "" {
		return failed + ": " + why
	}
	return failed
}

func detail(what string, list []string) string {
	if len(list) == 0 {
		return ""
	}
	s := what
	for i, e := range list {
		if i > 0 {
			s += ","
		}
		s += " " + e
	}
	return s
}

func (x *expander) object(e LogEvent, typ string, n *coppicev1.Node) {
	e.Type, e.Revision = typ, x.revision
	x.revision++
	e.Resource = x.resources(n.GetApiVersion(), n.GetKind())
	e.Namespace, e.Name, e.UID = n.GetNamespace(), n.GetName(), uid.UID(n.GetUid()).String()
	x.out = append(x.out, e)
}

func (x *expander) columns(e LogEvent, typ string, ids *coppicev1.Identities) {
	e.Type = typ
	at := func(column []uint32, i int, table []string) string {
		if len(column) == 1 {
			i = 0
		}
		if i >= len(column) || int(column[i]) >= len(table) {
			return ""
		}
		return table[column[i]]
	}
	i := 0
	for u := range uid.All(ids.GetUids()) {
		e.Revision = x.revision
		x.revision++
		e.UID = u.String()
		e.Resource = at(ids.GetResources(), i, x.c.GetResources())
		e.Namespace = at(ids.GetNamespaces(), i, x.c.GetNamespaces())
		if i < len(ids.GetNames()) {
			e.Name = ids.GetNames()[i]
		}
		if i < len(ids.GetCauses()) {
			e.Cause = uint64(int64(e.Cause) + ids.GetCauses()[i])
		}
		x.out = append(x.out, e)
		i++
	}
}

// Key returns the object as "pods/web-1".
func (e LogEvent) Key() string { return e.Resource + "/" + e.Name }
