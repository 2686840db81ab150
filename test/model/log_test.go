package model_test

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-gc/coppice/internal/codec/envelope"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// step is an event for one object, as the log has it.
type step struct {
	command  int
	reason   string
	cause    uint64
	revision uint64
	uid      string
	// after returns the object after the event, given the object before it; nil for its
	// removal.
	after func(before *object) *object
	what  string
	names []string // finalizers that were removed
}

// commit is a message of the log.
type commit struct {
	now      int64
	commands []*coppicev1.Command
	ids      []uuid.UUID
	steps    []step
	sessions []*coppicev1.Event
}

// decodeCommit reads a commit by its documented encoding.
func decodeCommit(data []byte) (*commit, error) {
	data, err := envelope.Open(data)
	if err != nil {
		return nil, err
	}
	var p coppicev1.Commit
	if err := proto.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	c := &commit{now: p.GetTime(), commands: p.GetCommands()}
	for _, k := range p.GetCommands() {
		id, _ := uuid.FromBytes(k.GetId())
		c.ids = append(c.ids, id)
	}
	revision := p.GetFirstRevision()
	for _, e := range p.GetEvents() {
		add := func(u uid.UID, cause uint64, what string, names []string, after func(*object) *object) {
			c.steps = append(c.steps, step{int(e.GetCommand()), e.GetReason().String()[len("REASON_"):], cause, revision, u.String(), after, what, names})
			revision++
		}
		each := func(ids *coppicev1.Identities, what string, names []string, after func(*object) *object) {
			i, cause := 0, e.GetCause()
			for u := range uid.All(ids.GetUids()) {
				if len(ids.GetCauses()) > i && i > 0 {
					cause += uint64(ids.GetCauses()[i])
				}
				add(u, cause, what, names, after)
				i++
			}
		}
		switch v := e.GetEvent().(type) {
		case *coppicev1.Event_Created:
			n, body := v.Created.GetNode(), v.Created.GetBody()
			add(uid.UID(n.GetUid()), e.GetCause(), "created", nil, func(before *object) *object { return read(n, body, before) })
		case *coppicev1.Event_Updated:
			n, body := v.Updated.GetNode(), v.Updated.GetBody()
			add(uid.UID(n.GetUid()), e.GetCause(), "updated", nil, func(before *object) *object { return read(n, body, before) })
		case *coppicev1.Event_DeletionMarked:
			mark := v.DeletionMarked
			each(mark.GetObject(), "marked", nil, func(before *object) *object {
				o := *before
				o.deleted, o.grace, o.generation, o.finalizers, o.awaited = mark.GetDeletionTime(), none, mark.GetGeneration(), mark.GetFinalizers(), mark.GetAwaitedGeneration()
				if mark.DeletionGracePeriod != nil {
					o.grace = mark.GetDeletionGracePeriod()
				}
				o.marked = 0
				return &o
			})
		case *coppicev1.Event_OwnerReferencesRemoved:
			gone := refs(v.OwnerReferencesRemoved.GetReferences())
			each(v.OwnerReferencesRemoved.GetObjects(), "stripped", nil, func(before *object) *object {
				o := *before
				o.owners = nil
				for _, r := range before.owners {
					if !slices.ContainsFunc(gone, func(g ref) bool { return sameOwner(g, r) }) {
						o.owners = append(o.owners, r)
					}
				}
				return &o
			})
		case *coppicev1.Event_FinalizerRemoved:
			f := v.FinalizerRemoved.GetFinalizer()
			each(v.FinalizerRemoved.GetObjects(), "unfinalized", []string{f}, func(before *object) *object {
				o := *before
				o.finalizers = slices.DeleteFunc(slices.Clone(o.finalizers), func(is string) bool { return is == f })
				return &o
			})
		case *coppicev1.Event_Deleted:
			each(v.Deleted.GetObjects(), "deleted", v.Deleted.GetFinalizers(), func(*object) *object { return nil })
		case *coppicev1.Event_ImportSession:
			c.sessions = append(c.sessions, e)
		default:
			return nil, fmt.Errorf("an event of type %T", v)
		}
	}
	return c, nil
}

// read returns the object of a node and a body. Without a body, the parts in the body are
// those of the object before.
func read(n *coppicev1.Node, b *coppicev1.Body, before *object) *object {
	group, version := split(n.GetApiVersion())
	o := &object{
		uid: uid.UID(n.GetUid()).String(), group: group, version: version, kind: n.GetKind(), ns: n.GetNamespace(), name: n.GetName(),
		generation: n.GetGeneration(), created: n.GetCreationTime(), owners: refs(n.GetOwners()), finalizers: n.GetFinalizers(),
		deleted: n.GetDeletionTime(), grace: none, imported: n.GetImportTime(), session: n.GetImportSession(),
		agent: none, observed: n.GetObservedGeneration(), awaited: n.GetAwaitedGeneration(), pending: n.GetInitializers(),
		failed: n.GetInitializationFailed(), marked: n.GetDeletionRevision(),
	}
	if n.DeletionGracePeriod != nil {
		o.grace = n.GetDeletionGracePeriod()
	}
	if n.Grace != nil {
		o.agent = n.GetGrace()
	}
	if b != nil {
		o.labels, o.spec, o.status = labelText(b.GetLabels()), canonical(b.GetSpec()), canonical(b.GetStatus())
	} else if before != nil {
		o.labels, o.spec, o.status = before.labels, before.spec, before.status
	}
	return o
}

func split(apiVersion string) (group, version string) {
	for i := range len(apiVersion) {
		if apiVersion[i] == '/' {
			return apiVersion[:i], apiVersion[i+1:]
		}
	}
	return "", apiVersion
}

func refs(owners []*coppicev1.NodeOwner) (list []ref) {
	for _, r := range owners {
		group, version := split(r.GetApiVersion())
		list = append(list, ref{group, version, r.GetKind(), r.GetName(), uid.UID(r.GetUid()).String(), tri(r.Controller), tri(r.BlockOwnerDeletion)})
	}
	return list
}

func tri(b *bool) string {
	if b == nil {
		return ""
	}
	return fmt.Sprint(*b)
}
