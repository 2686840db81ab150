package model_test

import (
	"encoding/json"
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
	brakes   []*coppicev1.Event
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
		case *coppicev1.Event_Brake, *coppicev1.Event_Released:
			c.brakes = append(c.brakes, e)
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
		protector: protector(n.GetProtection().GetActor(), n.GetProtection().GetReason()), shielded: n.GetProtection().GetTime(),
		policies: n.GetProtection().GetPolicies(), expires: n.GetExpiresAt(),
	}
	for _, u := range n.GetUses() {
		o.uses = append(o.uses, use{u.GetGroup(), u.GetKind(), u.GetName(), uid.UID(u.GetUid()).String()})
	}
	if n.DeletionGracePeriod != nil {
		o.grace = n.GetDeletionGracePeriod()
	}
	if n.Grace != nil {
		o.agent = n.GetGrace()
	}
	if b != nil {
		o.labels, o.spec, o.status = labelText(b.GetLabels()), canonical(b.GetSpec()), statusOf(group, n.GetKind(), b.GetStatus())
		o.applied = appliedOf(b)
		if isPolicy(o) {
			o.walked = walkedOf(b.GetStatus())
		}
	} else if before != nil {
		o.labels, o.spec, o.status, o.walked, o.applied = before.labels, before.spec, before.status, before.walked, before.applied
	}
	return o
}

// protector says who protects an object, "" if no client does.
func protector(actor, reason string) string {
	if reason == "" {
		return ""
	}
	return actor + ": " + reason
}

// statusOf returns a status in canonical form. Those of policies are not compared; see
// walkedOf.
func statusOf(group, kind string, raw []byte) string {
	if isPolicy(&object{group: group, kind: kind}) || isExpiryPolicy(&object{group: group, kind: kind}) {
		return ""
	}
	return canonical(raw)
}

// walkedOf returns the generation of a protection policy of which the walk is complete, 0 if
// it is of none.
func walkedOf(status []byte) int64 {
	var s struct {
		ObservedGeneration int64
		Complete           bool
	}
	if err := json.Unmarshal(status, &s); err != nil {
		panic(err)
	}
	if !s.Complete {
		return 0
	}
	return s.ObservedGeneration
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
