package graph

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/coppice-gc/coppice/internal/lifecycle"
	"github.com/coppice-gc/coppice/internal/uid"
	"github.com/coppice-gc/coppice/services/graph/eventlog"
	"github.com/coppice-gc/coppice/services/graph/state"
)

// foresight is what is known of a stretch of the log before it is folded: which
// objects are created there and removed again and leave no trace in the state at
// the end of the stretch. Of a log that is as old as most of its objects were
// short-lived, that is nearly all, and a fold that leaves them out has little to
// write.
//
// To be left out, an object must change nothing that outlasts it. Beside its own
// rows, it changes those of its owners: counters, what is owed, that it has had a
// dependent, and those remember more than how many dependents there are now. So
// each owner that it ever refers to must itself be gone at the end, together with
// all that is kept of it, which is as long as any object refers to it. Then what
// the rows were meanwhile does not matter, as there are none.
//
//   - An object is brief if it is created through the API and removed, in the stretch.
//   - A brief object is forgotten if no object refers to it at the end.
//   - A brief object is left out if it and all owners that it ever has are
//     forgotten, and it does not govern the realm.
//
// Nobody refers to a uid before the object is created unless uids are brought by
// import, and objects that are imported are not brief.
//
// Once it is made, a foresight is safe for concurrent use.
type foresight struct {
	// until is where the stretch ends in the stream, commit the sequence of the last
	// commit in it.
	until, commit uint64
	most          bounds
	// fates has the objects that are removed.
	fates fates
	// pinned: some of them are lasting.
	pinned bool
	// many has the owners of those that have more than one: how many, and which.
	many []int32
	// survivors are the objects that refer to some in fates, with these references.
	survivors  map[uid.UID][]lifecycle.OwnerReference
	references int // of all survivors
	// skipped are the sequences of messages that are no commits.
	skipped map[uint64]bool
}

// fate is what is known of an object that is removed.
type fate struct {
	identity uint64 // see state.Identity
	owner    int32  // its place in fates, or none, or below that for where in many they are
	lot      lot
}

type lot uint8

const (
	unborn  lot = iota // not seen to be created: it is older than the stretch, as far as is known
	leftOut            // brief, and left out if neither it nor an owner turns out to be lasting
	kept               // brief, but not left out
	lasting            // not forgotten
)

// none stands for the place of an object that is not in fates.
const none = -1

// bounds are how much a foresight knows at most.
type bounds struct {
	// fates are the objects that are removed: with more, the stretch ends, and
	// the next one has the others.
	fates int
	// many are owners of objects with more than one: with more, they are not left out.
	many int
	// references are those of objects that survive: of more it is not remembered
	// when they are not there any more.
	references int
	// skipped are messages that are no commits: with more, the stretch ends.
	skipped int
}

// memoryBounds keep a foresight to some 250 MiB.
var memoryBounds = bounds{fates: 4 << 20, many: 4 << 20, references: 1 << 18, skipped: 1 << 18}

// errForeseen ends a pass through the log.
var errForeseen = errors.New("foreseen")

// foresee reads a stretch of the log, from one sequence until another, or less if
// there is too much to know, twice: who is removed, and who refers to them. chain is
// the place before it.
func foresee(ctx context.Context, log source, keys *eventlog.Keys, chain eventlog.Chain, from, until uint64, most bounds) (*foresight, error) {
	s := &foresight{most: most, survivors: map[uid.UID][]lifecycle.OwnerReference{}, skipped: map[uint64]bool{}}
	decode := func(m eventlog.Message) (*outline, error) { return outlineOf(keys, m) }
	err := readAhead(ctx, log, from, decode, func(m eventlog.Message, o *outline) error {
		s.until = m.Sequence
		if o == nil || chain.Skips(&o.header) != "" {
			s.skipped[m.Sequence] = true
		} else {
			if err := chain.Follow(m.Sequence, &o.header, o.newKey, o.checksum); err != nil {
				return err
			}
			s.commit = chain.Sequence
			s.fates.add(o.removed...)
		}
		if len(s.fates.keys) >= most.fates || len(s.skipped) >= most.skipped || m.Sequence >= until {
			return errForeseen
		}
		return nil
	})
	if !errors.Is(err, errForeseen) {
		return nil, err
	}
	if s.fates.sort(); len(s.fates.keys) == 0 {
		return s, nil
	}
	err = readAhead(ctx, log, from, s.referrals, func(m eventlog.Message, all []referral) error {
		for i := range all {
			s.note(&all[i])
		}
		if m.Sequence >= s.until {
			return errForeseen
		}
		return nil
	})
	if !errors.Is(err, errForeseen) {
		return nil, err
	}
	s.end()
	return s, nil
}

// rooms are for commits that are open only for as long as they are looked at.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// look has a commit looked at, of which nothing is kept.
func look(m eventlog.Message, at func(commit []byte) error) error {
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	commit, err := m.Open(room)
	if err != nil {
		return err
	}
	return at(commit)
}

// outline is what the first pass has to know of a commit.
type outline struct {
	header   eventlog.Header
	newKey   eventlog.KeyID
	checksum uint64
	removed  []fateKey // the objects that it removes
}

// outlineOf returns the outline of a message, nil if it is no commit of the realm.
func outlineOf(keys *eventlog.Keys, m eventlog.Message) (o *outline, err error) {
	h, foreign := keys.Check(m)
	if foreign != "" {
		return nil, nil //nolint:nilnil // there is no outline
	}
	o = &outline{header: h}
	err = look(m, func(commit []byte) error {
		o.checksum = eventlog.Checksum(commit)
		if o.newKey, err = eventlog.NewKeyOf(commit); err != nil {
			return err
		}
		return eventlog.Removals(commit, func(u uid.UID) {
			if k, ok := fateKeyOf(u); ok {
				o.removed = append(o.removed, k)
			}
		})
	})
	return o, err
}

// referral is what an event says of whom an object refers to.
type referral struct {
	event  lifecycle.EventType
	object int32 // its place in fates, or none
	// owners are those of its owners that are in fates. others: it has more.
	owners []int32
	others bool
	// imported and governs are what the object does.
	imported, governs bool
	identity          uint64
	survivor          *survivor // nil for what is in fates
}

// survivor is an object that is there at the end of the stretch, with those of
// its references that are to objects in fates, or with those removed.
type survivor struct {
	uid        uid.UID
	references []lifecycle.OwnerReference
}

// referrals are what the events of a commit say of who refers to whom.
func (s *foresight) referrals(m eventlog.Message) (all []referral, err error) {
	if s.skipped[m.Sequence] {
		return nil, nil
	}
	err = look(m, func(commit []byte) error {
		all, err = s.referralsOf(commit)
		return err
	})
	return all, err
}

func (s *foresight) referralsOf(commit []byte) (all []referral, err error) {
	var object, owner cursor
	var owners []int32 // of all
	err = eventlog.References(commit, func(e *lifecycle.Event) {
		r := referral{event: e.Type, object: s.fates.find(e.UID, &object)}
		if r.object == none {
			r.survivor = &survivor{uid: e.UID, references: e.References}
		}
		if n := e.Object.Node; n != nil {
			from := len(owners)
			for _, o := range n.Owners {
				place := s.fates.find(o.UID, &owner)
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
			r.imported, r.governs = n.ImportTime != 0, lifecycle.Governs(n)
			if r.object != none && e.Type == lifecycle.ObjectCreated {
				r.identity = state.Identity(n)
			}
		}
		all = append(all, r)
	})
	return all, err
}

// cloned is a reference without the memory of the node that it stood in.
func cloned(o lifecycle.OwnerReference) lifecycle.OwnerReference {
	o.APIVersion, o.Kind, o.Name = strings.Clone(o.APIVersion), strings.Clone(o.Kind), strings.Clone(o.Name)
	o.UID = uid.UID(strings.Clone(string(o.UID)))
	return o
}

// note takes note of the events in their order.
func (s *foresight) note(r *referral) {
	if r.object == none {
		s.survive(r)
		return
	}
	created := r.event == lifecycle.ObjectCreated
	switch f := &s.fates.of[r.object]; {
	case f.lot == lasting || r.imported:
		s.last(r.object)
		s.last(r.owners...)
	case created && !r.governs && !r.others && s.brief(r.owners) && len(s.many)+len(r.owners) < s.most.many:
		*f = fate{identity: r.identity, owner: s.keep(r.owners), lot: leftOut}
	case created, r.event == lifecycle.ObjectUpdated && f.lot == leftOut && (r.others || !slices.Equal(r.owners, s.owners(f))):
		f.lot = kept
	}
}

// brief reports whether all of some objects are brief, as far as is known.
func (s *foresight) brief(objects []int32) bool {
	for _, o := range objects {
		if l := s.fates.of[o].lot; l == unborn || l == lasting {
			return false
		}
	}
	return true
}

// keep returns what a fate has for the owners.
func (s *foresight) keep(owners []int32) int32 {
	switch len(owners) {
	case 0:
		return none
	case 1:
		return owners[0]
	}
	s.many = append(append(s.many, int32(len(owners))), owners...)
	return none - int32(len(s.many)-len(owners))
}

// owners are those that keep has kept.
func (s *foresight) owners(f *fate) []int32 {
	switch {
	case f.owner == none:
		return nil
	case f.owner < none:
		at := none - f.owner
		return s.many[at : at+s.many[at-1]]
	}
	return []int32{f.owner}
}

// survive takes note of an event of an object that is there at the end.
func (s *foresight) survive(r *referral) {
	references := r.survivor.references
	before, had := s.survivors[r.survivor.uid]
	if r.event == lifecycle.OwnerReferencesRemoved {
		e := lifecycle.Event{Type: r.event, References: references}
		references = e.After(&lifecycle.Node{Owners: before}, 0).Owners
	}
	s.references += len(references) - len(before)
	switch {
	case len(references) > 0 && s.references > s.most.references && r.event != lifecycle.OwnerReferencesRemoved:
		s.references -= len(references)
		delete(s.survivors, r.survivor.uid)
		s.last(r.owners...)
	case len(references) > 0:
		s.survivors[uid.UID(strings.Clone(string(r.survivor.uid)))] = references
	case had:
		delete(s.survivors, r.survivor.uid)
	}
}

// last says that objects are not forgotten.
func (s *foresight) last(objects ...int32) {
	for _, o := range objects {
		s.fates.of[o].lot, s.pinned = lasting, true
	}
}

// end ends the second pass: what a survivor still refers to is not forgotten, and
// nothing is left out that had such an owner.
func (s *foresight) end() {
	var at cursor
	for _, references := range s.survivors {
		for i := range references {
			s.last(s.fates.find(references[i].UID, &at))
		}
	}
	left := 0
	for i := range s.fates.of {
		f := &s.fates.of[i]
		if s.pinned && f.lot == leftOut && !s.brief(s.owners(f)) {
			f.lot = kept
		}
		if f.lot == leftOut {
			left++
		}
	}
	if left == 0 {
		s.fates = fates{}
	}
	s.survivors, s.many = nil, nil
}

// filter returns what leaves out objects when a commit is unpacked.
func (s *foresight) filter() eventlog.Filter {
	if s == nil || len(s.fates.keys) == 0 {
		return nil
	}
	var at cursor
	return func(u uid.UID) (identity uint64, pass bool) {
		if place := s.fates.find(u, &at); place != none {
			f := &s.fates.of[place]
			return f.identity, f.lot == leftOut
		}
		return 0, false
	}
}
