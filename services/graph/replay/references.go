package replay

import (
	"slices"
	"strings"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// referral has the owners of an object after an event.
type referral struct {
	event  lifecycle.EventType
	object int32 // index of the object in candidates, or none
	// owners has the owners that are in candidates. others is true if there are more.
	owners []int32
	others bool
	// imported and governs say whether the object was imported and whether it configures
	// the realm.
	imported, governs bool
	identity          uint64
	survivor          *survivor // nil for an object in candidates
}

// survivor is an object that is not in candidates and therefore counts as existing at the end of
// the stretch. It has the object's references to candidates, or those that an event removes.
type survivor struct {
	uid        uid.UID
	references []lifecycle.OwnerReference
}

// referrals returns the referrals of the commit in a message.
func (e *elision) referrals(m eventlog.Message) (all []referral, err error) {
	if e.skipped[m.Position] {
		return nil, nil
	}
	err = withCommit(m, func(commit []byte) error {
		all, err = e.referralsOf(commit)
		return err
	})
	return all, err
}

func (e *elision) referralsOf(commit []byte) (all []referral, err error) {
	var object, owner cursor
	var owners []int32 // of all referrals
	err = eventlog.References(commit, func(event *lifecycle.Event) {
		r := referral{event: event.Type, object: e.candidates.find(event.UID, &object)}
		if r.object == none {
			r.survivor = &survivor{uid: event.UID, references: event.References}
		}
		if n := event.Object.Node; n != nil {
			from := len(owners)
			for _, o := range n.Owners {
				place := e.candidates.find(o.UID, &owner)
				switch {
				case place == none:
					r.others = true
					continue
				case r.survivor != nil:
					r.survivor.references = append(r.survivor.references, cloned(o))
				}
				owners = append(owners, place)
			}
			r.owners = owners[from:len(owners):len(owners)]
			// The rows of the objects that it uses change, and a protection that ends
			// changes those of its namespace and kind.
			r.others = r.others || len(n.Uses) > 0 || n.Protected()
			r.imported, r.governs = n.ImportTime != 0, lifecycle.Governs(n)
			if r.object != none && event.Type == lifecycle.ObjectCreated {
				r.identity = state.Identity(n)
			}
		}
		all = append(all, r)
	})
	return all, err
}

// cloned returns a reference that does not keep the memory of its node alive.
func cloned(o lifecycle.OwnerReference) lifecycle.OwnerReference {
	o.APIVersion, o.Kind, o.Name = strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name)
	o.UID = uid.UID(strings.Clone(string(o.UID)))
	return o
}

// note applies a referral. It is called in the order of the events.
func (e *elision) note(r *referral) {
	if r.object == none {
		e.survive(r)
		return
	}
	created := r.event == lifecycle.ObjectCreated
	switch c := &e.candidates.of[r.object]; {
	case c.liveness == lasting || r.imported:
		e.last(r.object)
		e.last(r.owners...)
	case created && !r.governs && !r.others && e.brief(r.owners) && len(e.many)+len(r.owners) < e.most.many:
		*c = candidate{identity: r.identity, owner: e.keep(r.owners), liveness: elided}
	case created, r.event == lifecycle.ObjectUpdated && c.liveness == elided && (r.others || !slices.Equal(r.owners, e.owners(c))):
		c.liveness = kept
	}
}

// brief reports whether all of some objects are brief and not known to be lasting.
func (e *elision) brief(objects []int32) bool {
	for _, o := range objects {
		if l := e.candidates.of[o].liveness; l == unseen || l == lasting {
			return false
		}
	}
	return true
}

// keep stores owners and returns candidate.owner for them: none for no owner, the index of
// a single owner, and for several a number below none that encodes their position in many.
func (e *elision) keep(owners []int32) int32 {
	switch len(owners) {
	case 0:
		return none
	case 1:
		return owners[0]
	}
	e.many = append(append(e.many, int32(len(owners))), owners...)
	return none - int32(len(e.many)-len(owners))
}

// owners returns the owners that keep has stored.
func (e *elision) owners(c *candidate) []int32 {
	switch {
	case c.owner == none:
		return nil
	case c.owner < none:
		at := none - c.owner
		return e.many[at : at+e.many[at-1]]
	}
	return []int32{c.owner}
}

// survive applies a referral of an object that exists at the end.
func (e *elision) survive(r *referral) {
	references := r.survivor.references
	before, had := e.survivors[r.survivor.uid]
	if r.event == lifecycle.OwnerReferencesRemoved {
		removal := lifecycle.Event{Type: r.event, References: references}
		references = removal.After(&lifecycle.Node{Owners: before}, 0).Owners
	}
	e.references += len(references) - len(before)
	switch {
	case len(references) > 0 && e.references > e.most.references && r.event != lifecycle.OwnerReferencesRemoved:
		e.references -= len(references)
		delete(e.survivors, r.survivor.uid)
		e.last(r.owners...)
	case len(references) > 0:
		e.survivors[uid.UID(strings.Clone(string(r.survivor.uid)))] = references
	case had:
		delete(e.survivors, r.survivor.uid)
	}
}

// last marks objects as lasting.
func (e *elision) last(objects ...int32) {
	for _, o := range objects {
		e.candidates.of[o].liveness, e.pinned = lasting, true
	}
}
