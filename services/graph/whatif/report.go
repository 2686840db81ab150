package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	coppicev1 "github.com/coppice-gc/coppice/proto/coppice/v1"
)

// Report is the outcome of a what-if.
type Report struct {
	Revision uint64 `json:"revision"` // of the log
	// Objects that the log and the other settings leave differently, ordered by resource,
	// namespace, name and uid.
	Objects []Difference `json:"objects"`
	// Dropped are events of users that no longer apply, in the order of the log.
	Dropped []Dropped `json:"dropped"`
}

// Object names an object.
type Object struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns the object as other commands print it.
func (o Object) String() string {
	text := o.Resource + "/" + o.Name
	if o.Namespace != "" {
		text += " (" + o.Namespace + ")"
	}
	return text
}

// Difference is an object that the two realms have differently.
type Difference struct {
	Object
	Log    Final `json:"log"`
	WhatIf Final `json:"whatIf"`
}

// The states of an object.
const (
	StateNone        = "not created"
	StateKept        = "kept"
	StateTerminating = "being deleted"
	StateRemoved     = "removed"
)

// Final is the final state of an object in one of the two realms.
type Final struct {
	State string `json:"state"`
	// Owners and Finalizers are those of an object that exists.
	Owners     []string `json:"owners,omitempty"`
	Finalizers []string `json:"finalizers,omitempty"`
	// Causes are the events that led to the removal or the deletion mark, the last first. For an
	// object that is kept, it is the last event that changed it.
	Causes []Cause `json:"causes,omitempty"`

	owners []lifecycle.OwnerReference
}

// Cause is an event of the chain of causes. Revisions of the other realm are its own.
type Cause struct {
	Revision uint64    `json:"revision"`
	Time     time.Time `json:"time"`
	Event    string    `json:"event"`
	Object   string    `json:"object"`
	Reason   string    `json:"reason"`
	Actor    string    `json:"actor,omitempty"` // of the command; empty for the collector of the other realm
}

// Dropped is an event of a user that no longer applies.
type Dropped struct {
	Revision uint64 `json:"revision"`
	Event    string `json:"event"`
	Object   Object `json:"object"`
	Actor    string `json:"actor"`
	Why      string `json:"why"`
}

func eventName(t lifecycle.EventType) string {
	return [...]string{"", "ObjectCreated", "ObjectUpdated", "DeletionMarked", "OwnerReferencesRemoved", "FinalizerRemoved", "ObjectDeleted"}[t]
}

func reasonName(r coppicev1.Reason) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(r.String(), "REASON_"), "_", " "))
}

func objectOf(kinds *lifecycle.Kinds, u uid.UID, at lifecycle.Coordinates) Object {
	resource := lifecycle.ResourceName(at.Group, at.Kind)
	if k := kinds.Of(at.Group, at.Kind); k != nil {
		resource = k.Resource()
	}
	return Object{Resource: resource, Namespace: at.Namespace, Name: at.Name, UID: u.String()}
}

// report compares the two realms.
func (r *replay) report() *Report {
	p := &Report{Revision: r.log.realm.Revision, Objects: []Difference{}, Dropped: append([]Dropped{}, r.dropped...)}
	all := maps.Clone(r.log.last)
	maps.Copy(all, r.other.last)
	for u := range all {
		if u == settingsUID {
			continue
		}
		log, other := r.log.final(u), r.other.final(u)
		if log.State == other.State && slices.Equal(log.owners, other.owners) && slices.Equal(log.Finalizers, other.Finalizers) {
			continue
		}
		side := r.log
		if side.last[u] == 0 {
			side = r.other
		}
		at := side.events[side.last[u]].at
		if r.settings.realm != nil && at.Group == lifecycle.Group && at.Kind == "Realm" {
			continue
		}
		p.Objects = append(p.Objects, Difference{objectOf(side.realm.Kinds(), u, at), log, other})
	}
	slices.SortFunc(p.Objects, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return p
}

// final returns the final state of an object.
func (s *side) final(u uid.UID) (f Final) {
	n, last := s.realm.Node(u), s.last[u]
	switch {
	case last == 0:
		return Final{State: StateNone}
	case n == nil:
		f.State = StateRemoved
	case n.Terminating():
		f.State, last = StateTerminating, n.DeletionRevision
	default:
		f.State = StateKept
	}
	if n != nil {
		f.Finalizers = slices.Sorted(slices.Values(n.Finalizers))
		of := lifecycle.NewClassifier(s.realm, n, s.realm.Clock)
		for i := range n.Owners {
			o := &n.Owners[i]
			class := of.Classify(o)
			f.Owners = append(f.Owners, fmt.Sprintf("%s/%s: %s", o.Kind, o.Name, class.Why(s.realm, n, o)))
		}
		f.owners = slices.SortedFunc(slices.Values(n.Owners), func(a, b lifecycle.OwnerReference) int { return cmp.Compare(a.UID, b.UID) })
	}
	f.Causes = s.causes(last)
	return f
}

// maxCauses bounds a chain of causes.
const maxCauses = 32

func (s *side) causes(revision uint64) (chain []Cause) {
	for revision != 0 && len(chain) < maxCauses {
		h, ok := s.events[revision]
		if !ok {
			break
		}
		chain = append(chain, Cause{
			Revision: revision, Time: h.time.Time().UTC(), Event: eventName(h.typ), Object: objectOf(s.realm.Kinds(), h.uid, h.at).String(), Reason: reasonName(h.reason), Actor: h.actor,
		})
		if h.cause >= revision {
			break
		}
		revision = h.cause
	}
	return chain
}
